"""Audits of classifiers: the contract, the default method and the baselines."""

import copy
import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import nn

import cases
import rue
from rue.calibrate.crowding import free_outputs
from rue.calibrate.shrinkage import Shrinkage, best_temperature, fit_shrinkage
from rue.core.errors import DataError, InputError, ModelError, RueWarning, SettingError
from rue.methods import CLASSIFIER_METHODS, classifier_rue
from rue.methods.classifier_rue import SecondOpinion
from rue.methods.margins import ShrunkMargins, validated

pytestmark = pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")


def three_classes(**settings):
    case = cases.CASES["softmax"]()
    return case, rue.wrap(case.module, **{"loss": "cross_entropy", "l2": case.l2, **settings})


@pytest.mark.parametrize("method", CLASSIFIER_METHODS)
class TestEveryMethod:
    def audited(self, method, case, model, data=None, inputs=None):
        data = (case.X, case.y) if data is None else data
        return CLASSIFIER_METHODS[method]().fit(model, data).audit(case.X_new if inputs is None else inputs)

    def test_the_contract_of_classifiers_holds(self, method):
        case, model = three_classes()
        audit = self.audited(method, case, model)
        with torch.no_grad():
            own = case.module(case.X_new).numpy()
        np.testing.assert_array_equal(audit.prediction, own)
        np.testing.assert_array_equal(audit.label, own.argmax(1))
        assert audit.probability.shape == (6, 3)
        np.testing.assert_allclose(audit.probability.sum(1), 1.0)
        assert audit.noise_std is None
        assert audit.total_std is None
        np.testing.assert_allclose(audit.log_prob(audit.label), np.log(audit.probability.max(1)))
        with pytest.raises(InputError, match="prediction_set"):
            audit.interval(0.9)
        with pytest.raises(InputError, match=r"auditor.calibrate\(X, y\)"):
            audit.prediction_set(0.9)
        with pytest.raises(DataError, match="none of the classes 0, 1, 2"):
            audit.log_prob(np.full(6, 7))

    def test_batches_order_and_precision_do_not_change_the_audit(self, method):
        case, model = three_classes()
        whole = self.audited(method, case, model)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(case.X, case.y), batch_size=5)
        np.testing.assert_allclose(self.audited(method, case, model, loader).score, whole.score, rtol=1e-6)
        turned = self.audited(method, case, model, (case.X.flip(0), case.y.flip(0)))
        np.testing.assert_allclose(turned.score, whole.score, rtol=1e-6)
        single = rue.wrap(case.module.float(), loss="cross_entropy", l2=case.l2)
        coarse = self.audited(method, case, single, (case.X.float(), case.y), case.X_new.float())
        np.testing.assert_allclose(coarse.score, whole.score, rtol=5e-3, atol=1e-5)

    def test_a_model_of_numbers_is_refused(self, method):
        case = cases.CASES["softplus"]()
        with pytest.raises(ModelError, match=r'audits classifiers: loss="cross_entropy"'):
            CLASSIFIER_METHODS[method]().fit(case.wrap(), (case.X, case.y))


def test_one_call_takes_the_method_that_was_measured_best():
    case, _ = three_classes()
    audit = rue.audit(case.module, train=(case.X, case.y), inputs=case.X_new, loss="cross_entropy", l2=case.l2)
    assert audit.method == "ClassifierRUE"
    np.testing.assert_allclose(audit.score, 1 - audit.probability.max(1))
    assert {"label", "probability_2", "flip_probability", "epistemic", "score"} <= set(audit.to_frame())


def test_resampling_is_the_same_for_all_methods_with_a_covariance():
    case, model = three_classes()
    data = (case.X, case.y)
    calibrated, linear = (m.fit(model, data).audit(case.X_new) for m in (rue.ClassifierRUE(), rue.LinearRUE()))
    np.testing.assert_allclose(calibrated.covariance, linear.covariance, rtol=1e-9)
    np.testing.assert_allclose(calibrated.flip_probability, linear.flip_probability, rtol=1e-9, atol=1e-15)
    sampled = linear.sampled_probability(members=4000)
    np.testing.assert_allclose(sampled, linear.probability, atol=0.05)


