"""`rue report`: from files on disk to a page and its JSON, and one sentence where that cannot be."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from rue.cli import app

CODE = """
import numpy, pandas, torch
from sklearn.linear_model import Ridge

rows = pandas.read_csv("train.csv")
ridge = Ridge(1.0).fit(rows[["a", "b"]], rows["y"])
net = torch.nn.Linear(2, 1)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.normal(size=(160, 2)), columns=["a", "b"])
    frame["y"] = 2 * frame["a"] + 0.5 * draw.normal(size=160)
    frame["who"] = [f"W{i}" for i in range(160)]
    frame["arm"] = draw.choice(["left", "right"], 160)
    frame[:100].to_csv("train.csv", index=False)
    frame[100:].to_csv("audited.csv", index=False)
    frame[100:].drop(columns="y").to_csv("unlabelled.csv", index=False)
    frame[100:].assign(y=[None] * 3 + frame["y"][103:].tolist()).to_csv("holes.csv", index=False)
    return tmp_path


@pytest.fixture
def trees(folder):
    import lightgbm

    train = pd.read_csv("train.csv")
    fitted = lightgbm.LGBMRegressor(n_estimators=10, num_leaves=5, n_jobs=1, verbose=-1).fit(
        train[["a", "b"]], train["y"]
    )
    fitted.booster_.save_model("trees.txt")
    return folder


@pytest.fixture
def module(folder, monkeypatch):
    (folder / "my_models.py").write_text(CODE)
    monkeypatch.delitem(sys.modules, "my_models", raising=False)
    yield folder
    sys.modules.pop("my_models", None)


def rue(*arguments):
    return CliRunner().invoke(app, ["report", *arguments])


def test_a_lightgbm_file_and_two_tables_make_a_report(trees):
    done = rue(
        *("trees.txt", "train.csv", "audited.csv", "--target", "y", "--id", "who", "--group", "arm", "--drop", "arm"),
        *("--noun", "workers", "--title", "Trees", "--purpose", "A test.", "--out", "made/report.html"),
    )
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[:2] == ["made/report.html", "made/report.json"]
    document = json.loads((trees / "made/report.json").read_text())
    assert document["title"] == "Trees"
    assert document["verdict"]["text"] in done.output
    assert document["predictions"]["id"][0] == "W100"
    assert document["predictions"]["id_label"] == "who"
    assert document["predictions"]["actual"] == "actual"
    assert document["predictions"]["inputs"]["columns"] == ["a", "b"]
    assert any(block["id"] == "group-0" for part in document["sections"] for block in part["blocks"])


def test_a_fitted_estimator_by_name_and_rows_without_the_target(module):
    done = rue("my_models:ridge", "train.csv", "unlabelled.csv", "--target", "y", "--id", "who", "--drop", "arm")
    assert done.exit_code == 0, done.output
    document = json.loads((module / "audit.json").read_text())
    assert document["title"] == "Audit of my_models:ridge"
    assert document["predictions"]["actual"] is None
    again = rue(
        *("my_models:ridge", "train.csv", "audited.csv", "--target", "y", "--id", "who", "--drop", "arm"),
        *("--previous", "audit.json", "--level", "0.8", "--out", "again.html"),
    )
    assert again.exit_code == 0, again.output
    assert json.loads((module / "again.json").read_text())["predictions"]["interval"]["level"] == 0.8
    assert sys.path.count(str(module)) == 0


def test_a_module_by_name_says_its_loss_on_the_command_line(module):
    columns = ("--target", "y", "--drop", "arm", "--drop", "who")
    silent = rue("my_models:net", "train.csv", "audited.csv", *columns)
    assert silent.exit_code == 1
    assert "does not know the loss" in silent.output
    done = rue("my_models:net", "train.csv", "audited.csv", *columns, "--loss", "squared_error", "--l2", "1")
    assert done.exit_code == 0, done.output


