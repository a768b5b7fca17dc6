"""Damaged and hostile tree files: each gives a model that can be audited, or an error of `rue`, and never hangs."""

import json
import random
import re
import signal
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

import rue
from rue.core.errors import RueError, RueWarning
from rue.models.trees.stored_tree import StoredTree
from tree_cases import table, targets

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

MUTATIONS = 120  # of each file
SECONDS = 2.0  # the most processor time that one file may take
ROWS = 40
NUMBERS = [
    b"-1",
    b"0",
    b"7",
    b"1e308",
    b"-1e308",
    b"nan",
    b"-inf",
    b"1e-320",
    b"2147483648",
    b"9" * 25,
    b"0.5",
    b"",
    b"x",
]
VALUES = [None, True, -1, 0, 7, 2**31, 2**63, 10**30, 1e308, float("nan"), float("inf"), "", "x", "-1", "9" * 25, "nan"]
VALUES += [[], {}, [[]], [None], ["x"], [1e308] * 3, [-1] * 3, {"a": 1}]
LENGTHS = [2**63 - 1, 2**40, 2**31, 1000, 0]


def _lightgbm(objective, target, **more):
    X = table(ROWS, missing=True)
    X[:, 3] = np.arange(ROWS) % 5
    settings = {"num_leaves": 4, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 3, "objective": objective, **more}
    data = lightgbm.Dataset(X, targets(X)[target], categorical_feature=[3])
    settings |= {"min_data_per_group": 1, "cat_smooth": 0.1, "cat_l2": 0.1, "max_cat_to_onehot": 1}
    return lightgbm.train(settings, data, 3).model_to_string().encode()


def _xgboost(kind, objective, target, **more):
    X = table(ROWS, missing=True)
    settings = {"max_depth": 2, "nthread": 1, "objective": objective, **more}
    booster = xgboost.train(settings, xgboost.DMatrix(X, targets(X)[target]), 3)
    return bytes(booster.save_raw(kind))


FILES = {
    "regression.txt": lambda: _lightgbm("regression", "number"),
    "binary.txt": lambda: _lightgbm("binary", "two"),
    "multiclass.txt": lambda: _lightgbm("multiclass", "three", num_class=3),
    "poisson.txt": lambda: _lightgbm("poisson", "count"),
    "number.json": lambda: _xgboost("json", "reg:squarederror", "number"),
    "softprob.json": lambda: _xgboost("json", "multi:softprob", "three", num_class=3),
    "gamma.json": lambda: _xgboost("json", "reg:gamma", "positive"),
    "number.ubj": lambda: _xgboost("ubj", "reg:squarederror", "number"),
    "logistic.ubj": lambda: _xgboost("ubj", "binary:logistic", "two"),
}
TARGETS = {"regression": "number", "binary": "two", "multiclass": "three", "poisson": "count", "softprob": "three"}
TARGETS |= {"gamma": "positive", "number": "number", "logistic": "two"}


def flip_bytes(data, draw):
    made = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        made[draw.randrange(len(made))] = draw.randrange(256)
    return bytes(made)


def truncate(data, draw):
    return data[: draw.randrange(len(data))]


def drop_span(data, draw):
    first = draw.randrange(len(data))
    return data[:first] + data[first + draw.randint(1, 60) :]


def repeat_span(data, draw):
    first = draw.randrange(len(data))
    last = first + draw.randint(1, 200)
    return data[:last] + data[first:last] * draw.choice([1, 3, 1000]) + data[last:]


def nest(data, draw):
    at = draw.randrange(len(data))
    return data[:at] + draw.choice([b"[", b"{", b'{"a":', b"[[1],", b"{L\0\0\0\0\0\0\0\1a"]) * 100_000 + data[at:]


