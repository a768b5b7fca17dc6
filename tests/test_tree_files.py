"""Stored tree ensembles, read without their library: the same leaves, the same predictions."""

import json
import subprocess
import sys

import numpy as np
import pytest

import rue
from rue.core.errors import DataError, ModelError
from rue.models.trees.tree_model import LEAVES
from rue.models.trees.ubjson import decode
from tree_cases import TOLERANCE, table, targets

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

SMALL = {"num_leaves": 7, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5}


def edges(X):
    """Rows that land on thresholds, and on either side of zero: where a reader goes wrong first."""
    draw = np.random.default_rng(9)
    return np.concatenate(
        [X, np.zeros((1, 4)), np.full((1, 4), np.nan), np.full((1, 4), 1e-36), draw.permuted(X, axis=0)]
    )


@pytest.mark.parametrize("zero_as_missing", [False, True])
@pytest.mark.parametrize(
    ("objective", "target"),
    [("regression", "number"), ("binary", "two"), ("multiclass", "three"), ("poisson", "count")],
)
def test_a_lightgbm_file_gives_the_leaves_and_predictions_of_its_booster(tmp_path, objective, target, zero_as_missing):
    X = table(300, missing=True)
    X[:20, 1] = 0.0
    y = targets(X)[target]
    settings = {"objective": objective, "zero_as_missing": zero_as_missing, **SMALL}
    settings |= {"num_class": 3} if target == "three" else {}
    booster = lightgbm.train(settings, lightgbm.Dataset(X, y), 10)
    booster.save_model(tmp_path / "model.txt")
    stored, new = rue.wrap(tmp_path / "model.txt"), edges(X)
    np.testing.assert_array_equal(stored.read(new)[LEAVES], booster.predict(new, pred_leaf=True))
    outputs = stored.predict(stored.theta, stored.read(new)).numpy()
    np.testing.assert_allclose(outputs, booster.predict(new, raw_score=True).reshape(outputs.shape), atol=1e-12)
    answer, own = stored.answer(new), booster.predict(new)
    np.testing.assert_allclose(answer, own.argmax(1) if target == "three" else own, rtol=1e-9)


def test_categorical_splits_of_a_lightgbm_file_are_walked(tmp_path):
    X = table(300, missing=True)
    X[:, 3] = np.random.default_rng(2).integers(0, 70, len(X))  # more than two words of bits
    y = X[:, 3] % 5 + np.nan_to_num(X[:, 0])
    booster = lightgbm.train(
        {**SMALL, "min_data_per_group": 2, "cat_smooth": 1}, lightgbm.Dataset(X, y, categorical_feature=[3]), 10
    )
    booster.save_model(tmp_path / "model.txt")
    new = edges(X)
    new[:8, 3] = [-1.0, 999.0, 3.7, np.nan, -0.5, 1e300, -1e300, np.inf]  # negative, unknown, not whole, missing
    np.testing.assert_array_equal(
        rue.wrap(tmp_path / "model.txt").read(new)[LEAVES], booster.predict(new, pred_leaf=True)
    )
    assert "num_cat=0" not in (tmp_path / "model.txt").read_text().partition("Tree=1")[0]


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize(
    ("objective", "target"),
    [
        ("reg:squarederror", "number"),
        ("binary:logistic", "two"),
        ("multi:softprob", "three"),
        ("count:poisson", "count"),
        ("reg:gamma", "positive"),
    ],
)
def test_an_xgboost_file_gives_the_leaves_and_predictions_of_its_booster(tmp_path, objective, target, suffix):
    X = table(300, missing=True).astype(np.float32)
    y = targets(X)[target]
    settings = {"objective": objective, "max_depth": 4, "nthread": 1} | ({"num_class": 3} if target == "three" else {})
    booster = xgboost.train(settings, xgboost.DMatrix(X, y), 10)
    booster.save_model(tmp_path / f"model.{suffix}")
    stored, live, new = rue.wrap(str(tmp_path / f"model.{suffix}")), rue.wrap(booster), edges(X)
    np.testing.assert_array_equal(stored.read(new)[LEAVES], live.read(new)[LEAVES])
    outputs = stored.predict(stored.theta, stored.read(new)).numpy()
    margin = booster.predict(xgboost.DMatrix(new), output_margin=True).reshape(outputs.shape)
    np.testing.assert_allclose(outputs, margin, rtol=TOLERANCE, atol=TOLERANCE)
    own = booster.predict(xgboost.DMatrix(new))
    np.testing.assert_allclose(stored.answer(new), own.argmax(1) if target == "three" else own, rtol=10 * TOLERANCE)


