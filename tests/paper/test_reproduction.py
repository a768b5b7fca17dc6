"""The paper's experiments: protocol, tables and figures against plain computations, and runs that are interrupted."""

import io
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import small_run
from rich.console import Console
from scipy.stats import norm, spearmanr
from sklearn.metrics import roc_auc_score

from rue.core.errors import DataError, SettingError
from rue_paper import fidelity, figure2, page, protocol, published, table1, verdicts, work
from rue_paper.results import Results, gather
from rue_paper.run import READS, needed, run

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder in which `rue paper table1` has run on small data, with its results."""
    out = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        small_run.shrink(patch.setattr, patch.setitem)
        plan = small_run.plan(out)
        for what in ("table1", "figure2", "fidelity"):
            run(what, plan, Console(quiet=True))
        yield out, gather(plan, needed(plan, ["table1"]))


def test_rows_are_standardised_by_the_training_rows_alone(monkeypatch):
    small_run.shrink(monkeypatch.setattr, monkeypatch.setitem)
    data = small_run.made_up("wine")
    rows = np.random.RandomState(1).choice(70, 70, replace=False)
    for name, size in (("paper", 40), ("standard", 63)):
        first = protocol.problems("wine", name, 2)[0]
        train, test = rows[:size], rows[size:]
        mean, scale = data.X[train].mean(0), data.X[train].std(0)
        np.testing.assert_allclose(first.X, (data.X[train] - mean) / scale, atol=1e-6)
        np.testing.assert_allclose(first.X_new, (data.X[test] - mean) / scale, atol=1e-6)
        np.testing.assert_allclose(first.y, (data.y[train] - data.y[train].mean()) / data.y[train].std(), atol=1e-6)
        np.testing.assert_array_equal(first.target, data.y[test])


def test_small_sets_have_one_protocol_and_large_ones_two(finished):
    _, results = finished
    assert {(found.name, found.protocol) for found in results} == {
        ("wine", "paper"),
        ("wine", "standard"),
        ("yacht", "paper"),
    }


def test_the_pooled_auc_is_that_of_all_rows_and_its_resamples_those_of_repeated_splits():
    random = np.random.default_rng(0)
    split = np.repeat([0, 1, 2], [30, 50, 20])
    score = random.integers(0, 12, 100) / 3.0  # with ties, also between splits
    large = random.random(100) < 0.2 + 0.1 * score
    found = figure2.pairs(score, [large], split)[0]
    counts = np.array([[1, 1, 1], [2, 0, 1], [0, 3, 0], [1, 0, 2]])
    for draw, value in zip(counts, found.auc(counts), strict=True):
        rows = np.concatenate([np.tile(np.flatnonzero(split == s), times) for s, times in enumerate(draw)])
        np.testing.assert_allclose(value, roc_auc_score(large[rows], score[rows]), rtol=1e-12)


def test_the_curve_of_a_method_is_scikit_learns_at_every_tolerance(finished):
    out, results = finished
    frame = pd.read_csv(out / "figure2.csv")
    own = next(found for found in results if found.name == "yacht")
    size = np.abs(np.concatenate(own.errors("RUE")))
    score = np.concatenate(own.each("LinearRUE", "score"))
    curve = frame[(frame["data"] == "yacht") & (frame["method"] == "LinearRUE")]
    tolerance = np.percentile(size, np.arange(5, 100, 5))
    wanted = [roc_auc_score(size > t, score) for t in tolerance]
    np.testing.assert_allclose(curve["auc"][:-1], wanted, rtol=1e-5)
    np.testing.assert_allclose(curve["auc"].iloc[-1], np.mean(wanted), rtol=1e-5)
    assert ((curve["low"] <= curve["auc"] + 1e-9) & (curve["auc"] <= curve["high"] + 1e-9)).mean() > 0.9


def test_the_nll_is_the_mean_over_splits_of_gaussian_densities_in_the_units_of_the_target(finished):
    _, results = finished
    for found in results:
        for method in ("RUE", "PBP", "MCDropout", "DeepEnsemble", "Homoscedastic"):
            each = [
                -norm.logpdf(arrays["target"], arrays[f"{method}/prediction"], arrays[f"{method}/total_std"]).mean()
                for arrays in found.splits.values()
            ]
            np.testing.assert_allclose(
                table1.nll(found, method), (np.mean(each), np.std(each, ddof=1) / 3**0.5), rtol=1e-5
            )


def test_audits_are_in_the_units_of_the_target(finished):
    """A network that hardly learned predicts near the targets' mean, and errs by their deviation."""
    _, results = finished
    own = next(found for found in results if found.name == "yacht")
    spread = np.std(np.concatenate([arrays["target"] for arrays in own.splits.values()]))
    assert 0.5 * spread < np.mean(np.concatenate(own.each("Homoscedastic", "total_std"))) < 2 * spread
    assert np.mean(np.concatenate(own.each("RUE", "std"))) < spread


