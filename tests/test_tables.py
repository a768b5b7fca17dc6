"""The tables in the pages are those of the files beside them, and hold what the pages say of them."""

import importlib.util
import json
from pathlib import Path

import pandas as pd
import pytest

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
