"""Forests: influences against a literal loop and against leaf means taken with other weights."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from sklearn.ensemble import (
    AdaBoostRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.ensemble._forest import _generate_sample_indices
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import rue
from rue.core.errors import DataError, ModelError, RueWarning, SettingError
from rue.core.resample import BayesianBootstrap, Multinomial, Poisson
from rue.methods.forest_rue import ForestRUE
from rue.models.trees.scikit_learn import read
from tree_cases import table, targets

N = 120


read_forest = rue.wrap


def numbers(**more):
    return RandomForestRegressor(12, min_samples_leaf=3, random_state=0, **more)


def labels(**more):
    return RandomForestClassifier(12, min_samples_leaf=3, random_state=0, **more)


def counts(forest, n, weight=None, size=None):
    """How often each row is in each tree: (T, n)."""
    if not forest.bootstrap:
        return (
            np.ones((len(forest.estimators_), n)) if weight is None else np.tile(weight, (len(forest.estimators_), 1))
        )
    drawn = [_generate_sample_indices(tree.random_state, n, size or n, weight) for tree in forest.estimators_]
    return np.array([np.bincount(rows, minlength=n) for rows in drawn], dtype=float)


def literal(forest, X, Y, new, bags, residual=None):
    """The influence of every row on every prediction, (m, k, n), by loops; Y (n, k)."""
    leaf, at = forest.apply(X), forest.apply(new)
    found = np.zeros((len(new), Y.shape[1], len(X)))
    trees = len(forest.estimators_)
    for x in range(len(new)):
        for t in range(trees):
            there = leaf[:, t] == at[x, t]
            size = (bags[t] * there).sum()
            mean = (bags[t][there, None] * Y[there]).sum(0) / size
            for i in np.flatnonzero(there):
                off = Y[i] - mean if residual is None else residual[i]
                found[x, :, i] += bags[t, i] * off / size / trees
    return found


def out_of_bag(forest, X, Y, bags):
    per_tree = np.stack([tree.predict(X) if Y.shape[1] == 1 else tree.predict_proba(X) for tree in forest.estimators_])
    per_tree = per_tree.reshape(len(bags), len(X), -1)
    without = (bags == 0)[:, :, None]
    return Y - (per_tree * without).sum(0) / without.sum(0)


def spread(influence, resampler):
    n = influence.shape[2]
    scale, shared = resampler.covariance(n)
    total = influence.sum(2)
    products = np.einsum("min,mjn->mij", influence, influence)
    return scale * (products - shared * np.einsum("mi,mj->mij", total, total) / n)


@pytest.mark.parametrize("meat", ["HC0", "HC3"])
@pytest.mark.parametrize("resampler", [Multinomial(), BayesianBootstrap(), Poisson()], ids=lambda r: type(r).__name__)
def test_the_variance_of_numbers_is_that_of_a_literal_loop(meat, resampler):
    X, new = table(N), table(9, seed=4)
    y = targets(X)["number"]
    forest = numbers().fit(X, y)
    bags = counts(forest, N)
    residual = out_of_bag(forest, X, y[:, None], bags) if meat == "HC3" else None
    wanted = spread(literal(forest, X, y[:, None], new, bags, residual), resampler)[:, 0, 0]
    audit = ForestRUE(resampler, meat=meat).fit(read_forest(forest), (X, y)).audit(new)
    np.testing.assert_allclose(audit.std**2, wanted, rtol=1e-9)
    np.testing.assert_array_equal(audit.prediction, forest.predict(new))


@pytest.mark.parametrize("meat", ["HC0", "HC3"])
@pytest.mark.parametrize("target", ["yes", "one of three"])
def test_the_covariance_of_shares_is_that_of_a_literal_loop(meat, target):
    X, new = table(N), table(9, seed=4)
    y = targets(X)[target]
    forest = labels().fit(X, y)
    bags, Y = counts(forest, N), (y[:, None] == forest.classes_).astype(float)
    residual = out_of_bag(forest, X, Y, bags) if meat == "HC3" else None
    wanted = spread(literal(forest, X, Y, new, bags, residual), Multinomial())
    audit = ForestRUE(meat=meat).fit(read_forest(forest), (X, y)).audit(new)
    np.testing.assert_allclose(audit.covariance, wanted, atol=1e-12)
    np.testing.assert_array_equal(audit.prediction, forest.predict(new))
    np.testing.assert_allclose(audit.own_probability, forest.predict_proba(new), atol=1e-12)
    assert ((audit.flip_probability >= 0) & (audit.flip_probability <= 0.5)).all()
    assert np.isfinite(audit.epistemic).all()


@pytest.mark.parametrize("kind", [numbers, lambda: ExtraTreesRegressor(12, min_samples_leaf=3, random_state=0)])
def test_an_influence_is_the_derivative_of_leaf_means_by_a_weight(kind):
    X, new = table(N), table(5, seed=4)
    y = targets(X)["number"]
    forest = kind().fit(X, y)
    bags = counts(forest, N)
    leaf, at = forest.apply(X), forest.apply(new)

    def predicted(weight):
        same = leaf[None] == at[:, None]  # (m, n, T)
        used = same * (bags.T * weight[:, None])[None]
        return ((used * y[None, :, None]).sum(1) / used.sum(1)).mean(1)

    np.testing.assert_allclose(predicted(np.ones(N)), forest.predict(new))
    found = literal(forest, X, y[:, None], new, bags)[:, 0]
    for i in range(0, N, 17):
        step = np.eye(N)[i] * 1e-5
        slope = (predicted(1 + step) - predicted(1 - step)) / 2e-5
        np.testing.assert_allclose(found[:, i], slope, atol=1e-8)


@pytest.mark.parametrize("more", [{"max_samples": 0.5}, {"max_samples": 40}, {"bootstrap": False}], ids=str)
def test_bags_of_any_size_are_drawn_again(more):
    X = table(N)
    y = targets(X)["number"]
    forest = numbers(**more).fit(X, y)
    bags = counts(forest, N, size={0.5: N // 2, 40: 40}.get(more.get("max_samples")))
    wanted = spread(literal(forest, X, y[:, None], X[:5], bags), Multinomial())[:, 0, 0]
    if not forest.bootstrap:
        with pytest.warns(RueWarning, match="out of the bag"):
            audit = ForestRUE().fit(read_forest(forest), (X, y)).audit(X[:5])
        assert audit.total_std is None
    else:
        audit = ForestRUE(meat="HC0").fit(read_forest(forest), (X, y)).audit(X[:5])
    np.testing.assert_allclose(audit.std**2, wanted, rtol=1e-9)


@pytest.mark.parametrize("kind", [numbers, lambda: numbers(bootstrap=False)])
def test_weights_are_those_of_the_training(kind):
    X = table(N)
    y = targets(X)["number"]
    weight = np.random.default_rng(2).integers(1, 4, N).astype(float)
    forest = kind().fit(X, y, sample_weight=weight)
    bags = counts(forest, N, weight)
    wanted = spread(literal(forest, X, y[:, None], X[:5], bags), Multinomial())[:, 0, 0]
    method = ForestRUE(meat="HC0")
    with pytest.raises(DataError):
        method.fit(read_forest(forest), (X, y))
    with pytest.warns(RueWarning) if not forest.bootstrap else nullcontext():
        audit = method.fit(read_forest(forest), rue.Data(X, y, weight=weight)).audit(X[:5])
    np.testing.assert_allclose(audit.std**2, wanted, rtol=1e-9)


def test_influences_of_a_group_add_up():
    X = table(N)
    y = targets(X)["number"]
    forest = numbers().fit(X, y)
    group = np.arange(N) // 12
    influence = literal(forest, X, y[:, None], X[:5], counts(forest, N))
    summed = np.stack([influence[:, :, group == g].sum(2) for g in range(N // 12)], axis=2)
    with pytest.warns(RueWarning, match="out of the bag"):  # no tree has missed twelve rows at once
        audit = ForestRUE(meat="HC0").fit(read_forest(forest), rue.Data(X, y, group=group)).audit(X[:5])
    np.testing.assert_allclose(audit.std**2, spread(summed, Multinomial())[:, 0, 0], rtol=1e-9)


def test_the_total_is_weighed_by_rows_out_of_the_bag():
    X, new = table(400), table(200, seed=4)
    y, truth = targets(X)["number"], targets(new, seed=8)["number"]
    forest = RandomForestRegressor(100, random_state=0).fit(X, y)
    audit = ForestRUE().fit(read_forest(forest), (X, y)).audit(new)
    inside = np.abs(truth - audit.prediction) < 1.645 * audit.total_std
    assert 0.8 < inside.mean() < 0.98
    np.testing.assert_allclose(audit.score, audit.total_std)
    assert audit.facts["out_of_bag_rows"] == 400
    assert 0 < audit.facts["monte_carlo_share"] < 1


def test_the_share_due_to_few_trees_is_what_pairs_of_different_trees_do_not_have():
    X = table(N)
    y = targets(X)["number"]
    forest = numbers().fit(X, y)
    bags, leaf = counts(forest, N), forest.apply(X)
    whole = extra = 0.0
    for x in range(N):
        without = np.flatnonzero(bags[:, x] == 0)
        use = without if len(without) > 1 else np.arange(len(bags))
        pulls = np.zeros((len(use), N))  # of each row on the leaf of each tree
        for j, t in enumerate(use):
            there = leaf[:, t] == leaf[x, t]
            share = bags[t] * there / (bags[t] * there).sum()
            pulls[j] = share * (y - share @ y)
        products = pulls @ pulls.T
        pairs = (products.sum() - np.trace(products)) / (len(use) * (len(use) - 1))
        whole += products.mean()
        extra += products.mean() - pairs
    audit = ForestRUE(meat="HC0").fit(read_forest(forest), (X, y)).audit(X[:5])
    assert audit.facts["monte_carlo_share"] == pytest.approx(extra / whole, rel=1e-9)


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("target", ["number", "one of three"])
def test_how_many_rows_are_held_at_once_does_not_change_the_audit(target, monkeypatch):
    X, new = table(N), table(9, seed=4)
    y = targets(X)[target]
    forest = read_forest((numbers() if target == "number" else labels()).fit(X, y))
    whole = ForestRUE().fit(forest, (X, y))
    monkeypatch.setattr("rue.methods.forest_rue.BLOCK", 7 * N)
    parts = ForestRUE().fit(forest, (X, y))
    for name in ("monte_carlo_share", "out_of_bag_nll"):
        assert parts.facts[name] == pytest.approx(whole.facts[name], rel=1e-9)
    np.testing.assert_allclose(parts.audit(new).score, whole.audit(new).score, rtol=1e-9)
    np.testing.assert_allclose(parts.audit(new).covariance, whole.audit(new).covariance, rtol=1e-9, atol=1e-15)


def test_a_class_without_a_vote_has_the_probability_of_one_tree_more():
    X = table(N)
    y = targets(X)["one of three"]
    forest = labels().fit(X, y)
    audit = ForestRUE().fit(read_forest(forest), (X, y)).audit(X)
    usual = (y[:, None] == forest.classes_).mean(0)
    sharp = ((12 * forest.predict_proba(X) + usual) / 13) ** (1 / audit.facts["temperature"])
    assert (forest.predict_proba(X) == 0).any()
    np.testing.assert_allclose(audit.probability, sharp / sharp.sum(1, keepdims=True), rtol=1e-9)
    assert (audit.probability > 0).all()


def test_several_targets_have_a_covariance():
    X = table(N)
    Y = np.stack([X[:, 0] + X[:, 1], X[:, 0] - X[:, 2]], axis=1)
    forest = numbers().fit(X, Y)
    wanted = spread(literal(forest, X, Y, X[:5], counts(forest, N)), Multinomial())
    audit = ForestRUE(meat="HC0").fit(read_forest(forest), (X, Y)).audit(X[:5])
    np.testing.assert_allclose(audit.covariance, wanted, rtol=1e-9, atol=1e-14)


def test_probabilities_are_votes_at_the_temperature_of_rows_out_of_the_bag():
    X, new = table(N), table(400, seed=4)
    y, y_new = targets(X)["one of three"], targets(new)["one of three"]
    forest = RandomForestClassifier(60, oob_score=True, random_state=0).fit(X, y)
    codes = np.searchsorted(forest.classes_, y)
    trees, usual = (counts(forest, N) == 0).sum(0), np.bincount(codes) / N
    logits = np.log((trees[:, None] * forest.oob_decision_function_ + usual) / (trees[:, None] + 1))

    def likelihood(temperature):
        return log_softmax(logits / temperature, axis=1)[np.arange(N), codes].mean()

    best = max(np.geomspace(0.1, 10, 2001), key=likelihood)
    votes = forest.predict_proba(new)
    wanted = softmax(np.log((60 * votes + usual) / 61) / best, axis=1)
    audit = rue.audit(forest, train=(X, y), inputs=new)
    assert audit.facts["temperature"] == pytest.approx(best, rel=5e-3)
    np.testing.assert_allclose(audit.probability, wanted, atol=2e-3)
    np.testing.assert_allclose(audit.score, 1 - audit.probability[np.arange(400), votes.argmax(1)], atol=1e-12)
    assert np.isfinite(audit.log_prob(y_new)).all()


@pytest.mark.training
@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (ExtraTreesRegressor, "number"),
        (ExtraTreesClassifier, "one of three"),
        (DecisionTreeRegressor, "number"),
        (DecisionTreeClassifier, "one of three"),
    ],
)
def test_trees_that_have_seen_all_rows_are_audited_by_what_they_predict(kind, target):
    X, new = table(150), table(300, seed=4)
    y, y_new = targets(X)[target], targets(new)[target]
    model = kind(random_state=0).fit(X, y)
    audit = rue.audit(model, train=(X, y), inputs=new)
    assert "every tree of this forest has seen all rows" in audit.facts["known_of_it"]
    if target == "number":
        inside = audit.interval(0.9)
        assert 0.8 < np.mean((inside.lower <= y_new) & (y_new <= inside.upper)) < 0.98
    else:
        assert audit.score.mean() == pytest.approx(np.mean(model.predict(new) != y_new), abs=0.08)


@pytest.mark.filterwarnings("ignore:every tree of this forest has seen all rows")
@pytest.mark.parametrize("kind", [ExtraTreesClassifier, ExtraTreesRegressor])
@pytest.mark.parametrize("bootstrap", [True, False])
def test_extra_trees_are_forests(kind, bootstrap):
    X = table(N)
    y = targets(X)["one of three" if kind is ExtraTreesClassifier else "number"]
    forest = kind(30, min_samples_leaf=2, random_state=0, bootstrap=bootstrap).fit(X, y)
    with pytest.warns(RueWarning) if kind is ExtraTreesRegressor and not bootstrap else nullcontext():
        audit = ForestRUE().fit(read_forest(forest), (X, y)).audit(X[:9])
    np.testing.assert_array_equal(audit.prediction, forest.predict(X[:9]))
    assert (audit.score > 0).any()


@pytest.mark.filterwarnings("ignore:every tree of this forest has seen all rows")
@pytest.mark.parametrize("target", ["number", "one of three"])
def test_a_single_tree_is_a_forest_of_one(target):
    X = table(N)
    y = targets(X)[target]
    kind = DecisionTreeRegressor if target == "number" else DecisionTreeClassifier
    tree = kind(min_samples_leaf=5, random_state=0).fit(X, y)
    Y = y[:, None] if target == "number" else (y[:, None] == tree.classes_).astype(float)
    leaf = tree.apply(X)
    inside = [leaf == at for at in tree.apply(X[:9])]
    wanted = [((Y[rows] - Y[rows].mean(0)) ** 2).sum(0) / rows.sum() ** 2 for rows in inside]  # of a mean
    with pytest.warns(RueWarning) if target == "number" else nullcontext():
        audit = ForestRUE().fit(read_forest(tree), (X, y)).audit(X[:9])
    np.testing.assert_allclose(np.diagonal(audit.covariance, axis1=1, axis2=2), wanted, atol=1e-14)
    np.testing.assert_array_equal(audit.prediction, tree.predict(X[:9]))


@pytest.mark.parametrize(
    "method", [rue.LinearRUE(), rue.RUE(members=2), rue.CalibratedRUE(), rue.BootstrapSGD(members=2)]
)
def test_methods_of_one_objective_are_refused_with_the_one_for_forests(method):
    X = table(N)
    forest = numbers().fit(X, X[:, 0])
    with pytest.raises(ModelError, match="ForestRUE"):
        method.fit(read_forest(forest), (X, X[:, 0])).audit(X[:3])


def test_one_call_finds_the_method_for_forests_also_behind_a_pipeline():
    X = table(N)
    y = targets(X)["one of three"]
    pipeline = make_pipeline(StandardScaler(), labels()).fit(X, y)
    audit = rue.audit(pipeline, train=(X, y), inputs=X[:9])
    assert audit.method == "ForestRUE"
    np.testing.assert_array_equal(audit.prediction, pipeline.predict(X[:9]))


def test_what_is_no_forest_of_means_is_known_by_its_predictions():
    X = table(60)
    for model, said in (
        (numbers(criterion="absolute_error").fit(X, X[:, 0]), "squared_error"),
        (labels(class_weight="balanced").fit(X, X[:, 0] > 0), "sample_weight"),
        (AdaBoostRegressor(n_estimators=2).fit(X, X[:, 0]), "neither gradient boosting nor a forest"),
    ):
        assert said in rue.wrap(model).describe()["known_of_it"]


def test_what_is_no_forest_of_means_is_refused():
    X = table(60)
    with pytest.raises(ModelError, match="several labels of a row"):
        read_forest(labels().fit(X, X[:, :2] > 0))
    with pytest.raises(ModelError, match="leave loss and l2 out"):
        read(numbers().fit(X, X[:, 0]), None, 1.0)
    with pytest.raises(SettingError, match="bootstrap=False"):
        ForestRUE(meat="HC3").fit(read_forest(numbers(bootstrap=False).fit(X, X[:, 0])), (X, X[:, 0]))
    with pytest.raises(ModelError, match="use LinearRUE"):
        ForestRUE().fit(rue.wrap(torch.nn.Linear(4, 1), loss="squared_error", l2=1.0), (X, X[:, 0]))
    with pytest.raises(SettingError, match="HC0"):
        ForestRUE(meat="HC1")
    with pytest.raises(DataError, match="not the rows it was grown on"):
        ForestRUE().fit(read_forest(numbers().fit(X, X[:, 0])), (X[::-1].copy(), X[::-1, 0].copy()))
