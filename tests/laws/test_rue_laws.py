"""Laws of the methods that re-weight the training rows."""

import copy
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import cases
import oracles
import rue
from rue.auditing.trained import Solved
from rue.core.influence import pull_root, pull_root_fits
from rue.core.resample import BayesianBootstrap, Jackknife, Multinomial, Poisson
from rue.core.solve import Fixed, MeanFraction
from rue.core.solve.choice import invert
from rue.data.opening import training_rows
from rue.methods.resampled import Resampled

CURVATURES = {"Hessian": rue.curvature.Hessian(), "GaussNewton": rue.curvature.GaussNewton()}
pytestmark = pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")  # members that drift are not tested here


def scaled_loss(factor):
    def loss(outputs, targets):
        return factor * 0.5 * (outputs[:, 0] - targets).square()

    return loss


@given(factor=st.floats(0.01, 100.0))
def test_scaling_loss_penalty_and_damping_together_changes_nothing(factor):
    case = cases.softplus()
    audits = []
    for c in (1.0, factor):
        model = rue.wrap(case.module, loss=scaled_loss(c), l2=c * case.l2)
        audits.append(rue.LinearRUE(damping=Fixed(c * 0.5)).fit(model, (case.X, case.y)).audit(case.X_new))
    np.testing.assert_allclose(audits[1].score, audits[0].score, rtol=1e-8)


@pytest.mark.parametrize("make", [rue.LinearRUE, lambda **s: rue.RUE(members=10, **s)], ids=["closed", "sampled"])
def test_infinite_damping_gives_no_spread(make):
    case = cases.softplus()
    audit = make(damping=Fixed(1e14)).fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(audit.std, 0, atol=1e-10)


@pytest.mark.parametrize("curvature", CURVATURES)
def test_more_damping_never_gives_more_spread_in_the_sum_over_training_rows(curvature):
    case = cases.linear()
    totals = []
    for damping in (0.1, 1.0, 10.0):
        method = rue.LinearRUE(curvature=CURVATURES[curvature], damping=Fixed(damping))
        totals.append((method.fit(case.wrap(), (case.X, case.y)).audit(case.X).std ** 2).sum())
    assert totals[0] > totals[1] > totals[2]


