"""auditor.check(): seven wrong set-ups are caught on five models, and a right one raises none of them."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import check_cases
import rue
import sound_setups
from check_cases import CAUGHT_BY, KINDS, WRONG, right, train
from rue.calibrate.left_out.rest import DRAWS, distance
from rue.checks.at_rest import needed_share
from rue.checks.check import Check, CheckUp
from rue.checks.check_up import CHECKS
from rue.checks.other_statements import InMetric, explained, other_statements
from rue.checks.prints import row_prints
from rue.checks.subject import Subject
from rue.checks.training_fit import best_constant
from rue.core.errors import RueWarning
from snapshot import changed, module_picture

pytestmark = pytest.mark.usefixtures("few_trees")

X, y = load_diabetes(return_X_y=True)
X = X / X.std(axis=0)
y = (y - y.mean()) / y.std()


def subject(auditor: rue.Auditor) -> Subject:
    return Subject(auditor.model, auditor.trained.data, auditor.trained.inverted)


def seen(auditor: rue.Auditor):
    found = subject(auditor)
    return distance(found.model, found.reweighted, found.factored.inverse)


# the seven mistakes, on five models


@pytest.mark.parametrize("name", KINDS)
def test_a_right_setup_is_green_in_every_check(name):
    found = right(name).check()
    assert {check.name: check.light for check in found} == {check.name: "green" for check in found}
    assert set(CAUGHT_BY.values()) <= {check.name for check in found}
    assert all(check.advice == "" for check in found)


@pytest.mark.parametrize("mistake", WRONG)
@pytest.mark.parametrize("name", KINDS)
def test_every_mistake_is_caught_on_every_model(name, mistake):
    found = WRONG[mistake](name).check()[CAUGHT_BY[mistake]]
    assert found.light == ("amber" if mistake == "stale weights" else "red")
    assert found.advice
    assert "n = " in found.found or "rows" in found.found


@pytest.mark.parametrize("name", KINDS)
def test_a_wrong_penalty_is_named_with_its_factor(name):
    assert " 0.1 times as large" in WRONG["l2 ten times too large"](name).check()["at rest"].found
    assert " 10 times as large" in WRONG["l2 ten times too small"](name).check()["at rest"].found
    assert "a mean was taken for a sum" in WRONG["mean for sum"](name).check()["at rest"].found
    assert f"loss={KINDS[name].loss!r}" in WRONG["wrong loss"](name).check()["at rest"].found


@pytest.mark.docs
def test_the_page_shows_what_is_measured():
    shown = check_cases.PAGE.read_text().split(check_cases.BEGIN)[1].split(check_cases.END)[0].strip().splitlines()[2:]
    for line, (mistake, checks) in zip(shown, check_cases.measured().items(), strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[:2] == [mistake, checks[0].name]
        for cell, check in zip(cells[2:], checks, strict=True):
            light, number = cell.split(maxsplit=1)
            assert light == check.light
            if "below" in number:
                assert check.value < 1e-6
            else:
                assert check.value == pytest.approx(float(number), rel=0.1)


def test_a_layer_that_is_random_in_training_mode_is_refused_before_any_check():
    found = right("regression net")
    net = nn.Sequential(found.net[0], nn.Dropout(0.5), found.net[2]).double()
    with pytest.raises(rue.errors.ModelError):
        rue.LinearRUE().fit(rue.wrap(net, loss="squared_error", l2=1.0), (found.X, found.y))


# at rest


def test_the_decrement_is_that_of_the_objective_and_its_unit_the_resampling_step():
    auditor = WRONG["l2 ten times too large"]("linear regression").auditor()
    found, right_one = seen(auditor), right("linear regression")
    A = torch.cat([right_one.X, torch.ones(300, 1, dtype=torch.float64)], 1)
    theta = torch.cat([p.detach().reshape(-1) for p in right_one.net.parameters()])
    H = A.T @ A + 20 * torch.eye(5, dtype=torch.float64)
    rows = A * (A @ theta - right_one.y)[:, None]
    g = rows.sum(0) + 20 * theta
    assert found.decrement == pytest.approx(float(g @ torch.linalg.solve(H, g)), rel=1e-9)
    centred = rows - rows.mean(0)
    typical = float((centred.T * torch.linalg.solve(H, centred.T)).sum())
    assert found.steps == pytest.approx((found.decrement / typical) ** 0.5, rel=4 / DRAWS**0.5)


def test_the_distance_has_no_units_of_loss_inputs_or_parameters():
    base = WRONG["stale weights"]("linear regression")

    def rescaled(inputs: float, loss: float):
        net = copy.deepcopy(base.net)
        net[0].weight.data /= inputs
        scaled = nn.Sequential(net[0]).double()
        weight = np.full(300, loss)
        model = rue.wrap(scaled, loss="squared_error", l2={"*.weight": loss * inputs**2, "*.bias": loss})
        return seen(rue.LinearRUE().fit(model, rue.Data(inputs * base.X, base.y, weight=weight))).steps

    assert rescaled(1000.0, 1.0) == pytest.approx(rescaled(1.0, 1.0), rel=1e-6)
    assert rescaled(1.0, 50.0) == pytest.approx(rescaled(1.0, 1.0), rel=1e-6)


def test_a_sum_stated_where_a_mean_was_trained_is_named():
    found, kind = right("linear regression"), KINDS["linear regression"]
    net = train(check_cases.net(kind), found.X, found.y, kind.row_loss, 300 * 0.1)  # mean loss + ½·0.1‖θ‖², times n
    averaged, summed = (
        rue.LinearRUE()
        .fit(rue.wrap(net, loss="squared_error", l2=0.1, reduction=reduction), (found.X, found.y))
        .check()["at rest"]
        for reduction in ("mean", "sum")
    )
    assert averaged.light == "green"
    assert summed.light == "red"
    assert "a mean was taken for a sum" in summed.found


def test_a_squared_error_without_its_half_is_named():
    found = right("linear regression")
    net = train(check_cases.net(KINDS["linear regression"]), found.X, found.y, lambda f, t: (f[:, 0] - t) ** 2, 2.0)
    told = rue.LinearRUE().fit(rue.wrap(net, loss="squared_error", l2=2.0), (found.X, found.y)).check()["at rest"]
    assert told.light == "red"
    assert "without its ½" in told.found


def test_a_penalty_that_nobody_stated_is_found_with_its_size():
    found = right("logistic regression")
    model = rue.wrap(found.net, loss="bernoulli")
    told = rue.LinearRUE().fit(model, (found.X, found.y)).check()["at rest"]
    assert told.light == "red"
    assert "an l2 of 2 on the summed loss" in told.found


def test_a_penalty_stated_for_a_model_trained_without_is_red():
    found, kind = right("linear regression"), KINDS["linear regression"]
    net = train(check_cases.net(kind), found.X, found.y, kind.row_loss, 0.0)
    told = rue.LinearRUE().fit(rue.wrap(net, loss="squared_error", l2=1.0), (found.X, found.y)).check()["at rest"]
    assert told.light == "red"
    assert "no penalty at all" in told.found


def test_row_weights_belong_to_the_objective():
    found, kind = right("linear regression"), KINDS["linear regression"]
    weight = torch.linspace(0.1, 3.0, 300, dtype=torch.float64)
    net = train(check_cases.net(kind), found.X, found.y, kind.row_loss, 2.0, weight=weight)
    model = rue.wrap(net, loss="squared_error", l2=2.0)
    assert rue.LinearRUE().fit(model, rue.Data(found.X, found.y, weight=weight)).check()["at rest"].light == "green"
    assert rue.LinearRUE().fit(model, (found.X, found.y)).check()["at rest"].light != "green"


@pytest.mark.training
@pytest.mark.parametrize("l2", [0.0, 1.0])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_a_net_stopped_early_is_amber_and_never_red(l2, decay):
    inputs, targets = torch.tensor(X), torch.tensor(y)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(10, 8), nn.Softplus(), nn.Linear(8, 1)).double()
        search = torch.optim.AdamW(net.parameters(), lr=0.005, weight_decay=decay)
        for epoch in range(1, 501):
            for rows in torch.randperm(len(y)).split(128):
                search.zero_grad()
                penalty = l2 / (2 * len(y)) * sum(p.square().sum() for p in net.parameters())
                (0.5 * (net(inputs[rows])[:, 0] - targets[rows]).square().mean() + penalty).backward()
                search.step()
            if epoch in (5, 20, 100, 500):
                auditor = rue.LinearRUE(damping=rue.solve.Fixed(1.0)).fit(
                    rue.wrap(net, loss="squared_error", l2=l2), (inputs, targets)
                )
                assert auditor.check()["at rest"].light == "amber", f"after {epoch} epochs"


def test_a_few_steps_of_gradient_descent_from_zero_are_amber_though_they_look_like_a_penalty():
    found, kind = right("logistic regression"), KINDS["logistic regression"]
    net = check_cases.net(kind)
    for p in net.parameters():
        p.data.zero_()
    search = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(20):
        search.zero_grad()
        kind.row_loss(net(found.X), found.y).mean().backward()
        search.step()
    told = rue.LinearRUE().fit(rue.wrap(net, loss="bernoulli", l2=2.0), (found.X, found.y)).check()["at rest"]
    assert told.light == "amber"
    assert "stopping early" in told.found


def test_in_one_parameter_no_direction_tells_anything():
    assert needed_share(1) == float("inf")
    assert 1 > needed_share(2) > needed_share(3) > needed_share(10) == needed_share(1000) == 0.9


def linear_at_rest(l2):
    """The linear regression of the table, its parameters in closed form under any penalty."""
    found = right("linear regression")
    A = torch.cat([found.X, torch.ones(300, 1, dtype=torch.float64)], 1)
    theta = torch.linalg.solve(A.T @ A + l2 * torch.eye(5, dtype=torch.float64), A.T @ found.y)
    net = nn.Linear(4, 1).double()
    net.weight.data[0], net.bias.data[0] = theta[:4], theta[4]
    return lambda stated, **said: rue.LinearRUE().fit(
        rue.wrap(net, loss="squared_error", l2=stated), rue.Data(found.X, found.y, **said)
    )


def test_a_negative_penalty_is_never_named():
    told = linear_at_rest(-20.0)(2.0).check()["at rest"]
    assert told.light == "amber"
    assert "times as large" not in told.found


def test_a_penalty_that_moves_less_than_a_hundredth_of_a_step_is_green():
    told = linear_at_rest(1e-3)(1e-4).check()["at rest"]
    assert told.value < 0.01
    assert told.light == "green"


@pytest.mark.parametrize(
    ("times", "named"), [(300, True), (1 / 300, True), (310, True), (400, False), (1 / 220, False)]
)
def test_a_mean_is_taken_for_a_sum_only_where_the_factor_is_n(times, named):
    told = linear_at_rest(3.0)(3.0 / times).check()["at rest"]
    assert told.light == "red"
    assert ("a mean was taken for a sum" in told.found) == named


# other statements


def test_coefficients_are_least_squares_in_the_metric_of_the_inverse_curvature():
    source = torch.Generator().manual_seed(0)
    root, whole, directions = (torch.randn(size, 7, generator=source).double() for size in (12, 1, 3))
    H = root.T @ root
    measured = [InMetric(rows, torch.linalg.solve(H, rows.T).T) for rows in (whole, directions)]
    found = explained(*measured)
    factor = torch.linalg.cholesky(H)
    A, b = (torch.linalg.solve_triangular(factor, rows.T, upper=False) for rows in (directions, whole))
    wanted = torch.linalg.lstsq(A, -b).solution
    assert found.coefficients == pytest.approx(wanted[:, 0].tolist(), rel=1e-9)
    assert found.share == pytest.approx(1 - float((b + A @ wanted).square().sum() / b.square().sum()), rel=1e-9)
    repeated = InMetric(*(torch.cat([part, part[:1], 0 * part[:1]]) for part in measured[1]))
    assert explained(measured[0], repeated).share == pytest.approx(found.share, rel=1e-9)


def told(name, *, targets=None, loss=None, **said):
    """The red check of a model at rest, stated otherwise, as its own method and as the default see it."""
    found = right(name)
    wrapped = rue.wrap(found.net, loss=loss or found.loss, l2=found.l2, **said)
    data = (found.X, found.y if targets is None else targets(found.y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RueWarning)
        auditor = rue.LinearRUE().fit(wrapped, data)
    return auditor.check()["at rest"]


@pytest.mark.parametrize("name", ["linear regression", "regression net"])
@pytest.mark.parametrize(("factor", "shift"), [(1.1, 0.0), (0.5, 0.0), (1.8, 0.32), (1.0, 0.2)])
def test_targets_in_other_units_are_named_with_those_of_training(name, factor, shift):
    check = told(name, targets=lambda y: factor * y + shift)
    assert check.light == "red"
    assert f"targets {1 / factor:.4g} times those given" in check.found
    assert (f"{-shift / factor:+.4g}" in check.found) == (shift != 0)


@pytest.mark.parametrize("smoothing", [0.05, 0.3])
def test_label_smoothing_that_was_trained_with_is_named(smoothing):
    found, kind = right("three-class net"), KINDS["three-class net"]

    def row_loss(f, y):
        return nn.functional.cross_entropy(f, y, reduction="none", label_smoothing=smoothing)

    net = train(check_cases.net(kind), found.X, found.y, row_loss, kind.l2)
    for method in (rue.LinearRUE(), rue.ClassifierRUE()):
        with pytest.warns(RueWarning, match=f"labels smoothed by {smoothing:g}"):
            method.fit(rue.wrap(net, loss="cross_entropy", l2=kind.l2), (found.X, found.y))
    stated = rue.losses.cross_entropy(smoothing)
    assert rue.LinearRUE().fit(rue.wrap(net, loss=stated, l2=kind.l2), (found.X, found.y)).check().light != "red"


@pytest.mark.parametrize("name", ["three-class net", "logistic regression"])
def test_class_weights_that_were_not_trained_with_are_named_by_their_ratios(name):
    loss, ratios = (
        (rue.losses.cross_entropy(0.0, [1.0, 2.0, 0.5]), "1 : 0.5 : 2")
        if name == "three-class net"
        else (rue.losses.bernoulli(2.0), "1 : 0.5")
    )
    check = told(name, loss=loss)
    assert check.light == "red"
    assert f"class weights {ratios} beside" in check.found


def test_class_weights_are_found_without_a_penalty_up_to_a_factor():
    found, kind = right("logistic regression"), KINDS["logistic regression"]
    net = train(check_cases.net(kind), found.X, found.y, kind.row_loss, 0.0, weight=1 + 2 * found.y)
    wrapped = rue.wrap(net, loss="bernoulli", l2=0.0)
    with pytest.warns(RueWarning, match="class weights 1 : 3 beside"):
        rue.LinearRUE().fit(wrapped, (found.X, found.y))


def test_a_penalty_other_than_stated_is_not_called_a_class_weight():
    for mistake in ("l2 ten times too large", "l2 ten times too small"):
        assert "class weights" not in WRONG[mistake]("three-class net").check()["at rest"].found


def test_a_centre_that_did_not_pull_is_named():
    check = told("regression net", centre=check_cases.net(KINDS["regression net"]))
    assert check.light == "red"
    assert "pulling to zero" in check.found


def test_as_many_directions_as_parameters_explain_everything_and_are_never_named():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(60, 1, generator=draw, dtype=torch.float64)
    net = nn.Linear(1, 1).double()
    net.weight.data.fill_(0.7), net.bias.data.fill_(0.1)
    y = x[:, 0] + 0.3 * torch.randn(60, generator=draw, dtype=torch.float64)
    auditor = rue.LinearRUE().fit(rue.wrap(net, loss="squared_error", l2=0.0), (x, y))
    (moved,) = [one for one in other_statements(subject(auditor)) if one.directions == 2]
    assert moved.share == pytest.approx(1.0)
    assert auditor.check()["at rest"].light == "amber"
    assert needed_share(2, 2) == float("inf") > needed_share(3, 2) > needed_share(3) > needed_share(30, 2)


# estimators and trees


def test_estimators_are_at_rest_under_what_is_read_off_them():
    ridge = rue.LinearRUE().fit(rue.wrap(Ridge(alpha=3.0).fit(X, y)), (X, y)).check()
    assert ridge["at rest"].value < 1e-6
    logistic = LogisticRegression(tol=1e-8).fit(X, y > 0)
    assert rue.LinearRUE().fit(rue.wrap(logistic), (X, y > 0)).check()["at rest"].light == "green"


def test_a_ridge_trained_with_weights_and_audited_without_is_not_green():
    weight = np.linspace(0.1, 3.0, len(y))
    estimator = Ridge(alpha=1.0).fit(X, y, sample_weight=weight)
    model = rue.wrap(estimator)
    assert rue.LinearRUE().fit(model, (X, y)).check()["at rest"].light == "amber"
    assert rue.LinearRUE().fit(model, rue.Data(X, y, weight=weight)).check()["at rest"].light == "green"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scale", [100.0, 1000.0])
def test_an_estimator_that_did_not_converge_is_amber_and_told_to_go_on(scale):
    rng = np.random.default_rng(2)
    first = rng.normal(size=(200, 1))
    columns = np.hstack([first, first + 1e-3 * rng.normal(size=(200, 1)), scale * rng.normal(size=(200, 1))])
    targets = first[:, 0] + 0.5 * rng.normal(size=200)
    ridge = Ridge(solver="sag", random_state=0).fit(columns, targets)  # a path that other penalties lie on
    told = rue.LinearRUE().fit(rue.wrap(ridge), (columns, targets)).check()["at rest"]
    assert told.light == "amber"
    assert "times as large" not in told.found
    assert "max_iter" in told.advice


def test_a_perceptron_that_was_stopped_early_is_amber():
    net = MLPRegressor(hidden_layer_sizes=(5,), early_stopping=True, max_iter=300, random_state=0).fit(X, y)
    assert rue.LinearRUE(damping=rue.solve.Fixed(1.0)).fit(rue.wrap(net), (X, y)).check()["at rest"].light == "amber"


def test_a_lasso_is_held_by_what_no_gradient_shows():
    found = rue.LinearRUE().fit(rue.wrap(Lasso(alpha=0.1).fit(X, y)), (X, y)).check()
    assert "absolute values" in found.skipped["at rest"]


def test_boosted_trees_leave_out_what_makes_no_sense_for_them():
    lightgbm = pytest.importorskip("lightgbm")
    trees = lightgbm.LGBMRegressor(n_estimators=20, n_jobs=1, verbose=-1).fit(X, y)
    found = rue.LinearRUE().fit(rue.wrap(trees), (X, y)).check(X[:50] + 0.01)
    assert "trees" in found.skipped["at rest"]
    assert {"negative curvature", "linearisation", "mode"} <= set(found.skipped)
    assert {"training fit", "duplicates", "leverage", "effective parameters"} <= {check.name for check in found}
    shuffled = np.random.default_rng(0).permutation(y)
    assert rue.LinearRUE().fit(rue.wrap(trees), (X, shuffled)).check()["training fit"].light == "red"


def test_forests_leave_out_what_needs_an_objective_and_say_what_few_trees_do():
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    found = rue.ForestRUE().fit(rue.wrap(forest), (X, y)).check(X[:50])
    assert "no one objective" in found.skipped["at rest"]
    assert {check.name for check in found} == {"training fit", "copies", "leak", "duplicates", "sampling error"}
    assert found["duplicates"].light == "red"
    assert found["sampling error"].light == "red"
    assert found["sampling error"].value > 0.5


# the other checks


def test_a_matrix_that_points_downwards_is_amber_for_gauss_newton_and_red_where_it_is_damped_away():
    found = right("regression net")
    net = check_cases.net(KINDS["regression net"], seed=4)
    for p in net.parameters():
        p.data *= 2
    model = rue.wrap(net, loss="squared_error", l2=0.01)
    assert rue.LinearRUE().fit(model, (found.X, found.y)).check()["negative curvature"].light == "amber"
    assert rue.RUE(members=20).fit(model, (found.X, found.y)).check()["negative curvature"].light == "red"


def test_leverages_sum_to_the_trace_of_the_hat_matrix_and_the_largest_rows_are_named():
    table = pd.DataFrame(X, index=[f"patient {i}" for i in range(len(X))])
    table.iloc[7] *= 40
    found = rue.LinearRUE().fit(rue.wrap(Ridge(alpha=1.0).fit(table, y)), (table, y)).check()
    centred = table.to_numpy() - table.to_numpy().mean(0)
    hat = centred @ np.linalg.solve(centred.T @ centred + np.eye(10), centred.T) + 1 / len(y)
    assert found["effective parameters"].value == pytest.approx(np.trace(hat) / len(y))
    assert found["leverage"].value == pytest.approx(hat.diagonal().max())
    assert found["leverage"].light == "red"
    assert found["leverage"].rows == ("patient 7",)


@pytest.mark.parametrize(("l2", "light"), [(100.0, "green"), (10.0, "amber"), (1e-4, "red")])
def test_too_many_effective_parameters_are_said(l2, light):
    generator = torch.Generator().manual_seed(0)
    few = torch.randn(30, 28, generator=generator, dtype=torch.float64)
    targets = few[:, 0] + torch.randn(30, generator=generator, dtype=torch.float64)
    ridge = Ridge(alpha=l2).fit(few, targets)
    assert rue.LinearRUE().fit(rue.wrap(ridge), (few, targets)).check()["effective parameters"].light == light


def test_the_best_constant_is_the_mean_and_the_log_odds():
    targets = torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    outputs = torch.zeros(6, 1)
    weight = torch.tensor([2.0, 1.0, 1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    for loss, wanted in (("squared_error", 0.5), ("bernoulli", 0.0)):
        model = rue.wrap(nn.Linear(1, 1), loss=loss).bind(torch.ones(6, 1), 6.0)
        found = best_constant(model, [(outputs, model.read_targets(targets), weight)])
        assert float(found) == pytest.approx(wanted, abs=1e-5)


def test_the_standard_error_of_the_difference_counts_the_squares_of_the_weights():
    weight = np.random.default_rng(1).uniform(0.1, 5.0, len(y))
    ridge = Ridge(alpha=1.0).fit(X, y, sample_weight=weight)
    share = weight / weight.sum()
    better = 0.5 * ((y - share @ y) ** 2 - (y - ridge.predict(X)) ** 2)
    mean = share @ better
    error = np.sqrt(share**2 @ (better - mean) ** 2)
    found = rue.LinearRUE().fit(rue.wrap(ridge), rue.Data(X, y, weight=weight)).check()
    assert found["training fit"].value == pytest.approx(mean / error, rel=1e-4)


def test_a_model_without_any_skill_is_amber():
    found = right("linear regression")
    net = nn.Linear(4, 1).double()
    net.weight.data.zero_()
    net.bias.data.fill_(float(found.y.mean()))
    model = rue.wrap(net, loss="squared_error", l2=1.0)
    assert rue.LinearRUE().fit(model, (found.X, found.y)).check()["training fit"].light == "amber"


class Ordinal(nn.Module):
    """One slope for all thresholds."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Linear(3, 1, bias=False)
        self.thresholds = nn.Parameter(torch.tensor([2.0, 0.1, 0.0, -0.1]))

    def forward(self, x):
        return self.slope(x) + self.thresholds