def test_yes_or_no_several_labels_and_ordered_classes_have_their_shapes():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    torch.manual_seed(0)
    one = rue.audit(nn.Linear(3, 1).double(), train=(X, X[:, 0] > 0), inputs=X[:5], loss="bernoulli", l2=1.0)
    assert one.probability.shape == (5, 2)
    assert one.prediction.shape == one.std.shape == one.label.shape == (5,)
    two = rue.audit(nn.Linear(3, 2).double(), train=(X, X[:, :2] > 0), inputs=X[:5], loss="bernoulli", l2=1.0)
    assert two.probability.shape == two.label.shape == (5, 2)
    with pytest.raises(InputError, match="no single log probability"):
        two.log_prob(two.label)

    class Ordered(nn.Module):
        def __init__(self):
            super().__init__()
            self.slope = nn.Linear(3, 1, bias=False)
            self.steps = nn.Parameter(torch.tensor([1.0, -1.0]))

        def forward(self, x):
            return self.slope(x) + self.steps

    levels = (X[:, 0] > -0.5).long() + (X[:, 0] > 0.5).long()
    three = rue.audit(Ordered().double(), train=(X, levels), inputs=X[:5], loss="ordinal", l2=1.0)
    assert three.probability.shape == (5, 3)
    assert three.label.shape == (5,)


@pytest.fixture(scope="module")
def digits():
    """A small net on 300 digits, trained to convergence."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = torch.tensor(X[order] / 16), torch.tensor(y[order])
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 16), nn.Softplus(), nn.Linear(16, 10)).double()
    optimiser = torch.optim.LBFGS(net.parameters(), max_iter=300, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        penalty = 0.5 * 0.3 * sum(p.square().sum() for p in net.parameters())
        value = nn.functional.cross_entropy(net(X[:300]), y[:300], reduction="sum") + penalty
        value.backward()
        return value

    optimiser.step(closure)
    return rue.wrap(net, loss="cross_entropy", l2=0.3), X, y.numpy()


@pytest.mark.training
def test_the_default_finds_more_wrong_digits_than_the_nets_own_confidence(digits):
    model, X, y = digits
    found = {}
    for name, method in CLASSIFIER_METHODS.items():
        audit = method().fit(model, (X[:300], y[:300])).audit(X[300:])
        found[name] = roc_auc_score(audit.label != y[300:], audit.score), -audit.log_prob(y[300:]).mean()
    assert found["ClassifierRUE"][0] > max(found["Maximum softmax"][0], found["Entropy"][0])
    assert found["ClassifierRUE"][1] < found["Maximum softmax"][1]


def test_prediction_sets_cover_as_often_as_they_say(digits):
    model, X, y = digits
    auditor = rue.LinearRUE().fit(model, (X[:300], y[:300])).calibrate(X[300:700], y[300:700])
    found = auditor.audit(X[700:]).prediction_set(0.9)
    assert "guaranteed at least 90 %" in found.guarantee
    assert found.members[np.arange(len(X) - 700), y[700:]].mean() == pytest.approx(0.9, abs=0.04)
    by_group = auditor.audit(X[700:])
    with pytest.raises(SettingError):
        by_group.prediction_set(0.9, group=np.zeros(len(X) - 700))


def test_too_many_effective_parameters_are_not_left_to_influence():
    generator = torch.Generator().manual_seed(0)
    X, y = torch.randn(12, 9, generator=generator, dtype=torch.float64), torch.arange(12) % 2
    torch.manual_seed(0)
    model = rue.wrap(nn.Linear(9, 2).double(), loss="cross_entropy", l2=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RueWarning)  # what is done about it needs no warning
        chosen = rue.ClassifierRUE().fit(model, (X, y))
    asked = rue.ClassifierRUE().fit(model, (X, y), left_out=rue.left_out.Influence())
    assert asked.facts["effective_parameters"] > 0.3 * 12
    assert asked.facts["left_out"] == "influence at rest"
    assert asked.facts["second_opinion"] == 0
    assert chosen.facts["left_out"] in ("witness", "linearised and witness")
    assert 0.5 <= chosen.facts["second_opinion"] <= 1


def test_logits_of_which_only_differences_matter_need_no_damping():
    generator = torch.Generator().manual_seed(4)
    X = torch.randn(60, 2, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (60,), generator=generator)
    torch.manual_seed(0)
    net = nn.Linear(2, 3).double()
    free = rue.LinearRUE().fit(rue.wrap(net, loss="cross_entropy", l2=0.0), (X, y)).audit(X)
    assert free.facts["flat_directions"] == 3
    small = (
        rue.LinearRUE(damping=rue.solve.Fixed(1e-7)).fit(rue.wrap(net, loss="cross_entropy", l2=0.0), (X, y)).audit(X)
    )
    np.testing.assert_allclose(free.flip_probability, small.flip_probability, rtol=1e-4)


# Networks that are not at rest


def briefly(outputs, loss, X, y, epochs, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(X.shape[1], 16), nn.ReLU(), nn.Linear(16, outputs))
        optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
        for _ in range(epochs):
            for rows in torch.randperm(len(y)).split(64):
                optimizer.zero_grad()
                loss(net(X[rows]), y[rows]).backward()
                optimizer.step()
    return net


def shifted_coin(n, seed=0):
    """Inputs (n, 5) and labels (n,), of which about three in ten are one."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 5))
    labels = generator.random(n) < 1 / (1 + np.exp(1 - 2 * X[:, 0]))
    return torch.tensor(X, dtype=torch.float32), torch.tensor(labels, dtype=torch.int64)


