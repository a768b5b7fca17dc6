"""The tables in the pages are those of the files beside them, and hold what the pages say of them."""

import importlib.util
import json
import math
from pathlib import Path

import pandas as pd
import pytest

from rue.core import costs

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("tables", ROOT / "benchmarks" / "tables.py")
tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tables)


@pytest.mark.parametrize(("page", "name"), tables.TABLES, ids=lambda value: value)
def test_a_table_is_that_of_its_file(page, name):
    assert tables.renewed(page, name) == (ROOT / "docs" / page).read_text(), "run python benchmarks/tables.py"


def test_the_default_score_of_classifiers_leads_maximum_softmax_and_entropy():
    splits = pd.read_csv(ROOT / "docs/classification/splits.csv")
    mean = splits.groupby(["data", "classes held out", "method"])[["mistakes", "strange"]].mean()
    for (data, held), part in mean.groupby(level=[0, 1]):
        for column in ("mistakes", "strange") if held else ("mistakes",):
            scores = part.loc[(data, held)][column]
            assert scores["ClassifierRUE"] > max(scores["Maximum softmax"], scores["Entropy"])


def test_every_estimator_keeps_its_prediction_and_linear_ones_the_order_of_refits():
    found = pd.read_csv(ROOT / "docs/models/estimators.csv")
    assert found["prediction is its own"].all()
    assert found["finite"].all()
    assert (found[found["kind"].isin(["linear", "GLM"])]["Spearman"] >= 0.8).all()


def test_boosted_trees_find_errors_as_refits_do_on_at_least_five_sets():
    found = pd.read_csv(ROOT / "docs/models/boosted.csv")
    close = found["CalibratedRUE"] >= found["refits"] - 0.03
    assert (close.groupby(found["model"]).sum() >= 5).all()


def test_many_outputs_keep_their_promise_and_the_page_says_what_was_measured():
    found = json.loads((ROOT / "benchmarks" / "many_outputs.json").read_text())
    assert found["audit seconds"] < 20
    assert found["peak GB"] < 1.5
    page = " ".join((ROOT / "docs" / "models.md").read_text().split())
    for name, unit in (("fit seconds", "s"), ("audit seconds", "s"), ("peak GB", "GB")):
        assert f"{found[name]} {unit}" in page
    ranks = [part["Spearman, margin variance"] for part in found["fidelity"].values()]
    assert "{:.3f}, {:.3f} and {:.4f}".format(*ranks).replace("0.", ".") in page


def test_a_large_ensemble_keeps_its_promise_and_the_page_says_what_was_measured():
    found = json.loads((ROOT / "benchmarks" / "trees.json").read_text())
    large = found["1000 trees, 63 leaves, 100000 rows, 10000 audited"]
    exact = found["300 trees, 63 leaves, 20000 rows, 200 audited"]
    fit, audit = large["fit LinearRUE, seconds"], large["audit 10000 rows, seconds"]
    assert fit + audit < 300
    assert large["peak GiB"] < 8
    page = " ".join((ROOT / "docs" / "trees.md").read_text().split())
    shown = [f"{fit} s", f"{audit} s", f"{large['peak GiB']} GiB"]
    shown += [f"{exact[name]}".lstrip("0") for name in ("Spearman with exact", "median ratio to exact")]
    assert all(text in page for text in shown)


def test_a_plan_says_of_a_sketch_what_the_files_hold():
    digits = pd.read_csv(ROOT / "docs/scale/fidelity.csv")
    whole = pd.read_csv(ROOT / "docs/scale/faithful.csv")
    digits = digits[digits["size"].str.isdigit()].astype({"size": int, "spearman": float})
    several = pd.concat([digits[digits["followed"] == "all"], whole[whole["audit"] == "l2 stated"]])
    for size, said in costs.KEPT.items():
        assert said == _range(several.loc[several["size"] == size, "spearman"])
    assert _range(digits.loc[digits["followed"] == "4", "spearman"]) == costs.KEPT_OF_FEW
    assert f"correlation of {costs.KEPT[4096]} with exact" in (ROOT / "docs/large-networks.md").read_text()


def _range(found):
    low, high = (f"{each:.2f}".removeprefix("0") for each in (found.min(), found.max()))
    return f"{low} to {high}"


def test_plans_keep_their_word_as_the_page_says():
    lines = [json.loads(line) for line in (ROOT / "docs/scale/plans.jsonl").read_text().splitlines()]
    off = {
        what: [max(line[f"planned_{what}"] / line[what], line[what] / line[f"planned_{what}"]) for line in lines]
        for what in ("bytes", "fit_s", "audit_s")
    }
    short = [line["planned_bytes"] / line["bytes"] for line in lines]
    assert len(lines) == 24
    assert all(0.75 < each < 1.25 for each in short[:12])
    assert sum(0.75 < each < 1.25 for each in short[12:]) == 11
    assert round(1 - min(short[12:]), 2) == 0.27
    assert max(off["fit_s"][:12] + off["audit_s"][:12]) < 1.7
    assert sorted(round(each, 2) for each in off["fit_s"])[-2:] == [1.85, 2.01]
    assert max(off["audit_s"]) < 2


def test_large_networks_cost_what_the_pages_say():
    lines = [json.loads(line) for line in (ROOT / "docs/scale/costs.jsonl").read_text().splitlines()]
    linear = {line["case"]: line for line in lines if line["method"] == "linear"}
    resnets = [linear["resnet10"], linear["resnet100"]]
    assert [round(line["fit_epochs"], 1) for line in resnets] == [2.0, 1.9]
    assert all(line["fit_epochs"] < 2 and line["audit_epochs"] < 4 for line in resnets)
    assert all(linear[name]["fit_epochs"] < 1 for name in ("gpt2", "lora"))
    assert min(line["fit_s"] for line in lines if line["case"] == "small" and line["method"] == "default") < 5
    for line in linear.values():
        assert 0.75 < line["planned_gib"] / line["more_gib"] < 1.25
        for what in ("fit_s", "audit_s"):
            assert 0.5 < line[f"planned_{what}"] / line[what] < 2


def test_seconds_grow_with_rows_as_the_page_says():
    found = pd.read_csv(ROOT / "docs/rows/growth.csv")
    for _, part in found.groupby(["method", "parameters", "device"]):
        seconds = part.set_index("rows")["fit_s"]
        assert math.log10(seconds[1_000_000] / seconds[100_000]) < 1.1
    default = found[(found["method"] == "default") & (found["rows"] == 1_000_000)]
    assert (default["fit_s"] < 120).all()
