"""Why: contributions that sum to the variance, influences against refits, the split against known regions."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, LinearSVC

import rue
from cases import CASES
from rue.calibrate.array_forest import ArrayForest
from rue.core.errors import DataError, InputError, SettingError
from rue.explain import explainer as explain

pytestmark = pytest.mark.usefixtures("few_trees")

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("explanations", ROOT / "benchmarks" / "explanations.py")
truth = importlib.util.module_from_spec(spec)
spec.loader.exec_module(truth)

FRAME = load_diabetes(as_frame=True)
X, y = FRAME.data.iloc[:120], FRAME.target.iloc[:120]
NEW = FRAME.data.iloc[120:130]
GROUP = np.array([f"site {i % 30}" for i in range(120)])
WEIGHT = np.linspace(0.0, 2.0, 120)
RIDGE = Ridge(alpha=0.1).fit(X, y)


def ridge(data=None, method=None):
    return (method or rue.LinearRUE()).fit(rue.wrap(RIDGE), data or (X, y)).audit(NEW)


def margin_variance(audit, i):
    order = np.argsort(-audit.outputs[i])
    contrast = np.zeros(audit.outputs.shape[1])
    contrast[order[0]], contrast[order[1]] = 1, -1
    return contrast @ audit.covariance[i] @ contrast


@pytest.mark.parametrize(
    ("data", "method"),
    [
        ((X, y), rue.LinearRUE()),
        ((X, y), rue.CalibratedRUE()),
        ((X, y), rue.LinearRUE(meat="HC3")),
        ((X, y), rue.LinearRUE(resampler=rue.resample.Poisson())),
        ((X, y), rue.LinearRUE(resampler=rue.resample.BayesianBootstrap())),
        (rue.Data(X, y, group=GROUP), rue.LinearRUE()),
        (rue.Data(X, y, group=GROUP), rue.LinearRUE(meat="HC3")),
        (rue.Data(X, y, group=GROUP), rue.CalibratedRUE()),
        (rue.Data(X, y, weight=WEIGHT), rue.LinearRUE()),
    ],
    ids=lambda part: type(part).__name__,
)
@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_contributions_sum_to_the_resampling_variance(data, method):
    audit = ridge(data, method)
    for i in range(3):
        found = audit.explain(i)
        assert found.contribution.sum() == pytest.approx(audit.std[i] ** 2, rel=1e-8)
        assert found.variance == pytest.approx(audit.std[i] ** 2, rel=1e-8)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_contributions_sum_to_the_variance_of_the_output_that_would_move_most(name):
    case = CASES[name]()
    audit = rue.LinearRUE().fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    if audit.decision is not None:
        pytest.skip("classes are explained by margins")
    spread = np.diagonal(audit.covariance, axis1=1, axis2=2)
    found = audit.explain()
    np.testing.assert_allclose(found.variance, spread.max(axis=1), rtol=1e-8, atol=1e-14)


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_contributions_of_classifiers_sum_to_the_variance_of_the_margin():
    iris = load_iris()
    for model in (LogisticRegression(max_iter=1000), RandomForestClassifier(30, random_state=0)):
        audit = rue.audit(model.fit(iris.data, iris.target), train=(iris.data, iris.target), inputs=iris.data[::15])
        for i in range(4):
            assert audit.explain(i).variance == pytest.approx(margin_variance(audit, i), rel=1e-8)


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
@pytest.mark.parametrize(
    "made",
    [
        lambda: RandomForestRegressor(30, min_samples_leaf=3, random_state=0),
        lambda: pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=20, n_jobs=1, verbose=-1),
        lambda: PoissonRegressor(alpha=0.1),
        lambda: TransformedTargetRegressor(Ridge(0.1), transformer=StandardScaler()),
    ],
    ids=["forest", "boosted trees", "Poisson", "transformed target"],
)
def test_contributions_sum_to_the_variance_in_units_of_the_prediction(made):
    model = made()
    wrapped = rue.wrap(model.fit(X, y))
    method = rue.ForestRUE() if not wrapped.family.joint else rue.LinearRUE()
    audit = method.fit(wrapped, (X, y)).audit(NEW)
    for i in range(3):
        found = audit.explain(i)
        assert found.variance == pytest.approx(audit.std[i] ** 2, rel=1e-8)
        assert found.prediction == pytest.approx(audit.prediction[i], rel=1e-6)


def test_influences_and_kernel_are_those_of_the_equations_written_out():
    audit = ridge()
    centred = X.to_numpy() - X.to_numpy().mean(axis=0)
    full = np.column_stack([centred, np.ones(120)])  # the intercept is not penalised
    inverse = np.linalg.inv(full.T @ full + np.diag([0.1] * 10 + [0.0]))
    at = np.append(NEW.to_numpy()[2] - X.to_numpy().mean(axis=0), 1.0)
    residual = RIDGE.predict(X) - y.to_numpy()
    weight = full @ inverse @ at
    found = audit.explain(2)
    np.testing.assert_allclose(found.kernel, weight**2, rtol=1e-7)
    np.testing.assert_allclose(found.pull, weight * residual, rtol=1e-7)
    moved = weight * residual
    np.testing.assert_allclose(found.contribution, (moved - moved.mean()) ** 2, rtol=1e-7)
    own = np.einsum("ij,jk,ik->i", full, inverse, full)
    np.testing.assert_allclose(found.similarity, weight**2 / (own * (at @ inverse @ at)), rtol=1e-7)


def test_leaving_a_row_out_changes_a_linear_prediction_as_said():
    found = ridge().explain(4)
    for unit in found.order[:5]:
        kept = np.delete(np.arange(120), unit)
        again = Ridge(alpha=0.1).fit(X.iloc[kept], y.iloc[kept]).predict(NEW)[4]
        assert found.change[unit] == pytest.approx(again - RIDGE.predict(NEW)[4], rel=1e-6)
        assert found.without([unit]) == pytest.approx(found.change[unit], rel=1e-9)


def test_leaving_groups_or_many_rows_out_together_changes_a_linear_prediction_as_said():
    found = ridge(rue.Data(X, y, group=GROUP)).explain(4)
    for units in (found.order[:1], found.order[:3]):
        kept = ~np.isin(GROUP, found.label[units])
        again = Ridge(alpha=0.1).fit(X[kept], y[kept]).predict(NEW)[4]
        assert found.without(units) == pytest.approx(again - RIDGE.predict(NEW)[4], rel=1e-6)


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_rows_that_are_coupled_have_contributions_that_sum_and_no_split():
    torch.manual_seed(0)
    inputs = torch.randn(40, 2, dtype=torch.float64)
    time = torch.distributions.Exponential(torch.exp(inputs[:, 0])).sample().double()
    targets = torch.stack([time, torch.ones(40, dtype=torch.float64)], dim=1)
    net = torch.nn.Linear(2, 1, bias=False).double()
    audit = rue.LinearRUE().fit(rue.wrap(net, loss="cox", l2=1.0), (inputs, targets)).audit(inputs[:3])
    found = audit.explain(1)
    assert found.variance == pytest.approx(audit.std[1] ** 2, rel=1e-8)
    assert found.reason == "not known"
    assert found.density is None
    assert "the slope of their losses is" in found.sentence


def test_without_its_ten_most_influential_rows_a_linear_prediction_moves_as_said():
    found = truth.removal(0, count=20)
    assert found.direction >= 0.9
    assert found.correlation >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [10, 20])
def test_without_its_ten_most_influential_rows_a_network_s_prediction_moves_as_said(hidden):
    found = truth.removal(hidden, count=30)
    assert found.direction >= 0.9
    assert found.correlation >= 0.9


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
@pytest.mark.parametrize(("kind", "features"), [("net", 1), ("polynomial ridge", 2)])
def test_the_split_names_the_right_reason_in_nine_of_ten_cases(kind, features):
    found = truth.named(kind, features, seed=0)
    assert found["sparse"] >= 0.9
    assert found["bad"] >= 0.9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
@pytest.mark.parametrize("kind", ["net", "polynomial ridge"])
@pytest.mark.parametrize("features", [1, 2, 4])
def test_the_split_names_the_right_reason_on_every_kind_of_model(kind, features):
    found = pd.DataFrame([truth.named(kind, features, seed) for seed in range(4)]).mean()
    assert found["sparse"] >= 0.9
    assert found["bad"] >= 0.9


def test_percentiles_of_training_rows_are_even_when_each_is_left_out():
    """A row that is left out ranks among the others as any of them: no row looks usual because it was trained on."""
    auditor = rue.LinearRUE().fit(rue.wrap(RIDGE), (X, y))
    usual = auditor.trained.lens.usual(0)
    assert len(usual.density) == 120
    assert (usual.density > np.array([auditor.audit(X).explain(i).density.value for i in range(120)])).all()


@settings(max_examples=10)
@given(cells=st.integers(1, 2000))
def test_the_size_of_a_block_never_changes_an_explanation(cells):
    audit = ridge()
    whole = audit.explain(top=3)
    before, explain.CELLS = explain.CELLS, cells
    try:
        parts = audit.explain(top=3)
    finally:
        explain.CELLS = before
    np.testing.assert_allclose(parts.share, whole.share, rtol=1e-9)
    assert parts.sentence == whole.sentence


def test_no_more_than_a_block_of_pairs_is_looked_at_together(monkeypatch):
    audit, seen = ridge(), []
    look = type(audit.explainer.func.__self__.trained.lens).look

    def counted(self, inputs, contrast):
        seen.append(len(inputs))
        return look(self, inputs, contrast)

    monkeypatch.setattr("rue.explain.gradients.GradientLens.look", counted)
    monkeypatch.setattr(explain, "CELLS", 3 * 120)
    audit.explain()
    assert max(seen) == 3
    assert sum(seen) == 10


def test_all_rows_at_once_say_what_each_says_alone():
    audit = ridge()
    found = audit.explain(top=4, noun="patients")
    for i in (0, 7):
        one = audit.explain(i, noun="patients")
        assert found.sentence[i] == one.sentence == str(one)
        assert found.reason[i] == one.reason
        assert found.half[i] == one.half
        np.testing.assert_array_equal(found.unit[i], one.order[:4])
        np.testing.assert_allclose(found.change[i], one.change[one.order[:4]])
        assert found.density_percentile[i] == one.density.percentile
    assert len(found) == 10
    assert found.to_frame()["sentence"].str.contains("of 120 patients decide").all()


def test_a_frame_s_own_index_and_columns_are_beside_each_influence():
    named = X.set_axis([f"patient {i}" for i in range(120)], axis=0)
    found = rue.LinearRUE().fit(rue.wrap(RIDGE), (named, y)).audit(NEW).explain(0)
    frame = found.to_frame(top=5)
    assert list(frame.columns) == [
        *("row", "share", "change_without", "kernel_share", "similarity", "residual"),
        *X.columns,
        "target",
    ]
    assert frame["row"].str.startswith("patient").all()
    first = int(frame["row"][0].split()[1])
    assert frame["bmi"][0] == X["bmi"].iloc[first]
    assert frame["target"][0] == y.iloc[first]
    assert frame["share"].is_monotonic_decreasing


def test_groups_are_named_and_stand_by_the_row_that_bears_most():
    frame = ridge(rue.Data(X, y, group=GROUP)).explain(0).to_frame(top=3)
    assert frame.columns[0] == "group"
    assert frame["group"].str.startswith("site").all()
    found = ridge(rue.Data(X, y, group=GROUP)).explain(0)
    for unit in range(5):
        rows = np.flatnonzero(found.unit == unit)
        most = rows[np.argmax((found.kernel * found.residual**2)[rows])]
        assert found.representative[unit] == most


def test_a_dataset_without_columns_has_row_numbers_alone():
    rows = torch.utils.data.TensorDataset(torch.tensor(X.to_numpy()), torch.tensor(y.to_numpy()))
    net = torch.nn.Linear(10, 1).double()
    found = rue.LinearRUE().fit(rue.wrap(net, loss="squared_error", l2=1.0), rows).audit(NEW.to_numpy()).explain(0)
    assert list(found.to_frame().columns[:2]) == ["row", "share"]
    assert "x0" not in found.to_frame()


def test_half_of_the_spread_is_counted_from_the_largest_part():
    found = ridge().explain(3)
    parts = np.sort(found.share)[::-1]
    assert parts[: found.half].sum() >= 0.5 > parts[: found.half - 1].sum()
    assert f"{found.half} of 120 training rows decide half of how far the prediction would change" in found.sentence


def test_one_output_of_several_can_be_asked_for():
    both = np.column_stack([y, 10 * y])
    model = Ridge(alpha=0.1).fit(X, both)
    audit = rue.LinearRUE().fit(rue.wrap(model), (X, both)).audit(NEW)
    assert audit.explain(0).of == "output 1"
    assert audit.explain(0, output=0).variance == pytest.approx(audit.covariance[0, 0, 0], rel=1e-8)


def test_an_explanation_leaves_random_numbers_as_they_were_and_works_in_inference_mode():
    audit, before = ridge(), torch.get_rng_state()
    with torch.inference_mode():
        found = audit.explain(0)
        assert np.isfinite(found.without(found.order[:2]))
    assert torch.equal(torch.get_rng_state(), before)


def test_inputs_that_changed_since_the_audit_are_not_explained():
    auditor, changed = rue.LinearRUE().fit(rue.wrap(RIDGE), (X, y)), NEW.copy()
    audit = auditor.audit(changed)
    changed *= 3
    with pytest.raises(DataError):
        audit.explain(0)
    net = torch.nn.Linear(10, 1).double()
    rows = torch.tensor(X.to_numpy())
    of_net = rue.LinearRUE().fit(rue.wrap(net, loss="squared_error", l2=1.0), (X.to_numpy(), y.to_numpy()))
    audit = of_net.audit(torch.utils.data.DataLoader(rows, batch_size=10, shuffle=True))
    assert len(audit.explain()) == len(rows)  # a loader that shuffles is read in the order of its rows
    rows.mul_(3)
    with pytest.raises(DataError):
        audit.explain()


def test_an_output_is_explained_by_its_own_residuals_whatever_the_scale_of_another():
    draw = np.random.default_rng(0)
    z = draw.uniform(-3, 3, 300)
    first = np.sin(z) + np.where(z < -1.2, 0.8, 0.1) * draw.normal(size=300)
    Z, both = np.column_stack([z, z**2, z**3]), np.column_stack([first, 1000 * (z + draw.normal(size=300))])
    alone, together = (Ridge(alpha=0.1).fit(Z, targets) for targets in (first, both))
    new = Z[z < -1.5][:20]
    wanted = rue.LinearRUE().fit(rue.wrap(alone), (Z, first)).audit(new).explain()
    found = rue.LinearRUE().fit(rue.wrap(together), (Z, both)).audit(new).explain(output=0)
    assert found.reason == wanted.reason
    np.testing.assert_allclose(found.misfit, wanted.misfit, rtol=1e-6)
    np.testing.assert_allclose(found.density, wanted.density, rtol=1e-6)
    np.testing.assert_allclose(found.residual, wanted.residual, rtol=1e-6)


def test_what_is_missed_is_an_error_in_the_units_of_the_prediction():
    counts = np.random.default_rng(0).poisson(np.exp(1 + X["bmi"] * 10))
    model = PoissonRegressor(alpha=0.1).fit(X, counts)
    found = rue.LinearRUE().fit(rue.wrap(model), (X, counts)).audit(NEW).explain(0)
    row = int(found.order[0])
    kept = np.delete(np.arange(120), row)
    again = PoissonRegressor(alpha=0.1).fit(X.iloc[kept], counts[kept]).predict(X.iloc[[row]])[0]
    assert found.kind == "error"
    assert found.residual[row] == pytest.approx(again - counts[row], rel=0.05)


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_of_classes_the_probability_that_the_label_lacks_is_missed():
    label = (y > 150).to_numpy()
    weighted = LogisticRegression(class_weight={False: 1, True: 20}).fit(X, label)
    found = rue.LinearRUE().fit(rue.wrap(weighted), (X, label)).audit(NEW).explain(0)
    assert found.kind == "probability"
    fitted = 1 - weighted.predict_proba(X)[np.arange(120), label.astype(int)]
    assert np.corrcoef(found.residual, fitted)[0, 1] > 0.99
    assert 0 <= found.residual.min() <= found.residual.max() <= 1
    machine = LinearSVC(C=0.1).fit(X, label)
    found = rue.LinearRUE().fit(rue.wrap(machine), (X, label)).audit(NEW).explain(0)
    assert found.kind == "slope"
    assert "probability" not in found.sentence


def test_one_row_that_alone_determines_its_fit_spoils_no_other():
    sole = np.column_stack([X, np.eye(120)[:, 0]])
    model = LinearRegression().fit(sole, y)
    new = np.column_stack([NEW, np.zeros(10)])
    found = rue.LinearRUE().fit(rue.wrap(model), (sole, y)).audit(new).explain(0)
    unit = int(found.order[0])
    kept = np.delete(np.arange(120), unit)
    again = LinearRegression().fit(sole[kept], y.iloc[kept]).predict(new)[0]
    assert found.change[unit] == pytest.approx(again - model.predict(new)[0], rel=1e-6)
    assert found.reason != "not known"


def test_a_mask_of_units_is_taken_for_what_it_is():
    found = ridge().explain(0)
    mask = found.share > 0.03
    assert found.without(mask) == pytest.approx(found.without(np.flatnonzero(mask)))


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_a_forest_that_fits_every_row_says_that_it_sees_nothing():
    forest = ExtraTreesRegressor(10, random_state=0).fit(X, y)
    found = rue.ForestRUE().fit(rue.wrap(forest), (X, y)).audit(NEW).explain(0)
    assert found.half == 0
    assert found.sentence.startswith("By this method")


def test_a_target_named_as_a_feature_hides_no_column():
    named = y.rename("bmi")
    frame = rue.LinearRUE().fit(rue.wrap(RIDGE), (X, named)).audit(NEW).explain(0).to_frame(top=2)
    row = int(frame["row"][0])
    assert frame["bmi"].iloc[0].tolist() == [X["bmi"].iloc[row], y.iloc[row]]
    one = y.to_frame("name")
    model = rue.wrap(Ridge(alpha=0.1).fit(X, y))
    frame = rue.LinearRUE().fit(model, (X, one)).audit(NEW).explain(0).to_frame(top=2)
    assert frame.columns[-1] == "name"


def test_jacobians_of_rows_that_are_compared_are_held_a_few_at_a_time(monkeypatch):
    whole = ridge().explain()
    monkeypatch.setattr("rue.explain.gradients.HELD", 40)
    parts = ridge().explain()
    np.testing.assert_allclose(parts.misfit_percentile, whole.misfit_percentile)


def test_what_cannot_be_explained_is_refused_with_words():
    model = rue.wrap(RIDGE)
    with pytest.raises(InputError):
        rue.KernelDensity().fit(model, (X, y)).audit(NEW).explain(0)
    with pytest.raises(SettingError, match="10"):
        ridge().explain(10)
    with pytest.raises(SettingError):
        ridge().explain(0, output=1)
    with pytest.raises(InputError, match="119"):
        ridge().explain(0).without([120])
    for wrong in ({"row": 1.5}, {"row": True}, {"row": 0, "output": "a"}, {"top": 2.5}):
        with pytest.raises(SettingError, match="must be a whole number"):
            ridge().explain(**wrong)
    with pytest.raises(SettingError, match="top is 0"):
        ridge().explain(top=0)


# Models known by their predictions alone, explained by a forest beside them


def beside(model, targets, monkeypatch):
    """The lens of an audit of a black box, how often each row is in each tree (T, n), and the forest."""
    for name in ("TREES", "FEWEST"):
        monkeypatch.setattr(f"rue.calibrate.left_out.forest.{name}", 12)
    grown, read = [], ArrayForest.of
    monkeypatch.setattr(ArrayForest, "of", lambda each: grown.append(each) or read(each))
    auditor = rue.methods.best_method(rue.wrap(model)).fit(rue.wrap(model), (X, targets), refit=False)
    lens = auditor.trained.lens
    witness = lens.leaves.witness
    bags = np.empty((12, 120))
    forest = next(each for each in grown if len(each.estimators_) == 12)
    for t, drawn in enumerate(forest.estimators_samples_):
        bags[t, witness.place] = np.bincount(drawn, minlength=120)
    return auditor, lens, bags, forest


def standard(rows):
    return ((rows - X.mean()) / X.std(ddof=0)).to_numpy().astype(np.float32)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_black_box_is_explained_by_the_rows_in_the_leaves_of_the_forest_beside_it(kind, monkeypatch):
    targets = y if kind == "numbers" else (y > 120).map({True: "ill", False: "well"})
    model = (SVR() if kind == "numbers" else KNeighborsClassifier()).fit(X, targets)
    auditor, lens, bags, forest = beside(model, targets, monkeypatch)
    k = 1 if kind == "numbers" else 2
    Y = y.to_numpy()[:, None] if kind == "numbers" else np.column_stack([targets == "ill", targets == "well"])
    leaf, at = forest.apply(standard(X)), forest.apply(standard(NEW))
    same = leaf[None] == at[:, None]  # (m, n, T)
    share = same * bags.T[None] / (same * bags.T[None]).sum(1, keepdims=True)
    means = np.einsum("mnt,nk->mtk", share, Y)
    inputs = auditor.model.read(NEW)
    found = lens.leaves.means[lens.leaves.leaf(inputs).numpy()]
    np.testing.assert_allclose(found, means, rtol=1e-6, atol=1e-12)

    here = leaf[None] == leaf[:, None]
    weight = here * bags.T[None]
    fitted = np.einsum("mnt,nk->mtk", weight / weight.sum(1, keepdims=True), Y)
    without = bags.T == 0
    left_out = (fitted * without[:, :, None]).sum(1) / without.sum(1)[:, None]
    np.testing.assert_allclose(lens.residual, left_out - Y, rtol=1e-6, atol=1e-9)
    said = left_out if kind == "numbers" else np.log(np.maximum(left_out, 1 / 480))
    np.testing.assert_allclose(lens.prediction, said, rtol=1e-6, atol=1e-12)

    contrast = np.random.default_rng(0).normal(size=(len(NEW), k))
    look = lens.look(inputs, torch.tensor(contrast))
    weight = share.mean(2)  # of each row in the forest's prediction
    np.testing.assert_allclose(look.pull, weight * (contrast @ (left_out - Y).T), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(look.kernel, (contrast**2).sum(1)[:, None] * weight**2, rtol=1e-6, atol=1e-15)
    np.testing.assert_allclose(look.similarity, same.mean(2), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(look.density, (weight**2).sum(1), rtol=1e-6)
    explained = auditor.audit(NEW).explain(0)
    assert explained.whose == "the forest"
    np.testing.assert_allclose(explained.similarity, same[0].mean(1), atol=1e-12)