def test_ordinal_models_are_compared_with_a_constant_whose_thresholds_do_not_cross():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(200, 3, generator=generator, dtype=torch.float64)
    targets = torch.bucketize(inputs[:, 0].contiguous(), torch.tensor([-2.0, -0.1, 0.0, 0.1], dtype=torch.float64))
    net = Ordinal().double()
    net.slope.weight.data = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    up = rue.LinearRUE().fit(rue.wrap(net, loss="ordinal", l2=1.0), (inputs, targets)).check()
    shares = targets.bincount(minlength=5) / 200
    assert up["training fit"].light == "green"
    entropy = -float((shares * shares.log()).sum())
    assert float(up["training fit"].found.split("constant ")[1].split(":")[0]) == pytest.approx(entropy, rel=1e-2)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_lights_do_not_depend_on_the_units_of_the_targets(scale):
    targets = 5 + 3 * y  # without an intercept the search for the best constant starts away from it
    model = rue.wrap(Ridge(alpha=1.0, fit_intercept=False).fit(X, scale * targets))
    plain = rue.wrap(Ridge(alpha=1.0, fit_intercept=False).fit(X, targets))
    order = np.random.default_rng(0).permutation(len(y))
    for rows in (slice(None), order):
        found = rue.LinearRUE().fit(model, (X, scale * targets[rows])).check()
        wanted = rue.LinearRUE().fit(plain, (X, targets[rows])).check()
        assert [check.light for check in found] == [check.light for check in wanted]
        assert found["training fit"].value == pytest.approx(wanted["training fit"].value, rel=1e-6)


