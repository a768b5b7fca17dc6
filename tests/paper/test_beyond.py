"""Beyond the paper: training to convergence, the choice by leave-one-out, tables against plain computations."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import small_run
import torch
from rich.console import Console
from scipy.stats import t as student

from rue import datasets
from rue.methods.integrated import Adam, DeepEnsemble
from rue.methods.integrated.training import Settled
from rue.models import wrap
from rue_paper import beyond, beyond_page, chosen_network, parts, protocol
from rue_paper.chosen_network import Trial, chosen, tried
from rue_paper.convergence import LeastSquares, LevenbergMarquardt
from rue_paper.results import gather
from rue_paper.run import needed, run

SHORT = Settled(every=2, fall=0.01)


def shrink(patch: pytest.MonkeyPatch) -> None:
    small_run.shrink(patch.setattr, patch.setitem)
    patch.setattr(chosen_network, "PENALTIES", (3.0, 0.3))
    patch.setattr(chosen_network, "TRAINING", LevenbergMarquardt(SHORT, passes=8))
    patch.setattr(parts, "SAME_RULE", DeepEnsemble(members=2, training=Adam(6, 16, 0.01, settled=SHORT)))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder in which `rue paper beyond` has run on small data, with its results."""
    out = tmp_path_factory.mktemp("beyond")
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        plan = small_run.plan(out)
        run("beyond", plan, Console(quiet=True))
        yield out, gather(plan, needed(plan, ["beyond"]))


def rows(n: int = 40, p: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(7)
    X = random.standard_normal((n, p))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * random.standard_normal(n)
    return torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def test_least_squares_of_a_linear_model_is_ridge_regression():
    X, y = rows()
    net = torch.nn.Linear(3, 1)
    found = LeastSquares(wrap(net, loss="squared_error", l2=2.0), X, y, 2.0).minimise(
        torch.zeros(4), LevenbergMarquardt(Settled(every=3, fall=1e-9))
    )
    design = np.hstack([X.numpy(), np.ones((40, 1))]).astype(np.float64)
    wanted = np.linalg.solve(design.T @ design + 2.0 * np.eye(4), design.T @ y.numpy())
    np.testing.assert_allclose(found.theta, wanted, atol=5e-5)  # in float32: builds of torch differ by 2e-5


def test_a_network_is_trained_to_a_stationary_point():
    X, y = (part.double() for part in rows())
    start = chosen_network.paper_network(3, 0).double()
    trial = chosen_network._trial(X, y, torch.nn.utils.parameters_to_vector(start.parameters()).detach(), 0.5)
    theta = trial.model.theta.clone().requires_grad_()
    objective = 0.5 * (trial.model.predict(theta, X)[:, 0] - y).square().sum() + 0.25 * theta.square().sum()
    (slope,) = torch.autograd.grad(objective, theta)
    worst = 0.5 * (start(X)[:, 0] - y).square().sum()
    assert slope.norm() < 0.05
    assert objective < 0.5 * worst  # it went somewhere


def test_a_step_never_makes_it_worse():
    X, y = rows()
    problem = LeastSquares(wrap(chosen_network.paper_network(3, 1), loss="squared_error", l2=0.1), X, y, 0.1)
    start = problem.model.theta
    reached = [problem.minimise(start, LevenbergMarquardt(Settled(1, 0.0), passes=k)).objective for k in range(1, 15)]
    assert (np.diff([problem.objective(start), *reached]) <= 0).all()


def test_the_ensemble_and_the_network_stop_by_the_same_rule():
    assert parts.SAME_RULE.training.settled is chosen_network.TRAINING.settled is chosen_network.RULE


def test_training_has_settled_when_a_look_is_hardly_below_the_last():
    falls = [5.0, 4.0, 3.0, 2.5, 2.4, 2.4, 2.39, 2.39, 2.0]
    rule = Settled(every=2, fall=0.05)
    assert [k for k in range(len(falls) + 1) if rule(falls[:k])] == [8]
    assert not Settled(every=2, fall=0.0)([2.0, 2.0, 1.9, 1.9])


def test_minibatch_training_stops_in_the_epoch_the_rule_says():
    X, y = rows()
    asked: list[list[float]] = []

    class Third:
        def __call__(self, history: list[float]) -> bool:
            asked.append(list(history))
            return len(history) == 3

    model = wrap(
        torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)), loss="squared_error"
    )
    thetas = [
        DeepEnsemble(members=2, training=recipe).fit(model, (X, y)).audit(X).prediction
        for recipe in (Adam(9, 16, 0.01, settled=Third()), Adam(3, 16, 0.01))
    ]
    np.testing.assert_array_equal(*thetas)
    assert [len(history) for history in asked] == [1, 2, 3]
    assert asked[-1][2] < asked[-1][0]


