"""Coverage of intervals: targets and verdicts by hand, conformal by plain sorting, test targets decide nothing."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import small_run
import torch
from rich.console import Console

from rue.methods import CalibratedRUE
from rue_paper import coverage, intervals, page, parts, work
from rue_paper.protocol import problems
from rue_paper.results import Results, gather
from rue_paper.run import needed, run

METHOD = CalibratedRUE(seed=3)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder in which `rue paper coverage` has run on small data, with its results."""
    out = tmp_path_factory.mktemp("coverage")
    with pytest.MonkeyPatch.context() as patch:
        small_run.shrink(patch.setattr, patch.setitem)
        plan = small_run.plan(out)
        run("coverage", plan, Console(quiet=True))
        yield out, gather(plan, needed(plan, ["coverage"]))


@pytest.fixture
def problem(monkeypatch):
    small_run.shrink(monkeypatch.setattr, monkeypatch.setitem)
    return problems("yacht", "paper", 2)[1]


def model_of(problem):
    return parts._trained(problem, parts.networks([problem], ())[0]["theta"])


def softplus_network(theta, X):
    """The paper's network, in NumPy."""
    p = X.shape[1]
    first, shift, last = theta[: 50 * p].reshape(50, p), theta[50 * p : 50 * p + 50], theta[50 * p + 50 : -1]
    return np.logaddexp(0, X @ first.T + shift) @ last + theta[-1]


def test_constant_intervals_are_those_of_sorted_errors_of_rows_the_network_never_saw(finished, monkeypatch):
    small_run.shrink(monkeypatch.setattr, monkeypatch.setitem)
    own = next(found for found in finished[1] if found.name == "yacht").splits[2]
    problem = problems("yacht", "paper", 3)[2]
    order = torch.randperm(63, generator=torch.Generator().manual_seed(2002)).numpy()
    held, kept = order[:13], order[13:]
    raw = problem.units.mean + problem.units.scale * problem.y.double().numpy()
    X, X_new = problem.X.double().numpy(), problem.X_new.double().numpy()
    centre, scale = X[kept].mean(0), X[kept].std(0)
    predicted, predicted_new = (
        raw[kept].mean() + raw[kept].std() * softplus_network(own["retrained"], (values - centre) / scale)
        for values in (X, X_new)
    )
    errors = np.sort(np.abs(raw - predicted)[held])
    reach = np.array([errors[6], errors[11], errors[12], np.inf])  # the 7th, 12th, 13th and a missing 14th of 13
    inside = np.abs(problem.target - predicted_new)[:, None] <= reach
    np.testing.assert_allclose(own["split conformal, constant spread/width"], 2 * reach, rtol=1e-4)
    np.testing.assert_allclose(own["split conformal, constant spread/covered"], inside.mean(0), rtol=1e-6)
    np.testing.assert_allclose(own["split conformal/target"], [7 / 14, 12 / 14, 13 / 14, 1], rtol=1e-6)


def test_held_out_rows_decide_nothing_about_those_that_are_kept(problem):
    parted = intervals.hold_out(problem)
    n = len(problem.y)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(2000 + problem.split))
    held = order[: round(0.2 * n)]
    X, y = problem.X.clone(), problem.y.clone()
    X[held], y[held] = 1e3, -1e3
    poisoned = intervals.hold_out(replace(problem, X=X, y=y))
    assert torch.equal(parted.kept.X, poisoned.kept.X)
    assert torch.equal(parted.kept.y, poisoned.kept.y)
    assert (len(parted.kept.y), len(parted.y)) == (50, 13)
    units, raw = parted.kept.units, problem.units.mean + problem.units.scale * problem.y.double().numpy()
    np.testing.assert_allclose(units.mean + units.scale * parted.y, raw[held], atol=1e-4)


def test_poisoned_test_targets_change_what_is_covered_and_nothing_else(problem):
    parted = intervals.hold_out(problem)
    for make, clean in (
        (lambda p: intervals.without_held_out(p, model_of(problem), METHOD), problem),
        (lambda p: intervals.with_held_out(replace(parted, kept=p), model_of(parted.kept), METHOD), parted.kept),
    ):
        before, after = make(clean), make(replace(clean, target=clean.target + 1e6))
        assert before.keys() == after.keys()
        for name in before:
            if name.endswith("/covered"):
                finite = np.isfinite(before[name.replace("covered", "width")])
                np.testing.assert_array_equal(after[name], np.where(finite, 0.0, 1.0))
                assert before[name].max() > 0.5
            else:
                np.testing.assert_array_equal(after[name], before[name])