def test_thresholds_are_compared_in_single_precision(tmp_path):
    X = np.linspace(0, 1, 200)[:, None] ** 2 / 3
    booster = xgboost.train({"max_depth": 5, "nthread": 1}, xgboost.DMatrix(X, np.sin(20 * X[:, 0])), 20)
    booster.save_model(tmp_path / "model.ubj")
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    thresholds = np.unique(np.concatenate([tree["split_conditions"] for tree in trees]).astype(np.float32))
    new = np.concatenate([thresholds.astype(np.float64) * (1 + shift) for shift in (-1e-9, 0, 1e-9)])[:, None]
    np.testing.assert_array_equal(
        rue.wrap(tmp_path / "model.ubj").read(new)[LEAVES], rue.wrap(booster).read(new)[LEAVES]
    )


def test_files_are_read_without_their_libraries(tmp_path):
    X = table(100)
    y = targets(X)["number"]
    lightgbm.train(SMALL, lightgbm.Dataset(X, y), 3).save_model(tmp_path / "model.txt")
    xgboost.train({"nthread": 1}, xgboost.DMatrix(X, y), 3).save_model(tmp_path / "model.ubj")
    probe = f"""
import sys, rue
for name in ("model.txt", "model.ubj"):
    rue.wrap({str(tmp_path)!r} + "/" + name).answer([[0.0, 1.0, 2.0, 3.0]])
assert not {{"lightgbm", "xgboost", "sklearn", "catboost"}} & set(sys.modules), sorted(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_stored_ensemble_audits_like_the_live_one(tmp_path):
    X = table(200)
    y = targets(X)["number"]
    booster = lightgbm.train(SMALL, lightgbm.Dataset(X, y), 10)
    booster.save_model(tmp_path / "model.txt")
    ours, theirs = (
        rue.LinearRUE().fit(rue.wrap(model), (X, y)).audit(X[:20]) for model in (tmp_path / "model.txt", booster)
    )
    np.testing.assert_allclose(ours.std, theirs.std)
    assert ours.facts["l2"] == theirs.facts["l2"] == 20.0


def test_a_file_that_does_not_say_its_penalty_gets_two_over_the_learning_rate(tmp_path):
    X = table(100)
    model = xgboost.XGBRegressor(n_estimators=3, learning_rate=0.1, reg_lambda=5, n_jobs=1).fit(X, X[:, 0])
    model.save_model(tmp_path / "model.json")
    assert rue.wrap(model).describe()["l2"] == pytest.approx(50)
    stored = rue.wrap(tmp_path / "model.json").describe()
    assert stored["l2"] == pytest.approx(2 / 0.3)
    assert "does not say" in stored["l2_reason"]
    assert rue.wrap(tmp_path / "model.json", l2=50.0).describe()["l2"] == 50


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"Z", None),
        (b"T", True),
        (b"[i\x01i\xff]", [1, -1]),
        (b"[#i\x02Si\x01aSi\x01b", ["a", "b"]),
        (b"{i\x01xU\xff}", {"x": 255}),
        (b"d\x3f\x80\x00\x00", 1.0),
        (b"D\x3f\xf0\x00\x00\x00\x00\x00\x00", 1.0),
    ],
)
def test_ubjson_is_read(data, wanted):
    assert decode(data) == wanted


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "1 bytes announced, 0 left"),
        (b"{", "1 bytes announced"),
        (b"[i\x01", "1 bytes announced"),
        (b"Si\x05ab", "5 bytes announced, 2 left"),
        (b"Si\xffab", "-1 bytes announced"),
        (b"Si\x01\xff", "codec can't decode"),
        (b"Sd\x7f\x80\0\0", "unknown type b'd'"),
        (b"?", r"unknown type b'\?'"),
        (b"{i\x01a", "1 bytes announced"),
        (b"{i\x01aTi\x01aF}", "'a' twice"),
        (b"[$i#L\x7f\xff\xff\xff\xff\xff\xff\xff", "9223372036854775807 bytes announced"),
        (b"[$Z#L\x7f\xff\xff\xff\xff\xff\xff\xff", "an array of type b'Z'"),
        (b"[#L\x7f\xff\xff\xff\xff\xff\xff\xff", "1 bytes announced, 0 left"),
        (b"[" * 100_000, "nested deeper than 32"),
    ],
)
def test_broken_ubjson_is_refused(data, match):
    with pytest.raises(ValueError, match=match):
        decode(data)


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("a.txt", "hello", "no LightGBM model, or a damaged one .*begins with 'hello'"),
        ("a.json", "{}", "no XGBoost model"),
        ("a.json", "not json", "no XGBoost model"),
        ("a.ubj", "?", "no XGBoost model, or a damaged one .*no UBJSON"),
        ("a.pkl", "", r"a\.pkl"),
    ],
)
def test_other_files_are_refused(tmp_path, name, text, match):
    (tmp_path / name).write_text(text)
    with pytest.raises(ModelError, match=match):
        rue.wrap(tmp_path / name)


def test_a_lightgbm_file_that_was_not_written_from_python_is_read(tmp_path):
    X = table(100)
    booster = lightgbm.train(SMALL, lightgbm.Dataset(X, X[:, 0]), 3)
    text = booster.model_to_string().partition("\npandas_categorical")[0]
    (tmp_path / "model.txt").write_text(text)
    np.testing.assert_array_equal(rue.wrap(tmp_path / "model.txt").read(X)[LEAVES], booster.predict(X, pred_leaf=True))


def test_an_xgboost_file_with_pruned_branches_is_read(tmp_path):
    X = table(300)
    y = targets(X)["number"]
    settings = {"max_depth": 5, "gamma": 8.0, "tree_method": "exact", "nthread": 1}
    booster = xgboost.train(settings, xgboost.DMatrix(X, y), 10)
    booster.save_model(tmp_path / "model.json")
    trees = json.loads((tmp_path / "model.json").read_bytes())["learner"]["gradient_booster"]["model"]["trees"]
    assert any(tree["tree_param"]["num_deleted"] != "0" for tree in trees)
    stored = rue.wrap(tmp_path / "model.json")
    np.testing.assert_array_equal(stored.read(X)[LEAVES], rue.wrap(booster).read(X)[LEAVES])
    np.testing.assert_allclose(stored.answer(X), booster.predict(xgboost.DMatrix(X)), rtol=TOLERANCE, atol=TOLERANCE)


def test_a_split_of_missing_values_from_all_others_is_read(tmp_path):
    X = table(400, missing=True)
    y = np.isnan(X[:, 1]) + 0.01 * targets(X)["number"]
    booster = lightgbm.train({**SMALL, "num_leaves": 2}, lightgbm.Dataset(X, y), 3)
    booster.save_model(tmp_path / "model.txt")
    assert "threshold=inf" in (tmp_path / "model.txt").read_text()
    np.testing.assert_array_equal(rue.wrap(tmp_path / "model.txt").read(X)[LEAVES], booster.predict(X, pred_leaf=True))


def test_a_table_of_another_width_is_refused(tmp_path):
    X = table(100)
    lightgbm.train(SMALL, lightgbm.Dataset(X, X[:, 0]), 3).save_model(tmp_path / "model.txt")
    with pytest.raises(DataError, match=r"3 columns of numbers, model\.txt was trained on 4"):
        rue.wrap(tmp_path / "model.txt").read(X[:, :3])


def test_categorical_splits_of_an_xgboost_file_are_refused_with_advice(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"a": pd.Categorical(np.arange(100) % 7), "b": np.arange(100.0)})
    y = np.isin(np.arange(100) % 7, [1, 4, 6]).astype(float)
    model = xgboost.XGBRegressor(n_estimators=3, enable_categorical=True, max_cat_to_onehot=1, n_jobs=1).fit(frame, y)
    model.save_model(tmp_path / "model.ubj")
    with pytest.raises(ModelError, match="load it with XGBoost"):
        rue.wrap(tmp_path / "model.ubj")
    live = rue.wrap(model)
    np.testing.assert_allclose(live.predict(live.theta, live.read(frame))[:, 0], model.predict(frame), atol=TOLERANCE)


def variants(text):
    """One model as other versions and programs of LightGBM write it, or as a transfer between systems leaves it."""
    plain = text.partition("\npandas_categorical")[0]
    sizes = next(line for line in text.splitlines() if line.startswith("tree_sizes="))
    return {
        "the command line": plain + "\n",
        "R": plain + "\n\n",
        "no parameters": text.partition("\nparameters:")[0],
        "ends with its trees": text.partition("\nend of trees")[0] + "\nend of trees\n",
        "no sizes of trees": text.replace(sizes + "\n", ""),
        "before version 3": text.replace(sizes + "\n", "").replace("end of trees\n\nfeature_imp", "\nfeature imp"),
        "line ends of Windows": text.replace("\n", "\r\n"),
    }


@pytest.mark.parametrize("name", variants("tree_sizes="))
def test_a_lightgbm_file_of_another_writer_is_read(tmp_path, name):
    X = table(100, missing=True)
    booster = lightgbm.train(SMALL, lightgbm.Dataset(X, targets(X)["number"]), 3)
    (tmp_path / "model.txt").write_bytes(variants(booster.model_to_string())[name].encode())
    np.testing.assert_allclose(rue.wrap(tmp_path / "model.txt").answer(X), booster.predict(X), rtol=1e-12)


@pytest.mark.parametrize("kept", [0, 1, 2, 5])
def test_a_lightgbm_file_that_lost_trees_is_refused(tmp_path, kept):
    X = table(100)
    text = lightgbm.train(SMALL, lightgbm.Dataset(X, X[:, 0]), 6).model_to_string()
    first, after = text.index(f"\nTree={kept}"), text.index("\nend of trees")
    (tmp_path / "model.txt").write_text(text[:first] + text[after:])
    with pytest.raises(ModelError, match=rf"model\.txt .*announces 6 trees, the file has {kept}"):
        rue.wrap(tmp_path / "model.txt")


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_an_xgboost_file_that_lost_trees_is_refused(tmp_path, suffix):
    X = table(100)
    booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(X, X[:, 0]), 6)
    document = json.loads(booster.save_raw("json"))
    del document["learner"]["gradient_booster"]["model"]["trees"][3:]
    content = json.dumps(document).encode()
    if suffix == "ubj":
        content = bytes(booster.save_raw("ubj")).replace(
            b"num_treesSL" + bytes(7) + b"\x016", b"num_treesSL" + bytes(7) + b"\x017"
        )
    (tmp_path / f"model.{suffix}").write_bytes(content)
    with pytest.raises(ModelError, match=rf"model\.{suffix} .*announces . trees, the file has ."):
        rue.wrap(tmp_path / f"model.{suffix}")


def test_an_error_names_the_file_and_the_tree(tmp_path):
    X = table(100)
    text = lightgbm.train(SMALL, lightgbm.Dataset(X, X[:, 0]), 3).model_to_string()
    head, middle, last = text.rpartition("left_child=")
    (tmp_path / "model.txt").write_text(head + middle + "0" + last[1:])
    with pytest.raises(ModelError, match=r"model\.txt .*tree 2"):
        rue.wrap(tmp_path / "model.txt")


@pytest.mark.parametrize("name", ["model.txt", "model.json", "model.ubj"])
def test_what_is_no_file_is_refused_at_once(tmp_path, name):
    import os

    os.mkfifo(tmp_path / name)  # reading it would wait for a writer
    with pytest.raises(ModelError, match="is no file"):
        rue.wrap(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(ModelError, match="is no file"):
        rue.wrap(tmp_path / name)


@pytest.mark.parametrize("name", ["model.txt", "model.json", "model.ubj"])
def test_a_large_file_that_begins_otherwise_is_not_read(tmp_path, name):
    with (tmp_path / name).open("wb") as file:
        file.truncate(2**40)  # takes no space
    with pytest.raises(ModelError, match=name):
        rue.wrap(tmp_path / name)