def test_an_unused_rule_does_not_rename_finished_work():
    assert repr(Adam(3, 4, 0.02)) == "Adam(epochs=3, batch=4, learning_rate=0.02, decay=False)"
    assert "settled=Settled(every=2" in repr(Adam(3, 4, 0.02, settled=SHORT))


def test_the_chosen_penalty_has_the_smallest_leave_one_out_error():
    X, y = (part.double() for part in rows())
    trials = tried(X, y, 0)
    errors = []
    for trial in trials:
        theta = trial.model.theta
        J = torch.autograd.functional.jacobian(
            lambda own, trial=trial: trial.model.predict(own, X)[:, 0], theta
        ).numpy()
        hat = J @ np.linalg.inv(J.T @ J + trial.l2 * np.eye(len(theta))) @ J.T
        residual = y.numpy() - trial.model.predict(theta, X)[:, 0].detach().numpy()
        errors.append(((residual / (1 - np.diag(hat))) ** 2).mean())
        np.testing.assert_allclose(trial.left_out, errors[-1], rtol=1e-6)
        np.testing.assert_allclose(trial.effective_share, np.trace(hat) / len(y), rtol=1e-6)
    usable = [i for i, trial in enumerate(trials) if trial.effective_share <= chosen_network.CROWDED]
    assert chosen(trials) is trials[min(usable, key=errors.__getitem__)]


def test_a_crowded_network_ends_the_search_and_is_not_chosen(monkeypatch):
    shares = {1.0: 0.1, 0.3: 0.2, 0.1: 0.4, 0.03: 0.6, 0.01: 0.7}
    monkeypatch.setattr(
        chosen_network,
        "_trial",
        lambda _X, _y, start, l2: Trial(SimpleNamespace(theta=start), l2, l2, shares[l2], passes=1),
    )
    trials = tried(*rows(), 0)
    assert [trial.l2 for trial in trials] == [1.0, 0.3, 0.1]
    assert chosen(trials).l2 == 0.3
    assert chosen([dataclasses.replace(trial, effective_share=0.9) for trial in trials]).l2 == 1.0


@pytest.mark.parametrize("poison", [math.nan, 1e30])
def test_poisoned_test_targets_change_nothing_but_the_evaluation(monkeypatch, poison):
    shrink(monkeypatch)
    clean = protocol.problems("yacht", "paper", 1)[0]
    data = small_run.made_up("yacht")
    test = datasets.standard_splits(len(data.y), 1)[0].test
    y = data.y.copy()
    y[test] = poison
    monkeypatch.setattr(datasets, "load", lambda *_: dataclasses.replace(data, y=y))
    poisoned = protocol.problems("yacht", "paper", 1)[0]
    assert not np.array_equal(clean.target, poisoned.target)
    (wanted,), (found,) = (parts.beyond([problem], ()) for problem in (clean, poisoned))
    for name in wanted:
        if "seconds" not in name:
            np.testing.assert_array_equal(wanted[name], found[name], err_msg=name)