def test_weights_of_classes_tilt_the_network_and_not_its_judge():
    X, y = shifted_coin(900)
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 10.0]))
    net = briefly(2, loss, X[:300], y[:300], 40)
    audit = rue.audit(net, train=(X[:300], y[:300]), inputs=X[300:], loss=loss)
    wrong = (audit.own_probability.argmax(1) != y[300:].numpy()).mean()
    assert wrong > 0.3
    assert abs(audit.score.mean() - wrong) < 0.1
    shares = np.bincount(y[300:]) / 600
    assert -audit.log_prob(y[300:].numpy()).mean() < -(shares * np.log(shares)).sum()


@pytest.mark.parametrize("factor", [0.05, 20.0])
def test_the_temperature_is_in_units_of_the_networks_own_logits(factor):
    X, y = shifted_coin(400)
    net = briefly(2, nn.CrossEntropyLoss(), X[:200], y[:200], 10)
    other = copy.deepcopy(net)
    with torch.no_grad():
        other[2].weight *= factor
        other[2].bias *= factor
    one, another = (
        rue.audit(each, train=(X[:200], y[:200]), inputs=X[200:], loss=nn.CrossEntropyLoss()) for each in (net, other)
    )
    assert another.facts["temperature"] / one.facts["temperature"] == pytest.approx(factor, rel=0.25)
    assert abs(another.score.mean() - one.score.mean()) < 0.02


def test_a_second_opinion_is_never_surer_than_its_rows_allow():
    usual = torch.tensor([0.7, 0.3], dtype=torch.float64)
    second = SecondOpinion(honest=lambda inputs: inputs, unit=1.0, usual=usual, rows=9)
    said = second.probability("largest", torch.tensor([[1e3, 0.0], [0.0, 1e3]], dtype=torch.float64))
    np.testing.assert_allclose(said, [[0.97, 0.03], [0.07, 0.93]], rtol=1e-9)
    X, y = shifted_coin(212)
    rows = torch.cat([torch.nonzero(y[:12] == 0).flatten()[:4], torch.nonzero(y[:12] == 1).flatten()[:4]])
    net = briefly(2, nn.CrossEntropyLoss(), X[rows], y[rows], 200)
    audit = rue.audit(net, train=(X[rows], y[rows]), inputs=X[12:], loss=nn.CrossEntropyLoss())
    assert -audit.log_prob(y[12:].numpy()).mean() < 1.5  # nats; sure and wrong would be many


def test_rows_that_are_all_told_right_ask_for_no_temperature():
    logits = torch.tensor([[5.0], [10.0], [-5.0], [-15.0]], dtype=torch.float64)
    told = torch.tensor([[1.0], [1.0], [0.0], [0.0]], dtype=torch.float64)
    shares = torch.full((4,), 0.25, dtype=torch.float64)
    assert best_temperature("signs", logits, told, shares)[1]
    told[2] = 1.0
    assert not best_temperature("signs", logits, told, shares)[1]


