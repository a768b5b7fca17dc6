"""Small model files of every format that is read, what damages them, and what came of reading a damaged one."""

import json
import random
import re
import resource
import signal
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import rue
from library_reading import LibraryReading
from rue.core.errors import RueError, RueWarning
from tree_cases import table, targets

SECONDS = 2.0  # the most processor time that one file may take
MEMORY = 2**30  # bytes, the most that reading one file may add to the process
TOLERANCE = {"txt": 1e-12, "json": 1e-5, "ubj": 1e-5}  # of raw scores, beside leaf values: XGBoost sums in float32
ROWS = 40
CORPUS = Path(__file__).parent / "attacks" / "corpus"  # files that once broke the reader, by format
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
    import lightgbm

    X = table(ROWS, missing=True)
    X[:, 3] = np.arange(ROWS) % 5
    settings = {"num_leaves": 4, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 3, "objective": objective, **more}
    data = lightgbm.Dataset(X, targets(X)[target], categorical_feature=[3])
    settings |= {"min_data_per_group": 1, "cat_smooth": 0.1, "cat_l2": 0.1, "max_cat_to_onehot": 1}
    return lightgbm.train(settings, data, 3).model_to_string().encode()


def _xgboost(kind, objective, target, **more):
    import xgboost

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
def limited(seconds: float = SECONDS, memory: int = MEMORY) -> Iterator[None]:
    """Stop what takes longer, and refuse memory to what takes more."""

    def stop(*_):
        raise TooLongError

    before, (soft, hard) = signal.signal(signal.SIGPROF, stop), resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory, hard))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def tried(path: Path, X: np.ndarray, y: np.ndarray, *, audit: bool) -> np.ndarray | RueError:
    """The outputs (n, k) of a file's model, after an audit where one is asked for; or the error of `rue`."""
    with limited(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RueWarning)
        try:
            model = rue.wrap(path)
            outputs = model.predict(model.theta, model.read(X)).numpy()
            if audit:
                assert np.isfinite(rue.LinearRUE().fit(model, (X, y)).audit(X[:5]).score).all()
            return outputs
        except RueError as error:
            return error


@dataclass
class Trial:
    """A format's readings, counted: each gives finite outputs, those of the library, or an error of `rue`."""

    suffix: str
    folder: Path
    library: LibraryReading
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0  # the worst

    def read(self, name: str, content: bytes, *, audit: bool) -> None:
        """Read one file; an AssertionError says what is wrong with the outcome."""
        X = table(ROWS, missing=True)
        path = self.folder / f"model.{self.suffix}"
        path.write_bytes(content)
        started = time.process_time()
        outcome = tried(path, X, targets(X)[TARGETS[name.split(".")[0]]], audit=audit)
        self.seconds = max(self.seconds, time.process_time() - started)
        if isinstance(outcome, RueError):
            assert path.name in str(outcome) or audit, f"no file is named: {outcome}"
            self.counts["refused"] += 1
            return
        self.counts["accepted"] += 1
        assert np.isfinite(outcome).all(), f"outputs are not finite: {outcome}"
        wanted = self.library.outputs(path, X)
        if wanted is not None:
            self.counts["compared"] += 1
            scale = max(1.0, np.abs(outcome).max(), float(np.abs(rue.wrap(path).core.ensemble.values).max()))
            np.testing.assert_allclose(outcome, wanted, rtol=0, atol=TOLERANCE[self.suffix] * scale)

    def mutate(self, count: int, seed: int = 0) -> None:
        """Read so many damaged files, in turn of each sample of this format."""
        samples = {name: make() for name, make in FILES.items() if name.endswith(self.suffix)}
        for i in range(count):
            name = list(samples)[i % len(samples)]
            draw = random.Random(f"{name} {seed} {i}")
            mutate = draw.choice(MUTATE[self.suffix])
            content = mutate(samples[name], draw)
            try:
                self.read(name, content, audit=i % 40 == 0)
            except BaseException as error:
                found = self.folder / f"{name.split('.')[0]}-{mutate.__name__}-{i}.{self.suffix}"
                found.write_bytes(content)
                raise AssertionError(f"{mutate.__name__} of {name}, kept as {found}: {error!r}") from error