def test_a_mean_objective_is_the_sum_with_the_penalty_times_n():
    case = cases.softplus()
    n = len(case.y)
    mean = rue.LinearRUE().fit(case.wrap(l2=0.3 / n, reduction="mean"), (case.X, case.y)).audit(case.X_new)
    total = rue.LinearRUE().fit(case.wrap(l2=0.3), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(mean.score, total.score, rtol=1e-12)


def test_a_zero_residual_row_adds_nothing_but_curvature():
    case = cases.linear()
    x = case.X[:1] * 3
    y = torch.cat([case.y, case.module(x).detach()[:, 0]])
    X = torch.cat([case.X, x])
    method = rue.LinearRUE(resampler=Poisson())
    more = method.fit(case.wrap(), (X, y)).audit(case.X_new).std
    assert (more <= method.fit(case.wrap(), (case.X, case.y)).audit(case.X_new).std + 1e-12).all()


def test_duplicating_the_training_set_halves_the_variance():
    case = cases.linear()
    twice = (torch.cat([case.X, case.X]), torch.cat([case.y, case.y]))
    once = rue.LinearRUE().fit(case.wrap(l2=0.3), (case.X, case.y)).audit(case.X_new)
    both = rue.LinearRUE().fit(case.wrap(l2=0.6), twice).audit(case.X_new)
    np.testing.assert_allclose(both.std**2, once.std**2 / 2, rtol=1e-10)


def test_grouping_duplicates_with_their_originals_undoes_the_duplication():
    case = cases.linear()
    data = rue.Data(torch.cat([case.X, case.X]), torch.cat([case.y, case.y]), group=np.tile(np.arange(len(case.y)), 2))
    once = rue.LinearRUE().fit(case.wrap(l2=0.3), (case.X, case.y)).audit(case.X_new)
    grouped = rue.LinearRUE().fit(case.wrap(l2=0.6), data).audit(case.X_new)
    np.testing.assert_allclose(grouped.std, once.std, rtol=1e-10)


@pytest.mark.parametrize("resampler", cases.RESAMPLERS, ids=repr)
@pytest.mark.parametrize("grouped", [False, True])
def test_every_resamplers_members_reproduce_its_closed_form(resampler, grouped):
    """Linear model: only sampling error is left. 20 000 members: six standard errors of 1 %."""
    case = cases.linear()
    group = np.arange(len(case.y)) // 3 if grouped else None
    data = rue.Data(case.X, case.y, group=group)
    exact = rue.LinearRUE(resampler=resampler, damping=Fixed(1.0)).fit(case.wrap(), data).audit(case.X_new)
    method = rue.RUE(members=20_000, resampler=resampler, damping=Fixed(1.0), curvature=rue.curvature.GaussNewton())
    sampled = method.fit(case.wrap(), data).audit(case.X_new)
    tolerance = 1e-9 if isinstance(resampler, Jackknife) else 0.07
    np.testing.assert_allclose(sampled.std**2, exact.std**2, rtol=tolerance)


@pytest.mark.parametrize("units", ["few", "many"])
def test_condensing_many_gradients_into_d_rows_changes_nothing(units):
    """The streaming form, taken when there are more than twice as many units as parameters, against the other."""
    case = cases.linear() if units == "many" else cases.softplus()
    method = rue.LinearRUE(damping=Fixed(0.5))
    audit = method.fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    H = oracles.gauss_newton(case.module, case.row_loss, case.X, case.y, case.l2 + 0.5)
    L = oracles.gradient_matrix(case.module, case.row_loss, case.X, case.y)
    expected = oracles.closed_form(oracles.output_jacobian(case.module, case.X_new), H, L)
    np.testing.assert_allclose(audit.covariance, expected, rtol=1e-8)


def least_squares_rows(n, units, group=None):
    """A linear model of features in these units, the last of which is always zero, and the gradients L (n, d)."""
    rng = np.random.default_rng(n)
    X = np.hstack([rng.normal(size=(n, len(units))) * units, np.zeros((n, 1))])
    y, weight = rng.normal(size=n), rng.uniform(0.5, 2.0, size=n)
    net = torch.nn.Linear(X.shape[1], 1, bias=False).double()
    with torch.no_grad():
        net.weight.zero_()
    data = rue.Data(X, y, weight=weight, group=group)
    rows, model = training_rows(data, rue.wrap(net, loss="squared_error", l2=1.0))
    return rows, model, -(weight * y)[:, None] * X


@pytest.mark.parametrize("resampler", [Multinomial(), BayesianBootstrap(), Poisson(), Jackknife()], ids=repr)
@pytest.mark.parametrize("n", [7, 10, 30])
@pytest.mark.parametrize("size", [1, 3])
def test_the_root_of_resampled_gradients_is_short_and_exact_in_any_units(resampler, n, size):
    """Features from 1e-9 to 1e9: every entry of FᵀF = Lᵀ Cov[w] L is right, relative to its own units."""
    group = np.random.default_rng(1).permutation(np.arange(n) // size)
    rows, model, L = least_squares_rows(n, np.array([1.0, 1e-9, 1e9]), None if size == 1 else group)
    root = pull_root(model, rows, resampler, None).numpy()
    summed = np.zeros((len(np.unique(group)), L.shape[1]))
    np.add.at(summed, group, L)
    u = len(summed)
    scale, shared = {
        "Multinomial()": (1.0, 1.0),
        "BayesianBootstrap()": (u / (u + 1), 1.0),
        "Poisson()": (1.0, 0.0),
        "Jackknife()": (u / (u - 1), 1.0),
    }[repr(resampler)]
    wanted = summed.T @ (scale * (np.eye(u) - shared / u)) @ summed
    unit = np.array([1.0, 1e-9, 1e9, 1.0])
    np.testing.assert_allclose(root.T @ root / np.outer(unit, unit), wanted / np.outer(unit, unit), atol=1e-11 * n)
    assert len(root) <= min(u, 2 * len(unit))


@pytest.mark.parametrize("n", [7, 50])
@pytest.mark.parametrize("size", [1, 3])
def test_the_root_of_resampled_gradients_fits_where_there_is_room_for_it(n, size, monkeypatch):
    """Not where it could not even be stored once, and always where it could be stored a hundred times."""
    rows, model, L = least_squares_rows(n, np.ones(3), None if size == 1 else np.arange(n) // size)
    stored = 8 * L.shape[1] * (min(n, 2 * L.shape[1]) if size == 1 else len(range(0, n, size)))
    for room, fits in ((stored - 1, False), (100 * stored, True)):
        monkeypatch.setattr("rue.core.influence.free_bytes", lambda _, room=room: room)
        assert pull_root_fits(model, rows) is fits


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("meat", ["HC0", "HC3"])
def test_streaming_over_rows_that_do_not_fit_changes_nothing(grouped, meat, monkeypatch):
    if grouped and meat == "HC3":
        pytest.skip("refused: tests/attacks")
    case = cases.convolution()
    data = rue.Data(case.X, case.y, group=np.arange(len(case.y)) // 2 if grouped else None)
    method = rue.LinearRUE(meat=meat, damping=Fixed(0.1))
    held = method.fit(case.wrap(), data).audit(case.X_new)
    monkeypatch.setattr("rue.core.influence.free_bytes", lambda _: 1)
    streamed = method.fit(case.wrap(), data).audit(case.X_new)
    assert streamed.facts["streamed"]
    np.testing.assert_allclose(streamed.covariance, held.covariance, rtol=1e-9)


def test_without_a_penalty_a_net_with_too_many_parameters_is_damped_and_says_so():
    case = cases.convolution()
    with pytest.warns(rue.errors.RueWarning, match="singular without damping"):
        auditor = rue.LinearRUE().fit(case.wrap(l2=0.0), (case.X, case.y))
    audit = auditor.audit(case.X_new)
    assert audit.facts["damping"] > 0
    assert "singular" in audit.facts["damping_reason"]
    assert any("singular" in text for text in audit.facts["warnings"])
    assert audit.facts["l2"] == 0
    same = rue.LinearRUE(damping=MeanFraction()).fit(case.wrap(l2=0.0), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(audit.score, same.score)


def test_members_that_drown_in_rounding_are_warned_about():
    case = cases.linear()
    net = copy.deepcopy(case.module).float()
    with torch.no_grad():
        net.bias.add_(1e6)
    method = rue.RUE(members=50, curvature=rue.curvature.GaussNewton())
    auditor = method.fit(rue.wrap(net, loss="squared_error", l2=1.0), (case.X, case.y + 1e6))
    with pytest.warns(rue.errors.RueWarning, match="rounding"):
        auditor.audit(case.X_new)


def sandwich(D, residual, curvature, at):
    """The bootstrap's variance of predictions at rows `at`, to first order."""
    pulls = at @ np.linalg.inv(curvature) @ (D * residual[:, None]).T
    return ((pulls - pulls.mean(1, keepdims=True)) ** 2).sum(1)


def test_a_penalty_that_is_not_known_is_inferred_unless_damping_or_curvature_are_asked_for():
    case = cases.linear()
    D, at = (np.column_stack([X, np.ones(len(X))]) for X in (case.X, case.X_new))
    model, data, y = case.wrap(l2=None), (case.X, case.y), case.y.numpy()
    own = case.module(case.X).detach().numpy()[:, 0] - y
    for method, damping in (
        (rue.LinearRUE(damping=Fixed(0.7)), 0.7),
        (rue.LinearRUE(curvature=rue.curvature.Hessian()), 0.0),
        (rue.LinearRUE(curvature=rue.curvature.Hessian(), damping=Fixed(0.7)), 0.7),
    ):
        asked = method.fit(model, data).audit(case.X_new)
        assert "tangent_penalty" not in asked.facts
        np.testing.assert_allclose(asked.std**2, sandwich(D, own, D.T @ D + damping * np.eye(4), at), rtol=1e-8)
    inferred = rue.LinearRUE().fit(model, data).audit(case.X_new)
    inside = D.T @ D + inferred.facts["tangent_penalty"] * np.eye(4)
    refitted = D @ np.linalg.solve(inside, D.T @ y) - y
    np.testing.assert_allclose(inferred.std**2, sandwich(D, refitted, inside, at), rtol=1e-4)
    known = rue.LinearRUE().fit(case.wrap(), data).audit(case.X_new)
    assert "tangent_penalty" not in known.facts
    np.testing.assert_allclose(known.std**2, sandwich(D, own, D.T @ D + case.l2 * np.eye(4), at), rtol=1e-8)


def test_noise_is_the_weighted_mean_of_squared_residuals_and_other_losses_have_none():
    case = cases.convolution()
    weight = np.linspace(0.0, 3.0, len(case.y))
    data = rue.Data(case.X, case.y, weight=weight)
    residual = (case.module(case.X) - case.y).detach().numpy()
    wanted = np.einsum("n,ni,nj->ij", weight / weight.sum(), residual, residual)
    audit = rue.LinearRUE().fit(case.wrap(), data).audit(case.X_new)
    np.testing.assert_allclose(audit.noise_covariance, np.tile(wanted, (len(case.X_new), 1, 1)), rtol=1e-10)
    np.testing.assert_allclose(audit.total_covariance, audit.covariance + audit.noise_covariance, rtol=1e-12)
    far = rue.NearestNeighbours(by="distance").fit(case.wrap(), data).audit(case.X_new)
    assert far.noise_covariance is None
    other = cases.bernoulli()
    assert rue.LinearRUE().fit(other.wrap(), (other.X, other.y)).audit(other.X_new).noise_covariance is None


def test_the_seconds_of_a_fit_are_those_on_the_clock():
    case = cases.linear()
    before = time.perf_counter()
    auditor = rue.LinearRUE().fit(case.wrap(), (case.X, case.y))
    assert 0 < auditor.facts["seconds_fit"] < time.perf_counter() - before


def test_facts_say_whether_l2_was_given():
    case = cases.linear()
    for l2, said in ((None, False), (0.0, True), (0.3, True)):
        assert rue.LinearRUE().fit(case.wrap(l2=l2), (case.X, case.y)).facts["l2_given"] is said


class Squared(torch.nn.Module):
    """f = (θx)², close to its minimum: wherever θ goes, the prediction goes up."""

    def __init__(self):
        super().__init__()
        self.theta = torch.nn.Parameter(torch.tensor([0.01], dtype=torch.float64))

    def forward(self, x):
        return (x @ self.theta).square()


def test_members_that_leave_the_prediction_are_warned_about():
    X = torch.linspace(0.5, 1.5, 12, dtype=torch.float64).unsqueeze(-1)
    model = rue.wrap(Squared(), loss="squared_error", l2=1.0)
    auditor = rue.Laplace(members=2000, curvature=rue.curvature.GaussNewton()).fit(model, (X, 0.1 * X[:, 0]))
    with pytest.warns(rue.errors.RueWarning, match="away from the model's own"):
        audit = auditor.audit(X)
    assert any("away from" in text for text in audit.facts["warnings"])


# Rows that pull by their left-out residuals


def pulled(D, slope, weight, resampler, l2=0.5):
    """A linear model of as many outputs as `slope` (n, k) has, and how resampling moves it."""
    k = slope.shape[1]
    model = rue.wrap(torch.nn.Linear(D.shape[1], k, bias=False).double(), loss="squared_error", l2=l2)
    data, bound = training_rows(rue.Data(D, np.zeros_like(slope), weight=weight), model)
    inverted = invert(rue.curvature.GaussNewton().at(bound, data), None, None)
    root = pull_root(bound, data, resampler, inverted.inverse, slope=torch.tensor(slope))
    return Resampled(Solved(inverted, bound), inverted.inverse.solve(root).vectors), data


@pytest.mark.parametrize("k", [1, 2])
def test_resampling_at_a_row_without_it_is_that_of_all_other_rows(k):
    source = np.random.default_rng(0)
    D, slope, weight = source.normal(size=(12, 3)), source.normal(size=(12, k)), source.uniform(0.5, 2.0, 12)
    H = (D * weight[:, None]).T @ D + 0.5 * np.eye(3)
    resampled, data = pulled(D, slope, weight, Poisson())
    found = resampled.without_own(data, torch.tensor(slope))
    for i in range(12):
        others = np.delete(np.arange(12), i)
        moved = D[others] @ np.linalg.solve(H - weight[i] * np.outer(D[i], D[i]), D[i]) * weight[others]
        np.testing.assert_allclose(found[i], (slope[others] * moved[:, None] ** 2).T @ slope[others], rtol=1e-9)
    new = source.normal(size=(4, 3))
    moved = new @ np.linalg.solve(H, D.T) * weight
    wanted = np.einsum("mn,ni,nj->mij", moved**2, slope, slope)
    np.testing.assert_allclose(resampled.covariance(torch.tensor(new)), wanted, rtol=1e-9)


def test_a_row_that_shares_nothing_with_the_others_does_not_move_without_itself():
    resampled, data = pulled(
        np.diag([1.0, 2.0, 3.0, 0.5]), np.array([[3.0], [-1.0], [2.0], [1.0]]), None, Multinomial()
    )
    found = resampled.without_own(data, torch.tensor([[3.0], [-1.0], [2.0], [1.0]], dtype=torch.float64))
    assert (found >= 0).all()
    np.testing.assert_allclose(found, 0, atol=1e-15)


def test_a_row_that_decides_alone_is_corrected_for_nine_tenths_of_its_leverage():
    D, slope = np.array([[1.0, 0.0], [0.5, 0.2], [40.0, 1.0], [0.3, -1.0]]), np.array([[1.0], [2.0], [-1.0], [0.5]])
    H = D.T @ D + 0.5 * np.eye(2)
    assert D[2] @ np.linalg.solve(H, D[2]) > 0.99
    resampled, data = pulled(D, slope, None, Poisson())
    others = [0, 1, 3]
    moved = D[others] @ np.linalg.solve(H, D[2]) * slope[others, 0]
    found = resampled.without_own(data, torch.tensor(slope))
    assert float(found[2, 0, 0]) == pytest.approx((moved**2).sum() / (1 - 0.9) ** 2, rel=1e-9)


@pytest.mark.usefixtures("few_trees")
def test_a_network_that_is_judged_by_copies_moves_as_its_tangent_does(monkeypatch):
    for name in ("TREES", "FEWEST"):
        monkeypatch.setattr(f"rue.calibrate.left_out.forest.{name}", 10)
    case = cases.linear()
    model = case.wrap(l2=None)
    X, y = case.X.numpy(), case.y.numpy()

    def refit(rows):
        return Ridge(0.3).fit(X[rows], y[rows])

    judged = rue.CalibratedRUE().fit(model, (case.X, case.y), refit=refit, left_out=rue.left_out.Folds(4))
    assert judged.facts["left_out"] == "refits"
    linear = rue.LinearRUE().fit(model, (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(judged.audit(case.X_new).std, linear.std, rtol=1e-9)


@pytest.mark.parametrize("name", ["softplus", "linear"])
def test_members_predict_the_same_in_one_piece_and_in_many(name, monkeypatch):
    case = cases.CASES[name]()
    auditor = rue.RUE(members=5).fit(case.wrap(), (case.X, case.y))
    whole, audit = auditor.members(case.X_new), auditor.audit(case.X_new)
    monkeypatch.setattr("rue.methods.ensemble.MEMBER_BYTES", 8 * 5 * 64 * 2)  # two rows at a time
    np.testing.assert_allclose(auditor.members(case.X_new), whole, rtol=1e-12)
    np.testing.assert_allclose(auditor.audit(case.X_new).std, audit.std, rtol=1e-12)


@pytest.mark.parametrize("method", [rue.LinearRUE(), rue.RUE(members=5)], ids=["LinearRUE", "RUE"])
def test_a_spread_made_of_influences_says_whose_they_are(method):
    """The parts (bᵢ − b̄)² of the resampling variance, each row's, sum to it."""
    case = cases.linear()
    why = method.fit(case.wrap(), (case.X, case.y)).audit(case.X_new).explain(0)
    exact = rue.LinearRUE(curvature=rue.curvature.Hessian()).fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    assert why.to_frame(top=len(case.y))["share"].sum() == pytest.approx(1.0)
    assert exact.explain(0).to_frame(top=3)["share"].iloc[0] == pytest.approx(why.to_frame(top=3)["share"].iloc[0])


@pytest.mark.parametrize("step", [0.0, -0.1, float("inf"), float("nan")])
def test_a_step_that_cannot_be_taken_is_refused(step):
    with pytest.raises(rue.errors.SettingError, match="step must be a positive number"):
        rue.BootstrapSGD(step=step)