def test_labels_that_margins_do_not_predict_ask_for_no_temperature():
    logits = torch.tensor([[3.0], [1.0], [-2.0], [-1.0]], dtype=torch.float64)
    shares = torch.full((4,), 0.25, dtype=torch.float64)
    opposed = torch.tensor([[0.0], [0.0], [1.0], [1.0]], dtype=torch.float64)
    assert best_temperature("signs", logits, opposed, shares)[1]
    unit, limit = best_temperature("signs", logits, torch.full((4, 1), 0.5).double() + 0.2 * logits.sign(), shares)
    assert not limit
    # Σ m (σ(m/t) − 0.7) = 0 for margins m of 3, 1, 2 and 1
    assert sum(m * (expit(m / unit**0.5) - 0.7) for m in (3, 1, 2, 1)) == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(("truth", "factor"), [((1.5, 1.0, 0.3), 1.0), ((0.1, 3.0, 0.0), 1e-3), ((4.0, 0.0, 1.0), 1e3)])
def test_margins_are_shrunk_by_the_weights_that_make_left_out_labels_likeliest(truth, factor):
    generator = np.random.default_rng(0)
    logits, weight = 4 * generator.normal(size=300), generator.uniform(0.5, 2, size=300)
    resampling, scarcity = generator.exponential(size=300), 5 * generator.exponential(size=300)

    def share(unit, by_resampling, by_scarcity):
        return expit(logits / np.sqrt(unit + np.pi / 8 * (by_resampling * resampling + by_scarcity * scarcity)))

    yes = generator.random(300) < share(*truth)

    def nll(weights):
        shares = share(*weights)
        return -np.average(np.log(np.where(yes, shares, 1 - shares)), weights=weight)

    columns = [torch.tensor(values)[:, None] for values in (logits, resampling[:, None], scarcity[:, None])]
    found = fit_shrinkage("signs", *columns, torch.tensor(yes)[:, None].double(), factor * torch.tensor(weight))
    alone = np.exp(minimize_scalar(lambda log: nll([np.exp(log), 0, 0]), bounds=(-9, 9), method="bounded").x)
    limits = [(alone / 4, None), (0, None), (0, None)]
    least = min(minimize(nll, start, bounds=limits, tol=1e-12).fun for start in ([alone, 1, 1], [alone, 0.1, 0.1]))
    assert found.nll == pytest.approx(nll(found[:3]), rel=1e-9)
    assert found.nll == pytest.approx(least, abs=1e-6)
    assert found.unit >= alone / 4 * (1 - 1e-4)
    assert min(found.resampling, found.scarcity) >= 0
    assert not found.limit
    np.testing.assert_allclose(found.probability("signs", *columns)[:, 1], share(*found[:3]), rtol=1e-9)
    np.testing.assert_allclose(
        found.probability("signs", columns[0], None, columns[2])[:, 1],
        share(found.unit, 0, found.scarcity),
        rtol=1e-9,
    )


# Yes or no by one logit, with everything written out


def logistic(n=40, l2=0.5, seed=0, overlap=1.0):
    """Weighted rows, labels, and a logistic regression at its minimum; every fifth row has no weight."""
    source = np.random.default_rng(seed)
    D = np.column_stack([source.normal(size=(n, 2)), np.ones(n)])
    D[:, 0] += np.sign(D[:, 0]) * (1 - overlap)
    y = (D[:, 0] + overlap * source.normal(size=n) > 0).astype(float)
    weight = np.where(np.arange(n) % 5 == 4, 0.0, source.uniform(0.5, 2.0, n))
    theta = np.zeros(3)
    for _ in range(60):
        p = expit(D @ theta)
        H = (D * (weight * p * (1 - p))[:, None]).T @ D + l2 * np.eye(3)
        theta -= np.linalg.solve(H, D.T @ (weight * (p - y)) + l2 * theta)
    module = nn.Linear(2, 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor(theta[None, :2]))
        module.bias.copy_(torch.tensor(theta[2:]))
    return D, y, weight, theta, rue.wrap(module, loss="bernoulli", l2=l2)


def without_each_row(D, y, weight, theta, l2=0.5, shared=1.0):
    """Logits (n,), their resampling variance and their scarcity, one Newton step after each row is left out."""
    n, p = len(y), expit(D @ theta)
    curvature = weight * p * (1 - p)
    H = (D * curvature[:, None]).T @ D + l2 * np.eye(3)
    logits, spread, scarcity = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        solved = np.linalg.solve(H - curvature[i] * np.outer(D[i], D[i]), D[i])
        pulls = np.delete((D @ solved) * weight * (p - y), i)
        logits[i] = D[i] @ theta + (D[i] @ solved) * weight[i] * (p[i] - y[i])
        spread[i] = (pulls**2).sum() - shared * pulls.sum() ** 2 / n
        scarcity[i] = D[i] @ solved
    return logits, spread, scarcity