def test_fidelity_is_scipys_rank_correlation_and_the_ratio_of_mean_variances(finished):
    out, results = finished
    row = pd.read_csv(out / "fidelity.csv").query("data == 'yacht' and method == 'LinearRUE'").iloc[0]
    own = next(found for found in results if found.name == "yacht")
    pairs = list(zip(own.each("LinearRUE", "std"), own.each("Refit bootstrap", "std"), strict=True))
    np.testing.assert_allclose(row["spearman"], np.mean([spearmanr(a, b).statistic for a, b in pairs]), rtol=1e-5)
    ratios = [np.mean(a**2) / np.mean(b**2) for a, b in pairs]
    wanted = [np.median(ratios), min(ratios), max(ratios)]
    np.testing.assert_allclose(row[["variance_ratio", "smallest", "largest"]].astype(float), wanted, rtol=1e-5)
    cost = pd.read_csv(out / "costs.csv").set_index("data").loc["yacht"]
    np.testing.assert_allclose(cost["ratio_one_by_one"], cost["refits_one_by_one"] / cost["closed_form"], rtol=1e-4)
    assert cost["refits_one_by_one"] > 4 * 0.01


def test_files_are_written_for_people_and_machines(finished):
    out, _ = finished
    for name in ("figure2", "figure2_more", "fidelity"):
        assert (out / f"{name}.png").stat().st_size > 10_000
        assert "<svg" in (out / f"{name}.svg").read_text()
    facts = json.loads((out / "facts.json").read_text())
    assert {"splits", "split_seed", "seeds", "device", "wall_seconds", "versions", "settings"} <= set(facts)
    text = (out / "page.md").read_text()
    assert "fidelity.svg" in text
    assert "\n| LinearRUE | " in text


def test_verdicts_count_what_the_tables_hold(finished):
    out, _ = finished
    said = verdicts.verdicts(out)
    nll = (
        pd.read_csv(out / "table1.csv").query("protocol == 'paper'").pivot(index="data", columns="method", values="nll")
    )
    better = int((nll["RUE"] < nll["Laplace"]).sum())
    assert any(f"lower NLL than sampled Laplace: on {better} of 2 sets" in line for line in said)
    assert any(line.startswith("RUE: NLL within 0.15") and "Wine" in line for line in said)


def test_a_table_beside_the_papers_numbers(finished):
    out, _ = finished
    rows = page.nll(page.read(out, "table1"), "paper")
    assert rows[0] == ["method", "Wine", "Yacht"]
    assert next(row for row in rows if row[0] == "RUE")[2].endswith("(3.02 ± 0.05)")
    standard = page.nll(page.read(out, "table1"), "standard")
    assert next(row for row in standard if row[0] == "RUE")[1].count("(") == 0  # the paper trained on 600 rows
    assert next(row for row in standard if row[0] == "PBP")[1].endswith("(0.97 ± 0.01)")


def test_finished_work_is_not_done_again_and_other_settings_are_other_work(finished, monkeypatch):
    out, _ = finished
    small_run.shrink(monkeypatch.setattr, monkeypatch.setitem)
    plan = small_run.plan(out)
    wanted = needed(plan, ["table1"])
    monkeypatch.setattr(work, "_do", lambda *_: pytest.fail("finished work was done again"))
    assert work.compute(plan, wanted, Console(quiet=True)) == 0
    part = work.PARTS["networks"]
    monkeypatch.setitem(work.PARTS, "networks", type(part)(part.run, "another recipe", part.at_once))
    for piece in wanted:  # other networks make other audits and refits
        assert len(piece.missing(plan)) > 0 or piece.part in ("pbp", "dropout", "ensembles")


def test_more_splits_are_added_to_those_that_are_there(finished, monkeypatch):
    out, _ = finished
    small_run.shrink(monkeypatch.setattr, monkeypatch.setitem)
    for piece in needed(small_run.plan(out), ["table1"]):
        assert {split for task in piece.missing(small_run.plan(out, 5)) for split in task.splits} == {3, 4}
        assert set(piece.finished(small_run.plan(out, 2))) == {0, 1}