def test_an_exported_program_is_read(folder):
    batch = torch.export.Dim("batch")
    program = torch.export.export(torch.nn.Linear(2, 1), (torch.randn(4, 2),), dynamic_shapes=({0: batch},))
    torch.export.save(program, folder / "net.pt2")
    done = rue(
        *("net.pt2", "train.csv", "audited.csv", "--target", "y", "--drop", "arm", "--drop", "who"),
        *("--loss", "squared_error", "--l2", "1"),
    )
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("trees.txt", "train.csv", "audited.csv", "--target", "z"), "no column 'z'"),
        (("trees.txt", "train.csv", "nowhere.csv", "--target", "y"), "cannot be read"),
        (
            ("trees.txt", "train.xlsx", "audited.csv", "--target", "y"),
            "no table that is known by its ending; give .csv",
        ),
        (("trees.txt", "train.csv", "audited.csv", "--target", "y", "--group", "sex"), "no column 'sex'"),
        (("trees.txt", "train.csv", "audited.csv", "--target", "y", "--id", "name"), "no column 'name'"),
        (("model.bin", "train.csv", "audited.csv", "--target", "y"), "write package.module:name"),
        (("no_such_module:net", "train.csv", "audited.csv", "--target", "y"), "cannot be imported"),
        (("none.txt", "train.csv", "audited.csv", "--target", "y", "--drop", "arm", "--drop", "who"), "cannot be read"),
        (("trees.txt", "train.csv", "audited.csv", "--target", "y", "--previous", "train.csv"), "earlier report"),
        (("trees.txt", "train.csv", "audited.csv", "--target", "y", "--id", "y"), "both --target and --id"),
        (("trees.txt", "train.csv", "audited.csv", "--target", "y", "--id", "who", "--group", "who"), "several rows"),
        (("trees.txt", "train.csv", "audited.csv", "--target", "y", "--drop", "arms"), "no column 'arms'"),
        (("trees.txt", "train.csv", "holes.csv", "--target", "y"), "3 of 60 rows of holes.csv have no y"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_one(trees, arguments, said):
    done = rue(*arguments)
    assert done.exit_code == 1
    assert said in done.output
    assert sum(not line.startswith("warning: ") for line in done.output.strip().splitlines()) == 1


def test_audited_rows_without_a_feature_are_refused(trees):
    pd.read_csv("audited.csv").drop(columns="b").to_csv("short.csv", index=False)
    done = rue("trees.txt", "train.csv", "short.csv", "--target", "y", "--drop", "arm", "--drop", "who")
    assert done.exit_code == 1
    assert "short.csv lacks b" in done.output


def test_what_is_read_is_never_written_over(trees):
    before = (trees / "trees.txt").read_bytes()
    (trees / "trees.txt").rename(trees / "trees.json")
    columns = ("--target", "y", "--drop", "arm", "--drop", "who")
    done = rue("trees.json", "train.csv", "audited.csv", *columns, "--out", "trees.html")
    assert done.exit_code == 1
    assert "choose another --out" in done.output
    (trees / "old.json").write_text("{}")
    done = rue("trees.txt", "train.csv", "audited.csv", *columns, "--previous", "old.json", "--out", "./old")
    assert "choose another --out" in done.output
    assert (trees / "trees.json").read_bytes() == before
    assert (trees / "old.json").read_text() == "{}"
    assert not (trees / "trees.html").exists()


@pytest.mark.filterwarnings("ignore:cells")
def test_words_are_categories_of_the_training_table_in_both_tables(folder):
    import lightgbm

    train, audited = pd.read_csv("train.csv"), pd.read_csv("audited.csv")
    for frame in (train, audited):
        frame["city"] = np.where(frame["arm"] == "left", "Oslo", np.where(frame["b"] > 0, "Rome", "Bern"))
        frame["y"] += frame["city"].map({"Oslo": 0, "Rome": 3, "Bern": 6})
    cities = pd.CategoricalDtype(["Bern", "Oslo", "Rome"])
    known = train[["a", "city"]].astype({"city": cities})
    fitted = lightgbm.LGBMRegressor(n_estimators=10, num_leaves=5, n_jobs=1, verbose=-1).fit(known, train["y"])
    fitted.booster_.save_model("cities.txt")
    train[["a", "city", "y"]].to_csv("t.csv", index=False)
    audited[["a", "city", "y"]].to_csv("all.csv", index=False)
    few = (audited["city"] != "Bern").to_numpy()
    audited.loc[few, ["a", "city", "y"]].to_csv("few.csv", index=False)
    strange = audited.assign(city=["Paris", *audited["city"][1:]])
    strange[["a", "city", "y"]].to_csv("strange.csv", index=False)
    found = {}
    for name in ("all", "few", "strange"):
        done = rue("cities.txt", "t.csv", f"{name}.csv", "--target", "y", "--out", f"made_{name}")
        assert done.exit_code == 0, done.output
        found[name] = json.loads((folder / f"made_{name}.json").read_text())
    values = {name: each["predictions"]["values"] for name, each in found.items()}
    for key in ("prediction", "score"):  # a row's numbers do not depend on the words of other rows
        assert np.array(values["all"][key])[few].tolist() == values["few"][key]
        assert values["all"][key][1:] == values["strange"][key][1:]
    with_nan = fitted.predict(
        strange[["a", "city"]].where(strange["city"] != "Paris").assign(a=strange["a"]).astype({"city": cities})
    )
    assert values["strange"]["prediction"] == pytest.approx(with_nan, rel=1e-5)
    said = json.dumps(found["strange"])
    assert "1 of 60 (2 %) audited rows have a city that t.csv lacks (Paris): read as missing" in said


def test_columns_that_the_model_was_not_trained_with_are_left_out_and_named(trees):
    done = rue("trees.txt", "train.csv", "audited.csv", "--target", "y", "--out", "made")  # who and arm: forgotten
    assert done.exit_code == 0, done.output
    document = json.loads((trees / "made.json").read_text())
    assert document["predictions"]["inputs"]["columns"] == ["a", "b"]
    assert "the model was not trained with who and arm, left out of train.csv" in json.dumps(document)
    again = rue(
        "trees.txt", "train.csv", "audited.csv", *("--target", "y", "--drop", "who", "--drop", "arm", "--out", "two")
    )
    assert again.exit_code == 0, again.output
    values = json.loads((trees / "two.json").read_text())["predictions"]["values"]
    assert values == document["predictions"]["values"]


def test_a_category_called_na_is_a_word_in_a_column_of_words_and_missing_among_numbers(folder):
    import lightgbm

    train, audited = (pd.read_csv(name) for name in ("train.csv", "audited.csv"))
    for frame in (train, audited):
        frame["drug"] = np.where(frame["arm"] == "left", "NA", np.where(frame["b"] > 0, "K", "Mg"))
        frame["y"] += 4 * (frame["drug"] == "NA")
        frame.loc[:4, "a"] = np.nan
    words = pd.CategoricalDtype(["K", "Mg", "NA"])
    fitted = lightgbm.LGBMRegressor(n_estimators=10, num_leaves=5, n_jobs=1, verbose=-1).fit(
        train[["a", "drug"]].astype({"drug": words}), train["y"]
    )
    fitted.booster_.save_model("drugs.txt")
    for frame, name in ((train, "t.csv"), (audited, "new.csv")):
        frame[["a", "drug", "y"]].to_csv(name, index=False, na_rep="NA")
    done = rue("drugs.txt", "t.csv", "new.csv", "--target", "y", "--out", "made")
    assert done.exit_code == 0, done.output
    values = json.loads((folder / "made.json").read_text())["predictions"]["values"]
    wanted = fitted.predict(audited[["a", "drug"]].astype({"drug": words}))
    assert values["prediction"] == pytest.approx(wanted, rel=1e-5)