def test_scores_are_those_of_plain_formulas(finished):
    out, results = finished
    own = next(found for found in results if (found.name, found.protocol) == ("yacht", "paper"))
    row = pd.read_csv(out / "beyond.csv").query("data == 'yacht'").set_index("method").loc[parts.ONE]
    nll, squares, inside = [], [], []
    for arrays in own.splits.values():
        degrees, spread = float(arrays[f"{parts.ONE}/degrees"]), arrays[f"{parts.ONE}/total_std"].astype(np.float64)
        law = student(degrees if np.isfinite(degrees) else 1e9)  # as good as Gaussian
        scale = spread / law.std()
        error = arrays[f"{parts.ONE}/prediction"].astype(np.float64) - arrays["target"]
        nll.append(-(law.logpdf(error / scale) - np.log(scale)).mean())
        squares.append(np.sqrt((error**2).mean()))
        inside.append(np.abs(error) <= scale * law.ppf(0.9))
    np.testing.assert_allclose(row["nll"], np.mean(nll), rtol=1e-4)
    np.testing.assert_allclose(row["nll_error"], np.std(nll, ddof=1) / 3**0.5, rtol=1e-3)
    np.testing.assert_allclose(row["rmse"], np.mean(squares), rtol=1e-4)
    np.testing.assert_allclose(row["coverage_80"], np.concatenate(inside).mean(), rtol=1e-4)
    assert row["published"] == 1.18


def test_differences_are_paired_and_times_are_of_the_same_splits(finished):
    out, results = finished
    own = next(found for found in results if (found.name, found.protocol) == ("wine", "standard"))
    row = pd.read_csv(out / "beyond_costs.csv").set_index("data").loc["wine"]
    gap = beyond.nll(own, parts.ONE) - beyond.nll(own, parts.BESIDE)
    np.testing.assert_allclose(row["same_rule"], gap.mean(), rtol=1e-4)
    np.testing.assert_allclose(row["same_rule_error"], gap.std(ddof=1) / 3**0.5, rtol=1e-4)
    np.testing.assert_allclose(row["ratio"], row["one_network"] / row["ensemble"], rtol=1e-4)
    assert 0 < row["of_which_audit"] < row["one_network"]


def test_the_page_tells_what_was_to_be_shown(finished):
    out, _ = finished
    text = (out / "page.md").read_text()
    assert "## Beyond the paper" in text
    assert "deep ensembles, published | 0.94 ± 0.12 | 1.18 ± 0.21" in text
    assert "Gap splits: medians over features." in text
    for name in ("beyond", "shift"):
        assert (out / f"{name}.png").stat().st_size > 10_000
        assert "<svg" in (out / f"{name}.svg").read_text()
    assert len(beyond_page.scores(pd.read_csv(out / "beyond.csv"), "auc")) == 1 + len(beyond.METHODS)


def test_findings_count_the_sets_where_they_hold():
    frame = pd.DataFrame(
        {
            "data": ["wine", "yacht"],
            "method": parts.ONE,
            "nll": [1.0, 1.5],
            "published": [0.94, 1.18],
            "published_error": [0.12, 0.21],
        }
    )
    costs = pd.DataFrame(
        {
            "data": ["wine", "yacht"],
            "one_network": [1.0, 4.0],
            "ensemble": [4.0, 2.0],
            "ratio": [0.25, 2.0],
            "same_rule": [-0.1, -0.2],
            "recipe": [0.1, 0.2],
        }
    )
    said = beyond.findings(frame, costs)
    assert said[0].endswith("one standard error: on 1 of 2 sets (not on Yacht).")
    assert said[1].endswith("on 0 of 2 sets (not on Wine, Yacht).")
    assert said[2].endswith("under the same rule: on 2 of 2 sets.")
    assert said[4].endswith("on 1 of 2 sets (not on Yacht).")
    assert "0.83 times as long" in said[5]