def nll(logits, y, weight):
    return (weight * np.logaddexp(0, np.where(y > 0, -logits, logits))).sum() / weight.sum()


@pytest.mark.parametrize("by", ["largest", "entropy"])
def test_the_temperature_is_the_best_for_logits_of_rows_left_out(by):
    D, y, weight, theta, model = logistic()
    logits, _, _ = without_each_row(D, y, weight, theta)
    data = rue.Data(D[:, :2], y, weight=weight)
    audit = rue.Confidence(by=by, tempered=True).fit(model, data).audit(D[:, :2])
    best = min(np.geomspace(0.2, 5, 4001), key=lambda temperature: nll(logits / temperature, y, weight))
    assert audit.facts["temperature"] == pytest.approx(best, rel=2e-3)
    yes = expit(D @ theta / audit.facts["temperature"])
    shares = np.column_stack([1 - yes, yes])
    np.testing.assert_allclose(audit.probability, shares, rtol=1e-9)
    wanted = 1 - shares.max(1) if by == "largest" else -(shares * np.log(shares)).sum(1)
    np.testing.assert_allclose(audit.score, wanted, rtol=1e-9)
    plain = rue.Confidence(by=by).fit(model, data).audit(D[:, :2])
    np.testing.assert_allclose(plain.probability[:, 1], expit(D @ theta), rtol=1e-9)


def test_a_temperature_that_is_not_determined_leaves_the_logits_as_they_are():
    D, y, weight, theta, model = logistic(overlap=0.0)
    assert ((without_each_row(D, y, weight, theta)[0] > 0) == (y > 0))[weight > 0].all()
    data = rue.Data(D[:, :2], y, weight=weight)
    plain, tempered = (rue.Confidence(tempered=told).fit(model, data).audit(D[:, :2]) for told in (False, True))
    assert tempered.facts["temperature"] == plain.facts["temperature"] == 1
    np.testing.assert_array_equal(tempered.score, plain.score)


@pytest.mark.parametrize(("resampler", "shared"), [(rue.resample.Multinomial(), 1.0), (rue.resample.Poisson(), 0.0)])
def test_no_other_weights_make_the_labels_of_left_out_rows_more_likely(resampler, shared):
    D, y, weight, theta, model = logistic()
    logits, spread, scarcity = without_each_row(D, y, weight, theta, shared=shared)
    alone = minimize_scalar(lambda unit: nll(logits / np.exp(unit / 2), y, weight), bounds=(-9, 9), method="bounded")

    def cost(weights):
        unit, by_resampling, by_scarcity = weights
        shrunk = logits / np.sqrt(unit + np.pi / 8 * (by_resampling * spread + by_scarcity * scarcity))
        return nll(shrunk, y, weight)

    limits = [(0.25 * np.exp(alone.x), None), (0, None), (0, None)]
    best = min(minimize(cost, start, bounds=limits).fun for start in ([1, 1, 1], [1, 0, 0.1], [0.5, 3, 0]))
    method = rue.ClassifierRUE(resampler=resampler)
    data = rue.Data(D[:, :2], y, weight=weight)
    auditor = method.fit(model, data, left_out=rue.left_out.Influence())
    weights = auditor.facts["weights"]
    found = auditor.facts["temperature"] ** 2, weights["resampling"], weights["scarcity"]
    assert auditor.facts["left_out_nll"] == pytest.approx(best, abs=2e-5)
    assert cost(found) == pytest.approx(auditor.facts["left_out_nll"], rel=1e-6)
    p = expit(D @ theta)
    inverse = np.linalg.inv((D * (weight * p * (1 - p))[:, None]).T @ D + 0.5 * np.eye(3))
    new = np.column_stack([np.random.default_rng(1).normal(size=(9, 2)) * 3, np.ones(9)])
    pulls = new @ inverse @ (D * (weight * (p - y))[:, None]).T
    moved = (pulls**2).sum(1) - shared * pulls.sum(1) ** 2 / len(y)
    total = found[0] + np.pi / 8 * (found[1] * moved + found[2] * np.einsum("mi,ij,mj->m", new, inverse, new))
    audit = auditor.audit(new[:, :2])
    np.testing.assert_allclose(audit.covariance[:, 0, 0], moved, rtol=1e-6)
    np.testing.assert_allclose(audit.probability[:, 1], expit(new @ theta / np.sqrt(total)), rtol=1e-6)