def test_only_the_first_test_rows_get_intervals(problem, monkeypatch):
    monkeypatch.setattr(intervals, "MOST", 4)
    other = replace(problem, target=np.where(np.arange(len(problem.target)) < 4, problem.target, 1e6))
    model = model_of(problem)
    for before, after in zip(
        *(intervals.without_held_out(p, model, METHOD).values() for p in (problem, other)), strict=True
    ):
        np.testing.assert_array_equal(before, after)


def results(covered, warned=(0.0, 0.0)):
    """Two splits with these shares covered at every level, whatever the kind of interval."""
    splits = {}
    for split, (share, said) in enumerate(zip(covered, warned, strict=True)):
        splits[split] = {"warned": np.array(said)}
        for method in coverage.METHODS:
            width = {"split conformal": 3.0, "split conformal, constant spread": 4.0 + 2 * split}.get(method, 2.0)
            splits[split] |= {
                f"{method}/covered": np.full(4, share),
                f"{method}/width": np.full(4, width),
                f"{method}/target": np.array([0.5, 0.8, 51 / 56, 0.95]),
            }
    return Results("paper", "yacht", splits)


def test_numbers_of_the_table_by_hand():
    frame = coverage.table([results((0.92, 0.96))]).set_index(["method", "level"])
    row = frame.loc["split conformal", 0.9]
    np.testing.assert_allclose(row["coverage"], 0.94)
    np.testing.assert_allclose(row["error"], 0.02)  # √(2 · .02²) / √2
    np.testing.assert_allclose(row["tolerance"], 0.04)
    np.testing.assert_allclose(row["target"], 51 / 56)
    np.testing.assert_allclose(row["relative_width"], (3 / 4 + 3 / 6) / 2)
    assert row["verdict"] == "within"  # 2.9 points off, two standard errors are 4
    assert frame.loc["split conformal", 0.5]["verdict"] == "missed"
    assert frame.loc["jackknife+", 0.9]["tolerance"] == 0.04


@pytest.mark.parametrize(
    ("covered", "target", "near", "warned", "said"),
    [
        ((0.886, 0.886), 0.9, 0.015, (False, False), "within"),
        ((0.884, 0.884), 0.9, 0.015, (False, False), "missed"),
        ((0.85, 0.94), 0.9, 0.04, (False, False), "within"),
        ((0.70, 0.90), 0.9, 0.04, (True, False), "warned"),  # where nothing was warned of it holds
        ((0.90, 0.70), 0.9, 0.04, (True, False), "missed"),  # the warning came on the wrong split
        ((0.70, 0.70), 0.9, 0.04, (True, True), "warned"),
    ],
)
def test_verdicts_by_hand(covered, target, near, warned, said):
    assert coverage.verdict(np.array(covered), target, near, np.array(warned)) == said


def test_a_warning_excuses_only_intervals_without_held_out_rows():
    frame = coverage.table([results((0.6, 0.6), warned=(1.0, 1.0))]).query("level == 0.9").set_index("method")
    assert frame.loc["jackknife+", "verdict"] == "warned"
    assert frame.loc["split conformal", "verdict"] == "missed"
    assert list(frame["warned"]) == [0, 0, 2, 2, 2]


def test_files_are_written_for_people_and_machines(finished):
    out, found = finished
    frame = pd.read_csv(out / "coverage.csv")
    assert len(frame) == 2 * 5 * 4
    assert {own.protocol for own in found} == {"paper"}
    assert (out / "coverage.png").stat().st_size > 10_000
    text = (out / "page.md").read_text()
    assert "## Coverage of intervals" in text
    assert "Splits of a data set share rows" in text
    wine = page.covered(frame, 0.9)[1][1]
    row = frame.query("data == 'wine' and method == 'split conformal' and level == 0.9").iloc[0]
    assert wine.startswith(f"{100 * row['coverage']:.1f} ± {100 * row['error']:.1f} (100.0)")  # 8 rows were held out


def test_finished_work_is_not_done_again(finished, monkeypatch):
    small_run.shrink(monkeypatch.setattr, monkeypatch.setitem)
    plan = small_run.plan(finished[0])
    monkeypatch.setattr(work, "_do", lambda *_: pytest.fail("finished work was done again"))
    assert work.compute(plan, needed(plan, ["coverage"]), Console(quiet=True)) == 0