def test_a_cut_file_is_named(finished, monkeypatch):
    out, _ = finished
    small_run.shrink(monkeypatch.setattr, monkeypatch.setitem)
    plan = small_run.plan(out)
    piece = needed(plan, ["figure2"])[0]
    path = piece.finished(plan)[0]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="was cut or changed; delete it"):
        gather(plan, [piece])
    path.write_bytes(whole)


def test_tables_of_another_run_are_replaced_and_it_is_said(finished, monkeypatch, tmp_path):
    small_run.shrink(monkeypatch.setattr, monkeypatch.setitem)
    (tmp_path / "facts.json").write_text(json.dumps({"data": ["yacht"], "splits": 9, "split_seed": 4}))
    said = Console(record=True, quiet=False, file=io.StringIO(), width=200)
    run("figure1", small_run.plan(tmp_path), said)
    assert "made with 9 splits (seed 4) of yacht and are replaced; use --out" in said.export_text()


def test_figure_1_needs_no_data(monkeypatch, tmp_path):
    monkeypatch.setattr(work.datasets, "load", lambda *_: pytest.fail("data was loaded"))
    run("figure1", work.Plan(("yacht",), 2, tmp_path, workers=1), Console(quiet=True))
    assert (tmp_path / "figure1.svg").exists()


@pytest.mark.parametrize("write", [pytest.param(1, marks=pytest.mark.slow), 6])
def test_a_run_killed_while_it_writes_ends_as_if_it_had_not_been(finished, tmp_path, write):
    out, _ = finished
    script = [sys.executable, str(HERE / "small_run.py"), str(tmp_path), "figure2"]
    killed = subprocess.run([*script, str(write)], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr.decode()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("[!.]*.npz")}
    assert len(before) == write - 1
    subprocess.run(script, check=True)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("[!.]*.npz")}
    assert {path: after[path] for path in before} == before, "a finished split was computed again"
    assert (tmp_path / "figure2.csv").read_bytes() == (out / "figure2.csv").read_bytes()
    assert json.loads((tmp_path / "facts.json").read_text())["resumed"] is (write > 1)


@pytest.mark.slow
def test_two_processes_killed_half_way_end_with_the_same_table(tmp_path):
    """On real data from the package index, as a user would: kill -9, start again."""
    command = [
        sys.executable,
        "-m",
        "rue",
        "paper",
        "figure2",
        "--datasets",
        "yacht",
        "--splits",
        "6",
        "--workers",
        "2",
    ]
    whole, halved = tmp_path / "whole", tmp_path / "halved"
    subprocess.run([*command, "--out", str(whole)], check=True)
    run = subprocess.Popen([*command, "--out", str(halved)])
    while len(list(halved.rglob("[!.]*.npz"))) < 4:
        assert run.poll() is None, "it ended before it could be killed"
        time.sleep(0.1)
    run.kill()
    run.wait()
    kept = len(list(halved.rglob("[!.]*.npz")))
    subprocess.run([*command, "--out", str(halved)], check=True)
    assert kept < len(list(halved.rglob("[!.]*.npz"))) == len(list(whole.rglob("[!.]*.npz")))
    assert (halved / "figure2.csv").read_bytes() == (whole / "figure2.csv").read_bytes()


def test_what_cannot_be_run_is_refused_with_advice(tmp_path):
    with pytest.raises(SettingError, match="no data set 'boston'; choose from housing"):
        work.Plan(("boston",), 2, tmp_path)
    with pytest.raises(SettingError, match="'tpu' is not at hand"):
        work.Plan(("yacht",), 2, tmp_path, device="tpu")
    with pytest.raises(SettingError, match="choose from figure1"):
        run("figure3", work.Plan(("yacht",), 2, tmp_path), Console(quiet=True))


def test_every_output_names_parts_that_exist_and_every_published_number_is_there():
    assert {part for by in READS.values() for parts in by.values() for part in parts} == set(work.PARTS)
    assert len(published.NLL) == 8 * 6
    assert published.NLL["housing", "RUE"] == (2.54, 0.06)
    assert set(fidelity.SHOWN) < set(work.PARTS["audits"].settings and fidelity.AUDITS)


def test_results_know_which_methods_were_run():
    found = Results("paper", "yacht", {0: {"RUE/score": np.ones(2), "target": np.zeros(2)}})
    assert found.has("RUE")
    assert not found.has("PBP")
