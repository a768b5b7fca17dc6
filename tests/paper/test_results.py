"""What the documentation says of the paper's experiments is what the published result files hold."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from rue import datasets
from rue_paper import page, verdicts

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "docs" / "paper"
BEYOND = ROOT / "docs" / "beyond"


@pytest.fixture(scope="module")
def reproduction():
    spec = importlib.util.spec_from_file_location("reproduction", ROOT / "docs" / "reproduction.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_from_the_published_files(reproduction):
    text = (ROOT / "docs" / "what-we-found.md").read_text()
    assert reproduction.filled(text, reproduction.blocks(RESULTS)) == text
    beyond = (ROOT / "docs" / "beyond.md").read_text()
    assert reproduction.filled(beyond, reproduction.beyond_blocks(BEYOND)) == beyond


def test_the_published_run_has_all_sets_and_splits():
    table = page.read(RESULTS, "table1")
    assert set(table["data"]) == set(datasets.NAMES)
    assert set(table["splits"]) == {20}
    for name in ("facts.json", "facts-after-learning.json", "facts-cuda.json", "facts-cuda-after-learning.json"):
        facts = json.loads((RESULTS / name).read_text())
        assert facts["splits"] == 20
        assert facts["split_seed"] == 1


def test_all_audits_and_refits_took_less_than_half_an_hour_on_two_cores():
    facts = json.loads((RESULTS / "facts-after-learning.json").read_text())
    assert facts["device"] == "cpu"
    assert facts["processes"] == 2
    assert not facts["resumed"]
    assert facts["wall_seconds"] < 1800


def test_what_the_readme_says_of_fidelity_is_in_the_files():
    ranks = page.read(RESULTS, "fidelity").query("method == 'LinearRUE'").set_index("data")["spearman"]
    readme = (ROOT / "README.md").read_text()
    said = re.search(r"at least\s+(\.\d+) on seven of eight data sets\s+\(Naval: (\.\d+)\)", readme)
    assert said
    assert ranks.drop("naval").min() >= float(said[1])
    assert round(ranks["naval"], 2) == float(said[2])
    costs = page.read(RESULTS, "costs")
    assert costs["ratio_one_by_one"].min() >= 100


def test_claims_that_must_hold_hold():
    said = " ".join(verdicts.verdicts(RESULTS))
    assert "lower NLL than sampled Laplace: on 8 of 8 sets" in said
    assert "has a higher mean AUC than RUE: on 6 of 8 sets" in said  # also in the README
    assert re.search(r"higher mean AUC than Laplace and kernel density: on [678] of 8", said)
    assert re.search(r"at least \.9 with real refits: on [78] of 8", said)
    assert "CalibratedRUE has a lower NLL than RUE: on 8 of 8 sets" in said
    assert "CalibratedRUE has a higher mean AUC than the nearest neighbours' residual: on 8 of 8 sets" in said
    assert re.search(r"CalibratedRUE has a higher mean AUC than the error model alone: on [678] of 8 sets", said)
    assert float(re.search(r"Mean AUC over the sets: CalibratedRUE (\S+),", said)[1]) >= 0.75
    assert float(re.search(r"paper's protocol: CalibratedRUE (\S+),", said)[1]) <= 1.22
    for method in ("PBP", "MCDropout", "DeepEnsemble"):
        assert re.search(rf"{method}, trained here: .* on [678] of 8 sets", said)


def test_what_other_draws_of_splits_gave_is_in_their_file():
    text = (ROOT / "docs" / "what-we-found.md").read_text()
    draws = page.read(RESULTS, "split-seeds").groupby("data")
    nll, auc = draws["rue_nll"].agg(["min", "max", "mean"]), draws["rue_auc"].agg(["min", "max"])
    energy, housing = nll.loc["energy"], nll.loc["housing"]
    assert f"between {energy['min']:.2f} and {energy['max']:.2f}, mean {energy['mean']:.3f}" in text
    assert f"between .{1000 * auc.loc['energy', 'min']:.0f} and .{1000 * auc.loc['energy', 'max']:.0f}" in text
    assert f"NLL {housing['min']:.2f} to {housing['max']:.2f}" in text


def test_one_network_is_at_or_below_deep_ensembles():
    frame = page.read(BEYOND, "beyond").set_index(["method", "data"])
    one, beside = frame.loc["One network, calibrated"], frame.loc["DeepEnsemble, same rule"]
    assert set(one["splits"]) == {20}
    assert (one["nll"] <= one["published"] + one["published_error"]).all()
    assert (one["nll"] < one["published"]).sum() >= 5
    assert (one["nll"] < beside["nll"]).sum() >= 6


def test_regions_without_training_rows_are_flagged_and_no_worse_than_constant_noise():
    frame = page.read(BEYOND, "shift")
    worse = frame["CalibratedRUE"] - frame["Homoscedastic"]
    assert (worse < 0).all()
    assert frame["times"].min() >= 3


def test_conformal_intervals_cover_what_they_guarantee():
    frame = page.read(BEYOND, "coverage").query("level == 0.9").set_index(["method", "data"])
    assert (frame.loc["split conformal", "verdict"] == "within").all()
    off = (frame.loc["jackknife+", "coverage"] - 0.9).abs()
    assert (off <= 0.04).all()


def test_the_readmes_table_is_in_the_files():
    frame = page.read(BEYOND, "beyond").set_index(["method", "data"])
    said = {
        "one network, calibrated": frame.loc["One network, calibrated", "nll"],
        "deep ensemble of five, trained beside it under the same rule": frame.loc["DeepEnsemble, same rule", "nll"],
        "deep ensemble of five, recipe picked on the test rows": frame.loc["DeepEnsemble", "nll"],
        "deep ensembles, published": frame.loc["DeepEnsemble", "published"],
    }
    readme = (ROOT / "README.md").read_text()
    for name, values in said.items():
        assert f"| {name} | " + " | ".join(f"{value:.2f}" for value in values) + " |" in readme
    costs = page.read(BEYOND, "beyond_costs")
    ratio = costs["one_network"].sum() / costs["ensemble"].sum()
    assert f"It takes {ratio:.2f} times as long" in readme


def test_the_papers_networks_are_audited_as_well_as_is_said():
    found = page.read(BEYOND, "paper_networks")
    assert set(found["data"]) == set(datasets.NAMES)
    mean = found["auc_pooled"].mean()
    assert mean >= 0.775
    assert f"reach {mean:.3f}".replace("0.", ".") in (ROOT / "docs" / "what-we-found.md").read_text()