def test_a_penalty_that_holds_the_intercept_is_no_shuffled_target():
    rng = np.random.default_rng(0)
    noise = 20 + 0.1 * rng.normal(size=len(y))
    ridge = Ridge(alpha=50.0, fit_intercept=False).fit(np.hstack([X, np.ones((len(y), 1))]), noise)
    held = rue.LinearRUE().fit(rue.wrap(ridge), (np.hstack([X, np.ones((len(y), 1))]), noise)).check()
    assert held["at rest"].light == "green"
    assert held["training fit"].value < -2
    assert held["training fit"].light == "amber"
    assert "penalty" in held["training fit"].advice


def test_a_difference_of_no_account_is_not_red_however_sure_it_is():
    n, off = 40_000, 0.025  # the constant is better by off²/2 of 1/2, which is off·√n/2 = 2.5 standard errors
    inputs = torch.randn(n, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    net = nn.Linear(1, 1).double()
    net.weight.data.zero_()
    net.bias.data.fill_(off)
    targets = 1.0 - 2.0 * (torch.arange(n, dtype=torch.float64) % 2)
    up = rue.LinearRUE().fit(rue.wrap(net, loss="squared_error"), (inputs, targets)).check()
    assert up["at rest"].value > 1
    assert up["training fit"].value == pytest.approx(-2.5, rel=1e-3)
    assert up["training fit"].light == "amber"


def test_rows_of_weight_zero_are_not_counted_as_rows():
    weight = np.zeros(len(y))
    weight[:40] = 1.0
    some = Ridge(alpha=1.0).fit(X[:40], y[:40])
    whole = rue.LinearRUE().fit(rue.wrap(some), rue.Data(X, y, weight=weight)).check()["effective parameters"]
    alone = rue.LinearRUE().fit(rue.wrap(some), (X[:40], y[:40])).check()["effective parameters"]
    assert whole.value == pytest.approx(alone.value)
    assert "n = 40 rows" in whole.found


class Bag(nn.Module):
    """A mean over the tokens that are not padding."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 2)
        self.head = nn.Linear(2, 1)

    def forward(self, tokens):
        there = (tokens > 0).unsqueeze(-1).to(self.head.weight.dtype)
        return self.head((self.table(tokens) * there).sum(1) / there.sum(1).clamp_min(1))


def test_texts_that_were_padded_batch_by_batch_are_not_searched_for_duplicates():
    tokens = torch.randint(1, 10, (12, 6), generator=torch.Generator().manual_seed(0))
    short = [(tokens[:6, :4], torch.arange(6.0)), (tokens[6:], torch.arange(6.0))]
    loader = DataLoader(short, batch_size=None)
    auditor = rue.LinearRUE().fit(rue.wrap(Bag(), loss="squared_error", l2=1.0), loader)
    assert "padded" in auditor.check(tokens[6:]).skipped["duplicates"]


def test_duplicates_are_green_at_the_natural_rate_amber_when_few_red_when_many():
    def light(training, audited):
        targets = np.arange(len(training), dtype=float) % 5
        auditor = rue.LinearRUE().fit(rue.wrap(Ridge().fit(training, targets)), (training, targets))
        return auditor.check(audited)["duplicates"]

    rng = np.random.default_rng(0)
    dice = rng.integers(1, 4, (200, 3)).astype(float)  # 27 kinds of rows: all have twins
    assert light(dice, rng.integers(1, 4, (100, 3)).astype(float)).light == "green"
    plain = rng.normal(size=(200, 3))
    new = rng.normal(size=(400, 3))
    assert light(plain, new).light == "green"
    new[17] = plain[3]
    assert light(plain, new).light == "amber"
    assert light(plain, new).rows == (17,)
    new[40:60] = plain[:20]
    assert light(plain, new).light == "red"
    assert light(plain, pd.DataFrame(new, index=[f"row {i}" for i in range(400)])).rows[0] == "row 17"
    plain[5] = 0.0
    assert light(plain, np.full((3, 3), -0.0)).value == 1.0


def test_a_linear_model_moves_in_straight_lines_and_a_loose_net_does_not():
    assert right("linear regression").check()["linearisation"].value < 1e-12
    kind, found = KINDS["regression net"], right("regression net")
    net = train(check_cases.net(kind), found.X[:60], found.y[:60], kind.row_loss, 0.01, steps=3)
    model = rue.wrap(net, loss="squared_error", l2=0.01)
    assert rue.LinearRUE().fit(model, (found.X[:60], found.y[:60])).check()["linearisation"].light == "amber"
    members = rue.RUE(members=20, curvature=rue.curvature.GaussNewton(), damping=None)
    assert members.fit(model, (found.X[:60], found.y[:60])).check()["linearisation"].light == "red"


@pytest.mark.parametrize(("members", "light"), [(200, "green"), (20, "amber"), (5, "red")])
def test_few_members_are_said(members, light):
    found = right("linear regression").check(rue.RUE(members=members))["sampling error"]
    assert found.light == light
    assert found.value == pytest.approx(1 / np.sqrt(2 * (members - 1)))


@pytest.mark.parametrize("seed", range(4))
def test_where_there_is_no_noise_rounding_is_called_rounding(seed):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(100, 3)) * [1.0, 100.0, 1.0]
    targets = inputs @ [1.0, 2.0, 3.0] + 4
    up = rue.LinearRUE().fit(rue.wrap(LinearRegression().fit(inputs, targets)), (inputs, targets)).check()
    for name in ("at rest", "linearisation"):
        assert up[name].light == "green", name
        assert up[name].value == 0
        assert "rounding" in up[name].found


@pytest.mark.parametrize(
    ("method", "loss", "targets"),
    [
        (rue.RUE(members=5), "squared_error", y),
        (rue.LinearRUE(), "squared_error", y),
        (rue.CalibratedRUE(), "squared_error", y),
        (rue.ClassifierRUE(), "cross_entropy", y > 0),
    ],
    ids=["RUE", "LinearRUE", "CalibratedRUE", "ClassifierRUE"],
)
def test_the_residual_of_the_solves_of_a_fit_is_shown(method, loss, targets):
    torch.manual_seed(0)
    net = nn.Linear(10, 1 if loss == "squared_error" else 2).double()
    auditor = method.fit(rue.wrap(net, loss=loss, l2=1.0), (X, targets))
    assert auditor.check()["solve"].value == auditor.facts["residual"] < 1e-9


def test_a_damping_that_nobody_asked_for_is_amber():
    twice = np.hstack([X, X])
    net = nn.Linear(20, 1).double()
    with pytest.warns(rue.errors.RueWarning, match="singular"):
        auditor = rue.LinearRUE().fit(rue.wrap(net, loss="squared_error", l2=0.0), (twice, y))
    assert auditor.check()["solve"].light == "amber"


# refits


def ridge_refit(alpha):
    return lambda rows: Ridge(alpha=alpha).fit(X[rows], y[rows])


def test_refits_of_a_ridge_are_what_influence_predicts():
    auditor = rue.LinearRUE().fit(rue.wrap(Ridge(alpha=1.0).fit(X, y)), (X, y))
    found = auditor.check(X[:40], refit=ridge_refit(1.0), refits=4)["refits"]
    assert found.light == "green"
    assert found.value > 0.97
    slope = float(found.found.split("refits moved ")[1].split()[0])
    assert slope == pytest.approx(1.0, abs=0.1)
    assert "4 refits and m = 40 audited rows" in found.found
    assert auditor.check(X[:40], refit=ridge_refit(1000.0), refits=4)["refits"].light != "green"


def test_refits_may_be_wrapped_models_and_modules_and_get_whole_groups():
    found, kind = right("linear regression"), KINDS["linear regression"]
    group, drawn = np.arange(300) // 3, []

    def refit(rows):
        drawn.append(rows)
        net = train(copy.deepcopy(found.net), found.X[rows], found.y[rows], kind.row_loss, 2.0)
        return net if len(drawn) % 2 else rue.wrap(net, loss="squared_error", l2=2.0)

    model = rue.wrap(found.net, loss="squared_error", l2=2.0)
    auditor = rue.LinearRUE().fit(model, rue.Data(found.X, found.y, group=group))
    assert auditor.check(refit=refit, refits=3)["refits"].value > 0.95
    for rows in drawn:
        counts = np.bincount(rows, minlength=300).reshape(100, 3)
        assert len(rows) == 300
        assert (counts == counts[:, :1]).all()


def test_refits_that_transform_their_targets_are_compared_by_predictions():
    def fitted(rows):
        inner = TransformedTargetRegressor(Ridge(alpha=1.0), transformer=StandardScaler())
        return inner.fit(X[rows], 5 + 3 * y[rows])

    auditor = rue.LinearRUE().fit(rue.wrap(fitted(np.arange(len(y)))), (X, 5 + 3 * y))
    with torch.no_grad():
        assert auditor.check(X[:40], refit=fitted, refits=4)["refits"].value > 0.95


def test_refits_are_compared_at_the_same_rows_where_a_loader_shuffles():
    found, kind = right("linear regression"), KINDS["linear regression"]
    auditor = found.auditor()

    def refit(rows):
        return train(copy.deepcopy(found.net), found.X[rows], found.y[rows], kind.row_loss, 2.0)

    loader = DataLoader(TensorDataset(found.X_new), batch_size=7, shuffle=True)
    assert auditor.check(loader, refit=refit, refits=3)["refits"].value > 0.95


def rare(count):
    """Labels with so few rows of the last class that bootstrap samples lack it."""
    labels = (y > 0).astype(int)
    labels[:count] = 2
    return labels


def test_refits_on_samples_without_a_rare_class_are_left_out_and_counted():
    def check(labels, refits):
        model = rue.wrap(LogisticRegression().fit(X, labels))
        auditor = rue.LinearRUE(damping=rue.solve.Fixed(0.01)).fit(model, (X, labels))
        return auditor.check(X[:40], refit=lambda rows: LogisticRegression().fit(X[rows], labels[rows]), refits=refits)

    found = check(rare(2), 12)["refits"].found
    lost = int(found.split("; ")[-1].split()[0])
    assert 0 < lost < 12
    assert f"over {12 - lost} refits" in found
    assert "lack a class" in found
    assert "12 of 12" not in found


def test_refits_that_raise_for_want_of_a_class_are_left_out():
    labels = np.zeros(len(y), dtype=int)
    labels[0] = 1
    auditor = rue.LinearRUE().fit(rue.wrap(LogisticRegression().fit(X, labels)), (X, labels))
    up = auditor.check(
        refit=lambda rows: LogisticRegression().fit(X[rows], labels[rows]), refits=2, seed=6
    )  # both lack row 0
    assert "lack a class" in up.skipped["refits"]
    assert "at rest" in up


def test_weights_that_were_shuffled_among_refits_would_not_correlate():
    auditor = rue.LinearRUE().fit(rue.wrap(Ridge(alpha=1.0).fit(X, y)), (X, y))
    rng = np.random.default_rng(0)
    found = auditor.check(refit=lambda rows: ridge_refit(1.0)(rng.integers(0, len(y), len(rows))), refits=4)["refits"]
    assert abs(found.value) < 0.6
    assert found.light != "green"


# the whole


def test_nothing_of_the_users_is_touched_and_a_seed_repeats():
    found = right("three-class net")
    auditor = found.auditor()
    before, state = module_picture(found.net), torch.get_rng_state()
    first = auditor.check(found.X_new, seed=3)
    assert changed(before, module_picture(found.net)) == []
    assert torch.equal(state, torch.get_rng_state())
    assert auditor.check(found.X_new, seed=3) == first


def test_one_check_that_cannot_be_made_takes_no_other_with_it(monkeypatch):
    def refuses(_):
        raise rue.errors.DataError("thresholds cross")

    monkeypatch.setitem(CHECKS, "training fit", refuses)
    found = right("linear regression").check()
    assert found.skipped["training fit"] == "thresholds cross"
    assert "at rest" in found


def test_inputs_the_model_cannot_take_are_refused_as_by_an_audit():
    auditor = right("linear regression").auditor()
    wrong = torch.randn(5, 3, dtype=torch.float64)
    with pytest.raises(rue.errors.ModelError) as audit:
        auditor.audit(wrong)
    with pytest.raises(rue.errors.ModelError) as check:
        auditor.check(wrong)
    assert str(check.value) == str(audit.value)


@pytest.mark.parametrize("seed", [True, 2**70, "1", None])
def test_seeds_that_no_generator_takes_are_refused(seed):
    with pytest.raises(rue.errors.SettingError, match="seed must be a whole number"):
        right("linear regression").check(seed=seed)


def test_numpys_numbers_are_numbers():
    auditor = rue.LinearRUE().fit(rue.wrap(Ridge(alpha=1.0).fit(X, y)), (X, y))
    up = auditor.check(refit=ridge_refit(1.0), refits=np.int64(2), seed=np.int64(3))
    assert up["refits"] == auditor.check(refit=ridge_refit(1.0), refits=2, seed=3)["refits"]


def test_a_check_up_reads_as_a_table_and_as_text():
    found = WRONG["leaked rows"]("linear regression").check()
    frame = found.to_frame()
    assert list(frame["name"]) == [check.name for check in found]
    assert frame.set_index("name").loc["duplicates", "light"] == "red"
    assert found.light == "red"
    assert "duplicates" in found
    assert "refits" not in found
    text = str(found)
    assert text.startswith("RED    duplicates")
    assert "What to do" in text
    assert "refits: not made" in text
    assert max(map(len, text.splitlines())) <= 110
    with pytest.raises(rue.errors.SettingError, match="was not made"):
        found["refits"]
    with pytest.raises(rue.errors.SettingError, match="there is no check"):
        found["fidelity"]


def test_the_light_of_a_check_up_is_the_worst_of_its_checks():
    def one(light):
        return Check("solve", light, None, "", "", "")

    assert CheckUp((one("green"), one("amber"))).light == "amber"
    assert CheckUp((one("red"), one("amber"))).light == "red"
    assert CheckUp(()).light == "green"


def test_a_method_without_a_curvature_factors_none_that_is_too_large(monkeypatch):
    monkeypatch.setattr("rue.checks.subject.too_large", lambda *_: True)
    up = right("linear regression").check(rue.Homoscedastic())
    assert "too large" in up.skipped["at rest"]
    assert "at rest" in right("linear regression").check()


def test_methods_with_networks_of_their_own_are_searched_for_duplicates_only():
    found = right("linear regression")
    method = rue.integrated.DeepEnsemble(members=2, training=rue.integrated.Adam(epochs=2))
    up = method.fit(rue.wrap(found.net, loss="squared_error", l2=2.0), (found.X, found.y)).check(found.X[:20])
    assert [check.name for check in up] == ["copies", "leak", "duplicates"]
    assert "networks that it trained itself" in up.skipped["at rest"]


@pytest.mark.filterwarnings("ignore:the stated penalty is not the one:rue.errors.RueWarning")
@pytest.mark.parametrize(
    "method",
    [
        rue.RUE(members=60),
        rue.Laplace(members=60),
        rue.BootstrapSGD(members=60),
        rue.CalibratedRUE(),
        rue.Homoscedastic(),
    ],
    ids=lambda method: type(method).__name__,
)
def test_every_method_that_audits_a_model_can_be_checked(method):
    assert right("linear regression").check(method).light == "green"
    assert WRONG["l2 ten times too large"]("linear regression").check(method)["at rest"].light == "red"


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_a_check_that_says_nothing_of_a_model_is_left_out_and_not_missing():
    draw = np.random.default_rng(0)
    X = draw.normal(size=(60, 3))
    y = X[:, 0] + 0.1 * draw.normal(size=60)
    boosted = rue.LinearRUE().fit(rue.wrap(GradientBoostingRegressor(n_estimators=5).fit(X, y)), (X, y)).check()
    assert "at rest" in boosted.skipped
    assert set(boosted.missing) == {"duplicates", "refits"}  # no audited rows and no training callable were given
    forest = rue.ForestRUE().fit(rue.wrap(RandomForestRegressor(20).fit(X, y)), (X, y)).check(X[:5])
    assert forest.missing == {}


@pytest.mark.training
@pytest.mark.parametrize("name", sound_setups.SETUPS)
def test_a_sound_setup_gets_no_warning_and_no_light_but_green(name):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        auditor, X_new = sound_setups.auditor_of(name)
    assert [str(one.message) for one in seen if issubclass(one.category, RueWarning)] == []
    assert auditor.facts["warnings"] == ()
    assert {check.name: check.light for check in auditor.check(X_new) if check.light != "green"} == {}


def test_a_zero_has_the_print_of_a_negative_zero():
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 2.0]])
    zero, negative, other = next(row_prints([rows], np.zeros((1, 2))))
    assert (zero == negative).all()
    assert not (zero == other).all()