@pytest.mark.parametrize(
    ("rows", "cells", "fewest", "used"),
    [(20, 10**6, 2, 20), (20, 9 * 7, 2, 7), (20, 9 * 7, 10, 10), (5, 9 * 7, 10, 5), (10**4, 10**6, 2, 24)],
)
def test_covariances_of_no_more_rows_than_fit_are_weighed(rows, cells, fewest, used, monkeypatch):
    case, model = three_classes()
    seen, own = [], classifier_rue.fit_shrinkage
    for name, value in (("ROWS", rows), ("CELLS", cells), ("FEWEST", fewest)):
        monkeypatch.setattr(classifier_rue, name, value)
    monkeypatch.setattr(classifier_rue, "fit_shrinkage", lambda *parts: seen.append(parts) or own(*parts))
    rue.ClassifierRUE().fit(model, (case.X, case.y), left_out=rue.left_out.Influence())
    ((_, logits, resampling, scarcity, targets, weight),) = seen
    assert len(logits) == len(targets) == len(weight) == used
    assert resampling.shape == scarcity.shape == (used, 3, 3)


# Validation rows


@pytest.mark.parametrize("opinion", [None, 0.2, 0.9])
@pytest.mark.parametrize("scale", [0.3, 1.0, 2.0, 6.0])
def test_validation_rows_set_temperature_and_share_against_a_prior_around_what_was_fitted(opinion, scale, monkeypatch):
    monkeypatch.setattr("rue.data.opening.BATCH_BYTES", 100)  # a few rows at a time
    source = np.random.default_rng(int(10 * scale))
    X = source.normal(size=(30, 3))
    y = (source.random(30) < expit(2 * X[:, 0] + X[:, 1])).astype(float)
    module = nn.Linear(3, 1, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[2 * scale, 0.0, 0.0]], dtype=torch.float64))
    model = rue.wrap(module, loss="bernoulli", l2=1.0)
    second = None
    if opinion is not None:
        usual = torch.tensor([0.4, 0.6], dtype=torch.float64)
        second = SecondOpinion(lambda rows: 3 * rows[:, 1:2], unit=4.0, usual=usual, rows=9, share=opinion)

    def moves(_, rows):
        return rows[:, 1, None, None] ** 2, rows[:, 2, None, None] ** 2, None

    spread = ShrunkMargins("signs", moves, Shrinkage(1.5, 0.7, 0.3, 0.0, limit=False), second)
    found = validated(spread, model, (X, y))
    theirs = (9 * expit(3 * X[:, 1] / 2) + 0.6) / 10
    more = np.pi / 8 * (0.7 * X[:, 1] ** 2 + 0.3 * X[:, 2] ** 2)

    def cost(unit, share):
        """Less the log likelihood and that of two normal priors: log(unit) with deviation 1, the share with 0.25."""
        yes = (1 - share) * expit(2 * scale * X[:, 0] / np.sqrt(unit + more)) + share * theirs
        away = np.log(unit / 1.5) ** 2 / 2 + (0 if opinion is None else ((share - opinion) / 0.25) ** 2 / 2)
        return away - np.log(np.where(y > 0, yes, 1 - yes)).sum()

    unit, share = found.shrinkage.unit, 0.0 if opinion is None else found.second.share
    around = [0.0] if opinion is None else [step for step in (share - 0.1, share, share + 0.1) if -0.01 < step < 1.01]
    assert all(cost(unit, share) <= cost(unit * factor, step) + 1e-9 for factor in (0.5, 1, 2) for step in around)
    assert (found.second is None) == (opinion is None)
    assert found.shrinkage._replace(unit=1.5) == spread.shrinkage
    assessed = found(model, torch.tensor(X))
    own = expit(2 * scale * X[:, 0] / np.sqrt(unit + more))
    np.testing.assert_allclose(assessed.classes.probability[:, 1], (1 - share) * own + share * theirs, rtol=1e-9)


def test_softmax_leaves_one_output_less_free_than_there_are_logits():
    """Adding the same number to all logits of a row changes nothing; other outputs move one by one."""
    families = rue.losses.cross_entropy().family, rue.losses.bernoulli().family, rue.losses.squared_error().family
    assert [free_outputs(family, 4) for family in families] == [3, 4, 4]
    assert [free_outputs(family, 1) for family in families] == [1, 1, 1]