def replace_number(data, draw):
    places = list(re.finditer(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?", data))
    place = draw.choice(places)
    return data[: place.start()] + draw.choice(NUMBERS) + data[place.end() :]


def drop_line(data, draw):
    lines = data.split(b"\n")
    del lines[draw.randrange(len(lines))]
    return b"\n".join(lines)


def swap_lines(data, draw):
    lines = data.split(b"\n")
    i, j = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def repeat_line(data, draw):
    lines = data.split(b"\n")
    i = draw.randrange(len(lines))
    lines[i:i] = [lines[i]] * draw.choice([1, 1000])
    return b"\n".join(lines)


def replace_value(data, draw):
    document = json.loads(data)
    where, key = draw.choice(list(_places(document)))
    where[key] = draw.choice(VALUES)
    return json.dumps(document).encode()


def drop_value(data, draw):
    document = json.loads(data)
    where, key = draw.choice(list(_places(document)))
    del where[key]
    return json.dumps(document).encode()


def _places(document):
    for key in document if isinstance(document, dict) else range(len(document)):
        yield document, key
        if isinstance(document[key], dict | list):
            yield from _places(document[key])


def replace_length(data, draw):
    places = [place.end() for place in re.finditer(rb"[L#]", data) if place.end() + 8 <= len(data)]
    at = draw.choice(places)
    length = draw.choice(LENGTHS) * draw.choice([1, -1])
    return data[:at] + length.to_bytes(8, "big", signed=True) + data[at + 8 :]


def replace_marker(data, draw):
    places = [place.start() for place in re.finditer(rb"[\[\]{}$#LSdlU]", data)]
    at = draw.choice(places)
    return (
        data[:at]
        + draw.choice([b"Z", b"T", b"[", b"{", b"$", b"#", b"L", b"S", b"D", b"H", b"C", b"N"])
        + data[at + 1 :]
    )


BYTES = [flip_bytes, truncate, drop_span, repeat_span, nest]
MUTATE = {
    "txt": [*BYTES, replace_number, replace_number, drop_line, swap_lines, repeat_line],
    "json": [*BYTES, replace_number, replace_number, replace_value, replace_value, replace_value, drop_value],
    "ubj": [*BYTES, flip_bytes, replace_length, replace_marker],
}


class TooLongError(BaseException):
    """A file took more than `SECONDS`. No handler of Exception may swallow it."""


@contextmanager
def limited(seconds):
    def stop(*_):
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def tried(path, X, y, *, audit):
    """The outputs of a file's model, and the scores of its audit where they are asked for; or the error of `rue`."""
    with limited(SECONDS), warnings.catch_warnings():
        warnings.simplefilter("ignore", RueWarning)
        try:
            model = rue.wrap(path)
            outputs = model.predict(model.theta, model.read(X)).numpy().ravel()
            scores = rue.LinearRUE().fit(model, (X, y)).audit(X[:5]).score if audit else []
            return np.concatenate([outputs, scores])
        except RueError as error:
            return error


@pytest.mark.parametrize("name", FILES)
def test_a_mutated_file_gives_finite_numbers_or_an_error_of_rue(tmp_path, name):
    stem, suffix = name.split(".")
    whole, X = FILES[name](), table(ROWS, missing=True)
    y = targets(X)[TARGETS[stem]]
    draw = random.Random(name)
    path = tmp_path / f"model.{suffix}"
    refused = 0
    for i in range(MUTATIONS):
        mutate = draw.choice(MUTATE[suffix])
        path.write_bytes(mutate(whole, draw))
        try:
            outcome = tried(path, X, y, audit=i % 4 == 0)
        except BaseException as error:
            pytest.fail(f"mutation {i} ({mutate.__name__}) of {name}: {error!r}")
        refused += isinstance(outcome, RueError)
        assert isinstance(outcome, RueError) or np.isfinite(outcome).all(), (i, mutate.__name__, outcome)
    assert refused > MUTATIONS / 5
    path.write_bytes(whole)
    assert not isinstance(tried(path, X, y, audit=True), RueError)


TWO_SPLITS = {
    "left": [1, -1],
    "right": [-2, -3],
    "feature": [0, 1],
    "threshold": [0.0, 1.0],
    "kind": [8, 2],
    "values": [1.0, 2.0, 3.0],
    "bounds": [0],
    "bits": [],
}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"left": [1]}, "differ in length"),
        ({"values": []}, "differ in length"),
        ({"values": [1.0, np.nan, 3.0]}, "leaf value"),
        ({"values": [1.0, 1e39, 3.0]}, "leaf value"),
        ({"threshold": [np.nan, 1.0]}, "threshold is no number"),
        ({"feature": [0, 2]}, "none of the 2 columns"),
        ({"feature": [-1, 0]}, "none of the 2 columns"),
        ({"kind": [12, 0]}, "unknown kind"),
        ({"kind": [-1, 0]}, "unknown kind"),
        ({"left": [0, -1]}, "before its parent"),
        ({"left": [1, 0]}, "before its parent"),
        ({"left": [1, 1]}, "before its parent"),
        ({"left": [2, -1]}, "not connected"),
        ({"left": [-1, -1]}, "not connected"),
        ({"right": [1, -3]}, "not connected"),
        ({"right": [-1, -3]}, "to one leaf, or to none"),
        ({"right": [-2, -4]}, "to one leaf, or to none"),
        ({"kind": [9, 2]}, "no set of categories"),
        ({"kind": [9, 2], "bounds": [0, 1], "bits": [5], "threshold": [0.5, 1.0]}, "no set of categories"),
        ({"kind": [9, 2], "bounds": [0, 1], "bits": [5], "threshold": [-1.0, 1.0]}, "no set of categories"),
        ({"kind": [9, 2], "bounds": [0, 1], "bits": [5], "threshold": [np.inf, 1.0]}, "no set of categories"),
        ({"bounds": [0, 2], "bits": [5]}, "do not follow"),
        ({"bounds": [1, 1], "bits": [5]}, "do not follow"),
        ({"bounds": [0, 2, 1, 3], "bits": [5, 5, 5]}, "do not follow"),
        ({"bounds": []}, "do not follow"),
    ],
)
def test_a_tree_whose_arrays_do_not_fit_is_refused(changes, match):
    with pytest.raises(ValueError, match=match):
        _stored(**changes)


def test_a_tree_whose_arrays_fit_is_walked():
    tree = _stored(kind=[9, 2], bounds=[0, 1], bits=[5])  # the categories 0 and 2 go left
    np.testing.assert_array_equal(
        tree.leaf(np.array([[0, 1.0], [2, 1.5], [1, 0], [np.nan, 0], [32, 0]])), [0, 2, 1, 1, 1]
    )
    alone = _stored(**{key: [] for key in ("left", "right", "feature", "threshold", "kind")}, values=[4.0])
    np.testing.assert_array_equal(alone.leaf(np.zeros((2, 2))), [0, 0])


def _stored(**changes):
    types = {"threshold": np.float64, "values": np.float64, "bits": np.uint32}
    parts = {**TWO_SPLITS, **changes}
    return StoredTree(
        **{name: np.array(part, dtype=types.get(name, np.int64)) for name, part in parts.items()}, width=2
    )
