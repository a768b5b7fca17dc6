"""What is done after and around the fit: weights, held-out rows, decisions, explanations, reports, surroundings."""

import copy
import gc
import pickle
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor
from torch import nn

import rue
from attacks.attack import Attack, Refused, Right, Warned
from rue.core.errors import DataError, InputError, ModelError, RueError, SettingError, ShapeError

N, HELD, NEW = 160, 60, 20
COLUMNS = ["age", "dose", "pressure"]


@cache
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Standardised rows, a number and a class for each: 160 to train on, 60 held out, 20 new."""
    source = np.random.default_rng(11)
    X = source.normal(size=(N + HELD + NEW, 3))
    y = X @ [2.0, -1.0, 0.5] + 0.3 * np.sin(2 * X[:, 0]) + 0.5 * source.normal(size=len(X))
    labels = (X @ [1.5, -1.0, 0.0] + source.normal(size=len(X)) > 0).astype(int)
    return X, y, labels


def train() -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = table()
    return X[:N].copy(), y[:N].copy()


def held() -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = table()
    return X[N : N + HELD].copy(), y[N : N + HELD].copy()


def new() -> np.ndarray:
    return table()[0][N + HELD :].copy()


def classes(part: slice) -> np.ndarray:
    return table()[2][part].copy()


TRAIN, HELD_ROWS = slice(0, N), slice(N, N + HELD)


@cache
def ridge() -> Ridge:
    return Ridge(alpha=1.0).fit(*train())


@cache
def logistic() -> LogisticRegression:
    return LogisticRegression().fit(train()[0], classes(TRAIN))


@cache
def network() -> nn.Module:
    X, y = map(torch.tensor, train())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
    with torch.enable_grad():
        for _ in range(200):
            optimizer.zero_grad()
            (net(X)[:, 0] - y).square().mean().backward()
            optimizer.step()
    return net.eval()


@cache
def auditor() -> rue.Auditor:
    """The calibrated audit of the ridge regression: what most attacks are made on."""
    return rue.CalibratedRUE().fit(rue.wrap(ridge()), train())


@cache
def linear() -> rue.Auditor:
    return rue.LinearRUE().fit(rue.wrap(ridge()), train())


@cache
def of_classes() -> rue.Auditor:
    return rue.ClassifierRUE().fit(rue.wrap(logistic()), (train()[0], classes(TRAIN)))


@cache
def calibrated() -> rue.Auditor:
    return auditor().calibrate(*held())


@cache
def sure_of_classes() -> rue.Auditor:
    return of_classes().calibrate(held()[0], classes(HELD_ROWS))


@cache
def audit() -> rue.Audit:
    return auditor().audit(new())


@cache
def policy() -> rue.Policy:
    return rue.Policy.by_share(auditor().audit(held()[0]), share=0.3)


def sandwich(X, y, X_new, alpha, weight=None, unit=None) -> np.ndarray:
    """Resampling deviations of a ridge regression by plain linear algebra."""
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, float)
    unit = np.arange(len(X)) if unit is None else np.asarray(unit)
    Z, Z_new = np.column_stack([X, np.ones(len(X))]), np.column_stack([X_new, np.ones(len(X_new))])
    H = Z.T @ (weight[:, None] * Z) + np.diag([alpha] * X.shape[1] + [0.0])
    theta = np.linalg.solve(H, Z.T @ (weight * y))
    each = (weight * (y - Z @ theta))[:, None] * Z
    units = np.stack([each[unit == u].sum(0) for u in np.unique(unit)])
    B = Z_new @ np.linalg.solve(H, units.T)
    return np.sqrt(np.square(B - B.mean(1, keepdims=True)).sum(1))


def same_std(wanted: Callable[[], np.ndarray], rtol: float = 1e-6) -> Callable[[rue.Audit], None]:
    return lambda found: np.testing.assert_allclose(found.std, wanted(), rtol=rtol)


def same(wanted: Callable[[], rue.Audit], rtol: float = 1e-9) -> Callable[[rue.Audit], None]:
    def check(found: rue.Audit) -> None:
        np.testing.assert_allclose(found.prediction, wanted().prediction, rtol=rtol)
        np.testing.assert_allclose(found.score, wanted().score, rtol=rtol)

    return check


def true(what: Callable[[Any], Any]) -> Callable[[Any], None]:
    def check(found: Any) -> None:
        assert what(found), found

    return check


def green(found: rue.Audit) -> None:
    assert found.facts["warnings"] in ([], ()), found.facts["warnings"]


# ------------------------------------------------------------------------------------------ weights and groups


def weighted(weight, model=None, data=None, method=None, group=None, trained_with=None) -> rue.Audit:
    X, y = data or train()
    model = Ridge(alpha=1.0) if model is None else model
    model.fit(X, y, sample_weight=weight if trained_with is None else trained_with)
    method = rue.LinearRUE() if method is None else method
    return method.fit(rue.wrap(model), rue.Data(X, y, weight=weight, group=group)).audit(new())


COUNTS = np.random.default_rng(2).integers(0, 4, N)
MOST_ZERO = (np.arange(N) % 10 == 0).astype(float)


def repeated() -> rue.Audit:
    """Rows really repeated, each with its copies in one group."""
    X, y = train()
    rows = np.repeat(np.arange(N), COUNTS)
    model = rue.wrap(Ridge(alpha=1.0).fit(X[rows], y[rows]))
    return rue.LinearRUE().fit(model, rue.Data(X[rows], y[rows], group=rows)).audit(new())


def grouped(group, X=None, method=None) -> rue.Audit:
    method = method or rue.LinearRUE()
    return method.fit(rue.wrap(ridge()), rue.Data(train()[0] if X is None else X, train()[1], group=group)).audit(new())


def by_index() -> rue.Audit:
    X = pd.DataFrame(train()[0], columns=COLUMNS)
    group = pd.Series(np.arange(N) // 4).sample(frac=1, random_state=0)
    model = Ridge().fit(X, train()[1])
    return (
        rue.LinearRUE()
        .fit(rue.wrap(model), rue.Data(X, train()[1], group=group))
        .audit(pd.DataFrame(new(), columns=COLUMNS))
    )


def copies_across_groups() -> rue.Audit:
    X, y = (np.concatenate([part[:60], part[:60]]) for part in train())
    group = np.arange(120) // 2
    return rue.CalibratedRUE().fit(rue.wrap(Ridge().fit(X, y)), rue.Data(X, y, group=group)).audit(new())


def class_by_group() -> rue.Audit:
    X, labels = train()[0], classes(TRAIN)
    data = rue.Data(X, labels, group=labels)
    return rue.audit(logistic(), train=data, inputs=new(), left_out=rue.left_out.Folds(4))


def a_tenth() -> rue.Audit:
    X, y = train()[0][::10], train()[1][::10]
    return rue.CalibratedRUE().fit(rue.wrap(Ridge().fit(X, y)), (X, y)).audit(new())


def scaled_weights(factor: float) -> rue.Audit:
    return weighted(np.full(N, factor), LinearRegression(), method=rue.CalibratedRUE())


WEIGHTS = [
    Attack(
        "Whole numbers are given as weights for repetitions",
        lambda: weighted(COUNTS),
        Right("linear algebra of the weighted regression", same_std(lambda: sandwich(*train(), new(), 1.0, COUNTS))),
    ),
    Attack(
        "Rows are really repeated, and grouped by what they are copies of",
        repeated,
        Right(
            "linear algebra of the regression of rows with counts as weights",
            same_std(
                lambda: sandwich(train()[0][COUNTS > 0], train()[1][COUNTS > 0], new(), 1.0, COUNTS[COUNTS > 0]), 1e-5
            ),
        ),
    ),
    Attack(
        "All weights are a million, in training too",
        lambda: weighted(np.full(N, 1e6)),
        Right("linear algebra", same_std(lambda: sandwich(*train(), new(), 1.0, np.full(N, 1e6)), 1e-5)),
    ),
    Attack(
        "All weights are 1e-8, in training too, so that the penalty decides everything",
        lambda: weighted(np.full(N, 1e-8)),
        Right("linear algebra", same_std(lambda: sandwich(*train(), new(), 1.0, np.full(N, 1e-8)), 1e-4)),
    ),
    Attack(
        "All weights of a regression without penalty are a billion",
        lambda: scaled_weights(1e9),
        Right("the audit with weights of one", same(lambda: scaled_weights(1.0), 1e-3)),
    ),
    Attack(
        "All weights of a regression without penalty are a billionth",
        lambda: scaled_weights(1e-9),
        Right("the audit with weights of one", same(lambda: scaled_weights(1.0), 1e-3)),
    ),
    Attack(
        "Nine of ten rows have weight zero",
        lambda: weighted(MOST_ZERO),
        Right(
            "linear algebra of the rows that have weight",
            same_std(lambda: sandwich(train()[0][::10], train()[1][::10], new(), 1.0), 0.1),
        ),
    ),
    Attack(
        "Nine of ten rows have weight zero in a calibrated audit",
        lambda: weighted(MOST_ZERO, method=rue.CalibratedRUE()),
        Right(
            "the audit of the rows that have weight, within a fifth",
            lambda found: np.testing.assert_allclose(np.median(found.total_std / a_tenth().total_std), 1, atol=0.2),
        ),
    ),
    Attack(
        "All but one row have weight zero",
        lambda: weighted((np.arange(N) == 3).astype(float)),
        Refused(DataError, "."),
    ),
    Attack(
        "All but one group have weight zero",
        lambda: weighted((np.arange(N) < 10).astype(float), group=np.arange(N) // 10),
        Refused(DataError, "."),
    ),
    Attack(
        "A weight is infinite",
        lambda: grouped_weight(np.where(np.arange(N) == 5, np.inf, 1.0)),
        Refused(DataError, "finite"),
    ),
    Attack("Weights are a column of one", lambda: grouped_weight(np.ones((N, 1))), Refused(ShapeError, "weight")),
    Attack(
        "Weights are true for rows that were trained on and false for others",
        lambda: weighted(MOST_ZERO.astype(bool), trained_with=MOST_ZERO),
        Right("the audit with ones and zeros", same(lambda: weighted(MOST_ZERO))),
    ),
    Attack(
        "Every row is a group of its own",
        lambda: grouped(np.arange(N)[::-1]),
        Right("linear algebra without groups", same_std(lambda: sandwich(*train(), new(), 1.0))),
    ),
    Attack(
        "Groups are words, and unsorted",
        lambda: grouped(np.array([f"p{17 * i % 40}" for i in range(N)])),
        Right(
            "linear algebra of the groups",
            same_std(lambda: sandwich(*train(), new(), 1.0, unit=[17 * i % 40 for i in range(N)])),
        ),
    ),
    Attack(
        "Groups are a Series whose index is in another order than that of the rows",
        by_index,
        Refused(DataError, "index"),
    ),
    Attack("Groups are a column of one", lambda: grouped((np.arange(N) // 4)[:, None]), Refused(ShapeError, "group")),
    Attack("The groups are the name of a column", lambda: grouped("age"), Refused(RueError, "group")),
    Attack("Every row is there twice, and groups do not keep copies together", copies_across_groups, Warned("group")),
    Attack(
        "There are two groups, each of one class, and four copies are asked for",
        class_by_group,
        Refused(SettingError, "groups"),
    ),
]


def grouped_weight(weight) -> rue.Audit:
    return rue.LinearRUE().fit(rue.wrap(ridge()), rue.Data(*train(), weight=weight)).audit(new())


# ------------------------------------------------------------------------------------------ validation, refit, left out


class Box:
    """A model of the user's own: what is inside is fitted, and predicts."""

    def __init__(self, inside: Any):
        self.inside = inside

    def fit(self, X, y):
        self.inside.fit(X, y)
        return self

    def predict(self, X):
        return self.inside.predict(X)


@cache
def tree() -> Box:
    return Box(DecisionTreeRegressor(random_state=0)).fit(*train())


def refitted(refit, model=None, **told) -> rue.Audit:
    return rue.audit(tree() if model is None else model, train=train(), inputs=new(), refit=refit, **told)


def on_all_rows(rows):
    return Box(DecisionTreeRegressor(random_state=0)).fit(*train())


def on_the_first(rows):
    return Box(DecisionTreeRegressor(random_state=0)).fit(train()[0][: len(rows)], train()[1][: len(rows)])


def in_place() -> rue.Audit:
    """The audited object itself is fitted again and handed back."""
    X, y = train()
    model = Box(KNeighborsRegressor(3)).fit(X, y)
    before = model.predict(new())
    found = rue.audit(model, train=(X, y), inputs=new(), refit=lambda rows: model.fit(X[rows], y[rows]))
    np.testing.assert_array_equal(found.prediction, before)
    return found


def one_object() -> rue.Audit:
    """All copies are one object, fitted again and again."""
    X, y = train()
    model, other = Box(KNeighborsRegressor(3)).fit(X, y), Box(KNeighborsRegressor(3))
    return rue.audit(model, train=(X, y), inputs=new(), refit=lambda rows: other.fit(X[rows], y[rows]))


def fresh_objects() -> rue.Audit:
    X, y = train()
    model = Box(KNeighborsRegressor(3)).fit(X, y)
    return rue.audit(
        model, train=(X, y), inputs=new(), refit=lambda rows: Box(KNeighborsRegressor(3)).fit(X[rows], y[rows])
    )


def changes_rows() -> rue.Audit:
    X, y = train()
    model = Box(KNeighborsRegressor(3)).fit(X, y)

    def refit(rows):
        nonlocal y
        y *= 2
        return Box(KNeighborsRegressor(3)).fit(X[rows], y[rows])

    return rue.audit(model, train=(X, y), inputs=new(), refit=refit)


def in_time(order, count=4, group=None) -> rue.Audit:
    data = rue.Data(*train(), group=group) if group is not None else train()
    return rue.audit(ridge(), train=data, inputs=new(), left_out=rue.left_out.Folds(count, order=order))


def shuffled_in_time() -> rue.Audit:
    X, y = train()
    mixed = np.random.default_rng(0).permutation(N)
    return rue.audit(ridge(), train=(X[mixed], y[mixed]), inputs=new(), left_out=rue.left_out.Folds(4, order=mixed))


def validated(X, y, model=None, data=None) -> rue.Audit:
    return rue.audit(model or ridge(), train=data or train(), inputs=new(), validation=(X, y))


def untrained() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1)).double()


def kept_in_a_file() -> rue.Audit:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept"
        path.write_text("mine")
        try:
            return rue.audit(ridge(), train=train(), inputs=new(), left_out=rue.left_out.Folds(3, keep=path))
        finally:
            assert path.read_text() == "mine"


def damaged_keep() -> rue.Audit:
    with tempfile.TemporaryDirectory() as folder:
        rue.audit(ridge(), train=train(), inputs=new(), left_out=rue.left_out.Folds(3, keep=folder))
        for path in Path(folder).rglob("*"):
            if path.is_file():
                path.write_bytes(path.read_bytes()[:20])
        return rue.audit(ridge(), train=train(), inputs=new(), left_out=rue.left_out.Folds(3, keep=folder))


def folds(count, rows=N, **told) -> rue.Audit:
    X, y = train()
    X, y = X[:rows], y[:rows]
    return rue.audit(Ridge().fit(X, y), train=(X, y), inputs=new(), left_out=rue.left_out.Folds(count, **told))


LEFT_OUT = [
    Attack("Validation rows are the training rows of a tree", lambda: validated(*train()), Refused(DataError, "train")),
    Attack(
        "Validation rows are the training rows in single precision",
        lambda: validated(train()[0].astype(np.float32), train()[1].astype(np.float32)),
        Refused(DataError, "train"),
    ),
    Attack(
        "Half of the validation rows are training rows",
        lambda: validated(*(np.concatenate([a[:30], b[:30]]) for a, b in zip(train(), held(), strict=True))),
        Refused(DataError, "train"),
    ),
    Attack("Validation targets are in other units", lambda: validated(held()[0], 1000 * held()[1]), Warned(".")),
    Attack("Validation targets are in another order", lambda: validated(held()[0], held()[1][::-1]), Warned(".")),
    Attack(
        "A validation target is missing",
        lambda: validated(held()[0], np.where(np.arange(HELD) == 2, np.nan, held()[1])),
        Refused(DataError, "."),
    ),
    Attack(
        "Validation rows have a column less", lambda: validated(held()[0][:, :2], held()[1]), Refused(RueError, ".")
    ),
    Attack(
        "Validation labels have a class that training had not",
        lambda: validated(held()[0], classes(HELD_ROWS) + 1, logistic(), (train()[0], classes(TRAIN))),
        Refused(DataError, "class|label|target"),
    ),
    Attack(
        "refit trains on all rows, whatever it is given",
        lambda: refitted(on_all_rows),
        Refused(ModelError, "exactly what the audited model says"),
    ),
    Attack(
        "refit trains on the first rows instead of those it is given",
        lambda: refitted(on_the_first),
        Warned("not trained as the model was"),
    ),
    Attack(
        "refit returns the audited model itself, as it is",
        lambda: refitted(lambda _: tree()),
        Refused(ModelError, "audited model itself"),
    ),
    Attack("refit fits the audited model itself again and returns it", in_place, Refused(ModelError, "refit")),
    Attack(
        "refit returns one and the same object, fitted again for each fold",
        one_object,
        Right("the audit with a new object for each fold", same(fresh_objects)),
    ),
    Attack(
        "refit returns a classifier for a regression",
        lambda: refitted(lambda _: logistic()),
        Warned("not trained as the model was"),
    ),
    Attack(
        "refit returns predictions instead of a model",
        lambda: refitted(lambda _: train()[1]),
        Refused(DataError, "predict"),
    ),
    Attack(
        "refit returns a class and not an object of it",
        lambda: refitted(lambda _: Box),
        Refused(DataError, "predict"),
    ),
    Attack("refit changes the targets in place", changes_rows, Refused(DataError, "not what they were")),
    Attack(
        "Copies of a network are asked for by refit=True",
        lambda: rue.audit(network(), train=train(), inputs=new(), loss=nn.MSELoss(), refit=True),
        Refused(SettingError, "refit"),
    ),
    Attack(
        "More folds are asked for than there are rows", lambda: folds(500, rows=40), Refused(SettingError, "give fewer")
    ),
    Attack("The number of folds is a fraction", lambda: folds(2.5), Refused(SettingError, "count")),
    Attack("The times of folds have another length", lambda: in_time(np.arange(N - 1)), Refused(ShapeError, ".")),
    Attack(
        "A time of folds is missing",
        lambda: in_time(pd.Series(pd.date_range("2020", periods=N)).where(np.arange(N) != 4)),
        Refused(SettingError, "missing"),
    ),
    Attack("All times of folds are equal", lambda: in_time(np.zeros(N)), Refused(RueError, ".")),
    Attack(
        "Times of folds are dates written as day, month, year",
        lambda: in_time(np.array([f"{i % 28 + 1:02d}.{i // 28 + 1:02d}.2020" for i in range(N)])),
        Refused(RueError, "."),
    ),
    Attack(
        "Rows in time are shuffled, with their times beside them",
        shuffled_in_time,
        Right("the audit of the rows in their order", same(lambda: in_time(np.arange(N)), 1e-6)),
    ),
    Attack(
        "Groups stretch over the whole time that folds are ordered by",
        lambda: in_time(np.arange(N), group=np.arange(N) % 8),
        Refused(RueError, "group"),
    ),
    Attack(
        "Influence is asked of neighbours, which have no parameters",
        lambda: rue.audit(
            KNeighborsRegressor().fit(*train()), train=train(), inputs=new(), left_out=rue.left_out.Influence()
        ),
        Refused(RueError, "."),
    ),
    Attack(
        "Influence is asked of a network that was never trained",
        lambda: rue.audit(
            untrained(), train=train(), inputs=new(), loss=nn.MSELoss(), left_out=rue.left_out.Influence()
        ),
        Warned("."),
    ),
    Attack(
        "The penalty of the linearised model is negative",
        lambda: rue.audit(
            network(), train=train(), inputs=new(), loss=nn.MSELoss(), left_out=rue.left_out.Linearised(l2=-1.0)
        ),
        Refused(SettingError, "l2"),
    ),
    Attack("Left-out predictions are to be kept in what is a file", kept_in_a_file, Refused(RueError, ".")),
    Attack(
        "Kept predictions of copies were cut off",
        damaged_keep,
        Right("the audit without a folder", same(lambda: folds(3), 1e-9)),
    ),
    Attack("No copy may be trained at a time", lambda: folds(3, jobs=0), Refused(SettingError, "jobs")),
]

# ------------------------------------------------------------------------------------------ calibration


def endless(found: rue.Interval) -> None:
    assert np.isinf(found.upper).all()
    assert np.isinf(found.lower).all()


def few(count: int, level: float = 0.9) -> rue.Interval:
    X, y = held()
    return auditor().calibrate(X[:count], y[:count]).audit(new()).interval(level)


def conformal(found: rue.Interval) -> None:
    """Split conformal by hand: ranks of held-out errors over what the first audit expects."""
    X, y = held()
    at = auditor().audit(X)
    ratio = np.sort(abs(y - at.prediction) / at.total_std)
    width = ratio[int(np.ceil(0.9 * (HELD + 1))) - 1] * audit().total_std
    np.testing.assert_allclose(found.upper, audit().prediction + width, rtol=1e-6)
    np.testing.assert_allclose(found.lower, audit().prediction - width, rtol=1e-6)


def by_column() -> rue.Interval:
    X = pd.DataFrame(train()[0], columns=COLUMNS)
    at = rue.CalibratedRUE().fit(rue.wrap(Ridge().fit(X, train()[1])), (X, train()[1]))
    held_out = pd.DataFrame(held()[0], columns=COLUMNS)[COLUMNS[::-1]]
    return at.calibrate(held_out, held()[1]).audit(pd.DataFrame(new(), columns=COLUMNS)).interval(0.9)


GROUP = np.where(np.arange(HELD) % 2, "a", "b")


def by_group() -> rue.Audit:
    return auditor().calibrate(*held(), GROUP).audit(new())


def jittered(part, size) -> np.ndarray:
    return part + size * np.random.default_rng(1).normal(size=part.shape)


CALIBRATION = [
    Attack(
        "One row is held out, and an interval of 90 % asked for",
        lambda: few(1),
        Right("nothing short of everything holds the level", endless),
    ),
    Attack(
        "Five rows are held out, and an interval of 90 % asked for",
        lambda: few(5),
        Right("nothing short of everything holds the level", endless),
    ),
    Attack(
        "Sixty rows are held out, and an interval of 99.9 % asked for",
        lambda: few(60, 0.999),
        Right("nothing short of everything holds the level", endless),
    ),
    Attack(
        "Intervals by sixty held-out rows",
        lambda: calibrated().audit(new()).interval(0.9),
        Right("ranks of held-out errors by hand", conformal),
    ),
    Attack(
        "An auditor is calibrated, and calibrated again by the same rows",
        lambda: calibrated().calibrate(*held()).audit(new()).interval(0.9),
        Right("ranks of held-out errors by hand", conformal),
    ),
    Attack(
        "An auditor is calibrated by other rows first",
        lambda: auditor().calibrate(held()[0][:20], 3 * held()[1][:20]).calibrate(*held()).audit(new()).interval(0.9),
        Right("ranks of held-out errors by hand", conformal),
    ),
    Attack(
        "The calibrated auditor is thrown away, and the first one used",
        lambda: (auditor().calibrate(*held()), auditor().audit(new()))[1],
        Right("the audit before", same(audit)),
    ),
    Attack(
        "Held-out rows have their columns in another order",
        by_column,
        Right("ranks of held-out errors by hand", conformal),
    ),
    Attack(
        "Held-out targets are a column of one",
        lambda: auditor().calibrate(held()[0], held()[1][:, None]).audit(new()).interval(0.9),
        Right("ranks of held-out errors by hand", conformal),
    ),
    Attack(
        "Held-out rows and targets are in another order, both alike",
        lambda: auditor().calibrate(held()[0][::-1], held()[1][::-1]).audit(new()).interval(0.9),
        Right("ranks of held-out errors by hand", conformal),
    ),
    Attack(
        "Held-out targets are in other units",
        lambda: auditor().calibrate(held()[0], 1000 * held()[1]).audit(new()),
        Warned("."),
    ),
    Attack(
        "Held-out targets are in another order",
        lambda: auditor().calibrate(held()[0], held()[1][::-1]).audit(new()),
        Warned("."),
    ),
    Attack(
        "Held-out rows come from far outside of the training rows",
        lambda: auditor().calibrate(held()[0] + 50, held()[1] + 75).audit(new()),
        Warned("."),
    ),
    Attack(
        "One held-out row is there sixty times",
        lambda: auditor().calibrate(np.repeat(held()[0][:1], 60, 0), np.repeat(held()[1][:1], 60)).audit(new()),
        Warned("cop|same|twice|equal"),
    ),
    Attack(
        "Held-out rows are there five times each",
        lambda: auditor().calibrate(np.repeat(held()[0], 5, 0), np.repeat(held()[1], 5)).audit(new()),
        Warned("cop|same|twice|equal"),
    ),
    Attack(
        "Held-out rows are training rows in single precision",
        lambda: auditor().calibrate(train()[0].astype(np.float32), train()[1]),
        Refused(DataError, "train"),
    ),
    Attack(
        "Held-out rows are training rows moved by 1e-12",
        lambda: auditor().calibrate(jittered(train()[0], 1e-12), train()[1]),
        Refused(DataError, "train"),
    ),
    Attack(
        "Held-out rows are training rows rounded to four digits",
        lambda: auditor().calibrate(train()[0].round(4), train()[1]),
        Refused(DataError, "train"),
    ),
    Attack("No rows are held out", lambda: auditor().calibrate(held()[0][:0], held()[1][:0]), Refused(DataError, ".")),
    Attack(
        "A held-out target is missing",
        lambda: auditor().calibrate(held()[0], np.where(np.arange(HELD) == 1, np.nan, held()[1])),
        Refused(DataError, "."),
    ),
    Attack(
        "Held-out targets are numbers written as text",
        lambda: auditor().calibrate(held()[0], held()[1].astype(str)).audit(new()).interval(0.9),
        Right("ranks of held-out errors by hand", conformal),
    ),
    Attack(
        "Held-out groups have another length",
        lambda: auditor().calibrate(*held(), GROUP[:-1]),
        Refused(ShapeError, "group"),
    ),
    Attack(
        "An audited row is of a group that was not held out",
        lambda: by_group().interval(0.9, group=np.repeat("c", NEW)),
        Right("nothing short of everything holds the level", endless),
    ),
    Attack(
        "Held-out rows had groups, and the audited rows have none",
        lambda: by_group().interval(0.9),
        Right("ranks of held-out errors by hand", conformal),
    ),
    Attack(
        "One group is named for twenty audited rows",
        lambda: by_group().interval(0.9, group="a"),
        Refused(RueError, "group"),
    ),
    Attack(
        "A group has four held-out rows",
        lambda: auditor().calibrate(*held(), np.arange(HELD) // 4).audit(new()).interval(0.9, group=np.zeros(NEW, int)),
        Right("nothing short of everything holds the level", endless),
    ),
    Attack(
        "Held-out rows of a classifier are of one class",
        lambda: of_classes().calibrate(*one_class()).audit(new()),
        Warned("class"),
    ),
    Attack(
        "Held-out labels are words where training had numbers",
        lambda: of_classes().calibrate(held()[0], np.where(classes(HELD_ROWS) > 0, "yes", "no")),
        Refused(DataError, "."),
    ),
    Attack(
        "Held-out labels have a class that training had not",
        lambda: of_classes().calibrate(held()[0], classes(HELD_ROWS) + 1),
        Refused(DataError, "."),
    ),
    Attack(
        "Held-out labels are swapped, yes for no",
        lambda: of_classes().calibrate(held()[0], 1 - classes(HELD_ROWS)).audit(new()),
        Warned("."),
    ),
    Attack(
        "A set of classes is asked for without held-out rows",
        lambda: of_classes().audit(new()).prediction_set(0.9),
        Refused(RueError, "calibrate"),
    ),
]


def one_class() -> tuple[np.ndarray, np.ndarray]:
    chosen = classes(HELD_ROWS) == 1
    return held()[0][chosen], classes(HELD_ROWS)[chosen]


LEVELS = [
    *(
        Attack(
            f"The level of an interval is {what}",
            lambda level=level: audit().interval(level),
            Refused(SettingError, "level"),
        )
        for what, level in {
            "zero": 0.0,
            "one": 1.0,
            "negative": -0.9,
            "NaN": float("nan"),
            "a word": "0.9",
            "two levels": np.array([0.5, 0.9]),
            "true": True,
            "None": None,
        }.items()
    ),
    *(
        Attack(
            f"The level of a set of classes is {what}",
            lambda level=level: sure_of_classes().audit(new()).prediction_set(level),
            Refused(SettingError, "level"),
        )
        for what, level in {"ninety": 90, "two levels": [0.5, 0.9], "one": 1, "NaN": float("nan")}.items()
    ),
    Attack(
        "The rule of an interval is a number", lambda: audit().interval(0.9, by=1), Refused(SettingError, "interval")
    ),
]

# ------------------------------------------------------------------------------------------ decisions

WRONG = rue.policy.Exceeds(0.5)


def held_audit() -> rue.Audit:
    return auditor().audit(held()[0])


def by_risk(loss=WRONG, y=None, at=None, risk=0.1) -> rue.Policy:
    return rue.Policy.by_risk(held_audit() if at is None else at, held()[1] if y is None else y, loss, risk=risk)


class Own:
    """A loss of the user's own: any function of prediction and target."""

    binary = True

    def __init__(self, what):
        self.what = what

    def __call__(self, prediction, y):
        return self.what(prediction, y)

    def __str__(self):
        return "a loss of one's own"


def other_units() -> rue.Audit:
    X, y = train()
    return rue.CalibratedRUE().fit(rue.wrap(Ridge().fit(X, 1000 * y)), (X, 1000 * y)).audit(new())


def crps_like(prediction, y):
    return 3 * (abs(prediction - y) > 0.5).astype(float)


DECISIONS = [
    Attack(
        "A policy is chosen on the training rows",
        lambda: by_risk(y=train()[1], at=auditor().audit(train()[0])),
        Warned("train"),
    ),
    Attack(
        "A policy is chosen on held-out rows that are there ten times each",
        lambda: by_risk(y=np.repeat(held()[1], 10), at=auditor().audit(np.repeat(held()[0], 10, 0))),
        Warned("cop|same|twice|equal"),
    ),
    Attack(
        "A policy of one model decides for another model in other units",
        lambda: policy().decide(other_units()),
        Refused(RueError, "."),
    ),
    Attack(
        "A policy of one method decides for another method",
        lambda: policy().decide(linear().audit(new())),
        Refused(RueError, "."),
    ),
    Attack(
        "A policy chosen before calibration decides after it",
        lambda: policy().decide(auditor().calibrate(held()[0], 4 * held()[1]).audit(new())),
        Refused(RueError, "."),
    ),
    Attack(
        "A policy decides for scores without an audit",
        lambda: policy().decide(audit().score),
        Refused(InputError, "audit"),
    ),
    Attack(
        "A policy decides for the table of an audit",
        lambda: policy().decide(audit().to_frame()).tier.tolist(),
        Right("the decision for the audit itself", true(lambda tiers: tiers == policy().decide(audit()).tier.tolist())),
    ),
    Attack(
        "A policy is pickled and decides elsewhere",
        lambda: pickle.loads(pickle.dumps(policy())).decide(audit()).tier.tolist(),
        Right(
            "comparison with the threshold by hand",
            true(
                lambda tiers: (
                    [tier == "accept" for tier in tiers]
                    == ((audit().score <= policy().threshold) & ~audit().scarce).tolist()
                )
            ),
        ),
    ),
    Attack(
        "A policy decides for one row",
        lambda: policy().decide(auditor().audit(new()[:1])).tier.tolist(),
        Right(
            "the decision among twenty rows", true(lambda tiers: tiers == policy().decide(audit()).tier[:1].tolist())
        ),
    ),
    Attack(
        "Targets of a policy are a column of one",
        lambda: by_risk(y=held()[1][:, None]),
        Right("the policy of the same targets", true(lambda found: found.threshold == by_risk().threshold)),
    ),
    *(
        Attack(
            f"A share of reviews is {what}",
            lambda share=share: rue.Policy.by_share(held_audit(), share=share),
            Refused(SettingError, "share"),
        )
        for what, share in {
            "given in per cent": 20,
            "NaN": float("nan"),
            "negative": -0.2,
            "a word": "0.2",
            "zero": 0.0,
        }.items()
    ),
    *(
        Attack(
            f"A cost is {what}",
            lambda error=error, review=review: rue.Policy.by_cost(
                held_audit(), held()[1], WRONG, error=error, review=review
            ),
            Refused(SettingError, "cost"),
        )
        for what, (error, review) in {
            "NaN": (float("nan"), 1.0),
            "infinite": (float("inf"), 1.0),
            "nothing for a review": (10.0, 0.0),
        }.items()
    ),
    Attack(
        "A confidence is given in per cent",
        lambda: rue.Policy.by_error_rate(held_audit(), held()[1], WRONG, rate=0.2, confidence=95),
        Refused(SettingError, "confidence"),
    ),
    Attack("A tolerance is NaN", lambda: rue.policy.Exceeds(float("nan")), Refused(SettingError, "tolerance")),
    Attack(
        "A limit of clipped losses is infinite",
        lambda: by_risk(rue.policy.Clipped(float("inf"))),
        Refused(SettingError, "limit"),
    ),
    Attack(
        "A loss of a policy is a plain function",
        lambda: by_risk(lambda prediction, y: (abs(prediction - y) > 0.5).astype(float)),
        Refused(RueError, "binary"),
    ),
    Attack("A loss of a policy goes beyond one", lambda: by_risk(Own(crps_like)), Refused(RueError, ".")),
    Attack(
        "A loss of a policy says it is binary and is not",
        lambda: by_risk(Own(lambda p, y: np.minimum(abs(p - y), 1))),
        Refused(RueError, "."),
    ),
    Attack(
        "A loss of a policy is NaN for a row",
        lambda: by_risk(Own(lambda p, _: np.where(p == p.max(), np.nan, 0.0))),
        Refused(RueError, "."),
    ),
    Attack(
        "A loss of a policy returns one number",
        lambda: by_risk(Own(lambda p, y: float(np.mean(abs(p - y) > 0.5)))),
        Refused(RueError, "."),
    ),
    Attack(
        "A loss of a policy compares every row with every other",
        lambda: by_risk(Own(lambda p, y: (abs(p[:, None] - y[None]) > 0.5).astype(float))),
        Refused(RueError, "."),
    ),
    Attack("Wrong classes are counted in a regression", lambda: by_risk(rue.policy.Wrong()), Refused(RueError, ".")),
    Attack(
        "A tolerance of a half is asked of labels that are 0 and 1",
        lambda: by_risk(WRONG, classes(HELD_ROWS), of_classes().audit(held()[0])),
        Right(
            "the policy of wrong classes",
            true(
                lambda found: (
                    found.threshold
                    == by_risk(rue.policy.Wrong(), classes(HELD_ROWS), of_classes().audit(held()[0])).threshold
                )
            ),
        ),
    ),
    Attack(
        "A policy is chosen on one held-out row",
        lambda: by_risk(y=held()[1][:1], at=auditor().audit(held()[0][:1])),
        Right("one row certifies no risk of a tenth", true(lambda found: found.accepted == 0 and found.shortfall)),
    ),
]

# ------------------------------------------------------------------------------------------ explanations and checks


@cache
def of_loader() -> rue.Explanation:
    X, y = map(torch.tensor, train())
    generator = torch.Generator().manual_seed(0)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(X, y), batch_size=16, shuffle=True, generator=generator
    )
    return rue.LinearRUE().fit(rue.wrap(network(), loss="squared_error", l2=0.1), loader).audit(new()).explain(2)


@cache
def of_arrays() -> rue.Explanation:
    return rue.LinearRUE().fit(rue.wrap(network(), loss="squared_error", l2=0.1), train()).audit(new()).explain(2)


def several_outputs() -> rue.Audit:
    X, y = train()
    Y = np.column_stack([y, 5 * X[:, 1] + np.random.default_rng(0).normal(size=N)])
    return rue.LinearRUE().fit(rue.wrap(Ridge().fit(X, Y)), (X, Y)).audit(new())


def cheating(rows):
    return ridge()


def without(*units) -> float:
    return linear().audit(new()).explain(0).without(list(units))


def retrained(*units) -> float:
    """How far the first prediction moves when the rows are really removed."""
    X, y = train()
    kept = np.setdiff1d(np.arange(N), units)
    return float(Ridge().fit(X[kept], y[kept]).predict(new()[:1])[0] - ridge().predict(new()[:1])[0])


def after_change() -> rue.Explanation:
    X, y = train()
    found = rue.LinearRUE().fit(rue.wrap(ridge()), (X, y)).audit(new())
    X[:] = 0
    return found.explain(0)


def audited_changed() -> rue.Explanation:
    inputs = new()
    found = linear().audit(inputs)
    inputs[:] = 99.0
    return found.explain(0)


EXPLANATIONS = [
    *(
        Attack(f"The row to explain is {what}", lambda row=row: audit().explain(row), Refused(RueError, "row"))
        for what, row in {
            "negative": -1,
            "a fraction": 0.5,
            "a word": "0",
            "true": True,
            "several rows": [0, 1],
        }.items()
    ),
    Attack(
        "The output to explain is negative",
        lambda: several_outputs().explain(0, output=-1),
        Refused(SettingError, "output"),
    ),
    Attack(
        "One of two outputs is explained and nobody said which",
        lambda: several_outputs().explain(0).variance,
        Right(
            "the larger of the two variances",
            true(lambda found: np.isclose(found, several_outputs().std[0].max() ** 2)),
        ),
    ),
    Attack("No unit is to be kept for each row", lambda: audit().explain(top=0), Refused(SettingError, "top")),
    Attack(
        "A negative number of units is to be kept",
        lambda: audit().explain(0).to_frame(top=-3),
        Refused(SettingError, "top"),
    ),
    Attack(
        "Training rows come from a loader that shuffles, and one is explained",
        of_loader,
        Right(
            "the explanation of the same rows as arrays",
            lambda found: np.testing.assert_allclose(found.contribution, of_arrays().contribution, rtol=1e-6),
        ),
    ),
    Attack(
        "A unit is left out twice",
        lambda: without(3, 3),
        Right(
            "the regression without the row", lambda found: np.testing.assert_allclose(found, retrained(3), rtol=1e-6)
        ),
    ),
    Attack(
        "Ten units are left out together",
        lambda: without(*range(10)),
        Right(
            "the regression without the rows",
            lambda found: np.testing.assert_allclose(found, retrained(*range(10)), rtol=1e-6),
        ),
    ),
    Attack("No unit is left out", without, Refused(InputError, "units")),
    Attack("A unit from the end is left out by a negative number", lambda: without(-1), Refused(InputError, "unit")),
    Attack(
        "Units to leave out are a mask",
        lambda: linear().audit(new()).explain(0).without(np.arange(N) < 10),
        Right(
            "the regression without the rows",
            lambda found: np.testing.assert_allclose(found, retrained(*range(10)), rtol=1e-6),
        ),
    ),
    Attack("All units are left out", lambda: without(*range(N)), Refused(RueError, ".")),
    Attack(
        "Training arrays are set to zero, then a prediction is explained",
        after_change,
        Refused(DataError, "not what they were"),
    ),
    Attack(
        "Audited arrays are changed after the audit, then a prediction is explained",
        audited_changed,
        Refused(DataError, "differ from those audited"),
    ),
    Attack(
        "A check's refit hands back the trained model",
        lambda: linear().check(new(), refit=cheating)["refits"].light,
        Right("no green light for what was not trained", true(lambda light: light != "green")),
    ),
    Attack(
        "A check's refit trains on all rows, whatever it is given",
        lambda: linear().check(new(), refit=lambda _: Ridge().fit(*train()))["refits"].light,
        Right("no green light for what was not trained", true(lambda light: light != "green")),
    ),
    Attack(
        "A check's refit trains another kind of model",
        lambda: (
            linear()
            .check(new(), refit=lambda rows: KNeighborsRegressor(3).fit(train()[0][rows], train()[1][rows]))["refits"]
            .light
        ),
        Right("no green light for another model", true(lambda light: light != "green")),
    ),
    Attack("Rows to check have a column less", lambda: linear().check(new()[:, :2]), Refused(RueError, ".")),
    Attack(
        "Rows to check are training rows in single precision",
        lambda: linear().check(train()[0][:20].astype(np.float32))["duplicates"].light,
        Right("all of them were trained on", true(lambda light: light == "red")),
    ),
]

# ------------------------------------------------------------------------------------------ results


def indexed(index) -> pd.DataFrame:
    X = pd.DataFrame(train()[0], columns=COLUMNS)
    at = rue.LinearRUE().fit(rue.wrap(Ridge().fit(X, train()[1])), (X, train()[1]))
    return at.audit(pd.DataFrame(new(), columns=COLUMNS, index=index)).to_frame()


def keeps(index) -> Right:
    def check(found: pd.DataFrame) -> None:
        pd.testing.assert_index_equal(found.index, index, exact=False)
        np.testing.assert_allclose(found["prediction"], ridge().predict(new()))

    return Right("the index as it was, beside the model's own predictions", check)


ODD = {
    "has names twice": pd.Index([f"p{i // 2}" for i in range(NEW)]),
    "has two levels": pd.MultiIndex.from_arrays([np.arange(NEW) // 5, np.arange(NEW) % 5], names=["site", "patient"]),
    "is called score": pd.Index(np.arange(NEW)[::-1], name="score"),
    "holds dates with missing ones": pd.DatetimeIndex([pd.NaT, *pd.date_range("2024", periods=NEW - 1)]),
}


def deleted() -> rue.Audit:
    X, y = train()
    model = Ridge().fit(X, y)
    at = rue.LinearRUE().fit(rue.wrap(model), (X, y))
    del model, X, y
    gc.collect()
    return at.audit(new())


def fitted_again(model: Any) -> rue.Audit:
    X, y = train()
    model.fit(X, y)
    at = rue.CalibratedRUE().fit(rue.wrap(model), (X, y), refit=False)
    model.fit(X, -10 * y)
    return at.audit(new())


def compared() -> Any:
    return auditor().audit(new()) == auditor().audit(new())


def threads() -> bool:
    at = rue.LinearRUE().fit(rue.wrap(network(), loss=nn.MSELoss()), train())
    wanted, seen = at.audit(new()), []

    def one():
        for _ in range(3):
            found = at.audit(new())
            seen.append(np.array_equal(found.score, wanted.score) and found.explain(0).sentence == sentence)

    sentence = wanted.explain(0).sentence
    workers = [threading.Thread(target=one) for _ in range(3)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    return len(seen) == 9 and all(seen)


def one_method() -> rue.Audit:
    """One method object: another model and other rows in between."""
    method = rue.CalibratedRUE()
    first = method.fit(rue.wrap(ridge()), train())
    X, y = held()
    method.fit(rue.wrap(Ridge(100).fit(X, 50 * y)), (X, 50 * y))
    return first.audit(new())


def spoilt() -> rue.Audit:
    first = auditor().audit(new())
    for part in (first.prediction, first.score):
        with suppress(ValueError):
            part[:] = 1e9
    return auditor().audit(new())


RESULTS = [
    *(
        Attack(f"The index of the audited table {what}", lambda index=index: indexed(index), keeps(index))
        for what, index in ODD.items()
    ),
    Attack(
        "An audit is pickled and read again",
        lambda: pickle.loads(pickle.dumps(audit())),
        Right("the audit before", same(audit)),
    ),
    Attack(
        "An auditor is copied deeply",
        lambda: copy.deepcopy(auditor()).audit(new()),
        Right("the audit before", same(audit)),
    ),
    Attack(
        "Two audits are compared by ==",
        compared,
        Right("a yes or a no", true(lambda found: isinstance(found, bool | np.bool_))),
    ),
    Attack(
        "The arrays of an audit are overwritten, then the same rows audited",
        spoilt,
        Right("the audit before", same(audit)),
    ),
    Attack(
        "The model is deleted after the fit",
        deleted,
        Right("linear algebra", same_std(lambda: sandwich(*train(), new(), 1.0))),
    ),
    Attack(
        "Ridge is fitted to other targets after the audit's fit",
        lambda: fitted_again(Ridge()),
        Refused(ModelError, "."),
    ),
    Attack(
        "Neighbours are fitted to other targets after the audit's fit",
        lambda: fitted_again(KNeighborsRegressor(3)),
        Refused(ModelError, "."),
    ),
    Attack(
        "A black box is fitted to other targets after the audit's fit",
        lambda: fitted_again(Box(Ridge())),
        Refused(ModelError, "."),
    ),
    Attack(
        "Three threads share an auditor that audits and explains",
        threads,
        Right("the audit of one thread, to the last bit", true(bool)),
    ),
    Attack(
        "One method object is fitted to another model in between", one_method, Right("the audit before", same(audit))
    ),
    Attack(
        "One row is audited alone",
        lambda: auditor().audit(new()[:1]),
        Right(
            "its audit among twenty",
            lambda found: np.testing.assert_allclose(found.score, audit().score[:1], rtol=1e-9),
        ),
    ),
    Attack(
        "Rows to audit come from a generator", lambda: auditor().audit(row for row in new()), Refused(DataError, ".")
    ),
    Attack(
        "Training rows come from an iterator of pairs",
        lambda: linear_of(zip(*train(), strict=True)),
        Refused(DataError, "."),
    ),
    Attack(
        "Training rows are iterators", lambda: linear_of((iter(train()[0]), iter(train()[1]))), Refused(DataError, ".")
    ),
]


def linear_of(data) -> rue.Auditor:
    return rue.LinearRUE().fit(rue.wrap(ridge()), data)


# ------------------------------------------------------------------------------------------ measures and figures

TEN = np.arange(10.0)
MEASURES = [
    Attack(
        "A score to measure has a NaN",
        lambda: rue.evaluate.mean_auc(np.where(TEN == 3, np.nan, TEN), TEN),
        Refused(RueError, "."),
    ),
    Attack(
        "Scores to measure are a column and errors are not",
        lambda: rue.evaluate.c_index(TEN[:, None], TEN),
        Refused(InputError, "."),
    ),
    Attack("All errors to measure by are zero", lambda: rue.evaluate.mean_auc(TEN, 0 * TEN), Refused(RueError, ".")),
    Attack("One row is to be ranked", lambda: rue.evaluate.c_index([1.0], [2.0]), Refused(RueError, ".")),
    Attack("No rows are to be measured", lambda: rue.evaluate.aurc([], []), Refused(RueError, ".")),
    Attack(
        "All scores are equal",
        lambda: rue.evaluate.c_index(np.ones(10), TEN),
        Right("a coin", true(lambda found: found == 0.5)),
    ),
    Attack(
        "Scores have ties, in two orders of the rows",
        lambda: (rue.evaluate.aurc(TEN // 3, TEN % 4).value, rue.evaluate.aurc(TEN[::-1] // 3, TEN[::-1] % 4).value),
        Right("the order does not count", true(lambda found: np.isclose(*found))),
    ),
    Attack("Everything is deferred", lambda: rue.evaluate.deferral(TEN, TEN, 1.0), Refused(RueError, ".")),
    Attack(
        "The share to defer is given in per cent", lambda: rue.evaluate.deferral(TEN, TEN, 20), Refused(InputError, ".")
    ),
    Attack("A loss to rank by is negative", lambda: rue.evaluate.aurc(TEN, TEN - 5), Refused(RueError, ".")),
    Attack(
        "A standard deviation is zero",
        lambda: rue.evaluate.nll(TEN, TEN, np.where(TEN == 2, 0, 1.0)),
        Refused(RueError, "."),
    ),
    Attack("A standard deviation is negative", lambda: rue.evaluate.crps(TEN, TEN, TEN - 3), Refused(RueError, ".")),
    Attack(
        "Lower and upper ends are swapped", lambda: rue.evaluate.coverage(TEN, TEN + 1, TEN - 1), Refused(RueError, ".")
    ),
    Attack(
        "A label is minus one",
        lambda: rue.evaluate.expected_calibration_error([[0.2, 0.8], [0.7, 0.3]], [1, -1]),
        Refused(RueError, "."),
    ),
    Attack(
        "Probabilities to measure are logits",
        lambda: rue.evaluate.expected_calibration_error([[2.0, -1.0], [0.3, 4.0]], [0, 1]),
        Refused(RueError, "."),
    ),
    Attack(
        "Levels of a calibration curve are given in per cent",
        lambda: rue.evaluate.calibration_curve(TEN, TEN, TEN + 1, levels=[50, 90]),
        Refused(RueError, "."),
    ),
    Attack(
        "More bins are asked for than there are rows",
        lambda: rue.evaluate.ence(TEN, TEN + 1, bins=50),
        Refused(RueError, "."),
    ),
    Attack(
        "Targets of log_prob are a column of one",
        lambda: audit().log_prob(table()[1][N + HELD :][:, None]),
        Right(
            "log_prob of the same targets",
            lambda found: np.testing.assert_array_equal(found, audit().log_prob(table()[1][N + HELD :])),
        ),
    ),
    Attack(
        "A target of log_prob is missing",
        lambda: audit().log_prob(np.where(np.arange(NEW) == 0, np.nan, 0.0)),
        Refused(RueError, "."),
    ),
    Attack("Errors of words are asked for", lambda: audit().errors(np.repeat("high", NEW)), Refused(RueError, ".")),
]


def drawn(figure: Any) -> None:
    """Drawn to the end, without a word from Matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FigureCanvasAgg(figure).draw()


FIGURES = [
    Attack("No score is drawn", lambda: rue.plots.auc_against_tolerance({}, TEN), Refused(RueError, ".")),
    Attack(
        "Scores of other rows are drawn together",
        lambda: rue.plots.error_after_deferral({"a": TEN, "b": TEN[:5]}, TEN),
        Refused(RueError, "."),
    ),
    Attack("One row is drawn", lambda: rue.plots.error_after_deferral({"a": [1.0]}, [2.0]), Refused(RueError, ".")),
    Attack(
        "A score to draw is infinite",
        lambda: rue.plots.spread_and_error(np.where(TEN == 1, np.inf, TEN + 1), TEN),
        Refused(RueError, "."),
    ),
    Attack(
        "Deviations to draw are all zero",
        lambda: rue.plots.spread_and_error(np.zeros(20), np.arange(20.0)),
        Refused(RueError, "."),
    ),
    Attack(
        "A score is drawn along no values",
        lambda: rue.plots.score_along(auditor(), new()[0], 0, []),
        Refused(RueError, "."),
    ),
    Attack(
        "A score is drawn along a value that is missing",
        lambda: rue.plots.score_along(auditor(), new()[0], 0, [0.0, np.nan, 1.0]),
        Refused(RueError, "."),
    ),
    Attack(
        "A score is drawn along one value",
        lambda: rue.plots.score_along(auditor(), new()[0], 0, [0.5]),
        Right("drawn to the end", drawn),
    ),
    Attack(
        "Thirds of endless intervals are drawn",
        lambda: rue.plots.coverage_by_tercile(TEN, np.full(10, -np.inf), np.full(10, np.inf), TEN, level=0.9),
        Right("drawn to the end", drawn),
    ),
    Attack(
        "Thirds of rows with one score are drawn",
        lambda: rue.plots.coverage_by_tercile(TEN, TEN - 1, TEN + 1, np.ones(10), level=0.9),
        Refused(RueError, "."),
    ),
    Attack(
        "Members of one input are drawn",
        lambda: rue.plots.members_spread(rue.RUE(members=10).fit(rue.wrap(ridge()), train()), new()[:1]),
        Right("drawn to the end", drawn),
    ),
    Attack(
        "The kernel is drawn of an audit and not of an explanation",
        lambda: rue.plots.kernel(audit()),
        Refused(RueError, "."),
    ),
]

# ------------------------------------------------------------------------------------------ reports

EVIL = "</script><script>alert('x')</script><img src=x onerror=alert(1)>"


def reported(at=None, inputs=None, targets=None, **told) -> rue.Report:
    told = {"baselines": False, **told}
    return rue.report(linear() if at is None else at, new() if inputs is None else inputs, targets, **told)


def harmless(found: rue.Report) -> None:
    page = found.html()
    assert "<img src=x" not in page
    assert "<script>alert" not in page
    assert found.json()


def evil() -> rue.Report:
    X = pd.DataFrame(train()[0], columns=[EVIL, "dose", "pressure"])
    X_new = pd.DataFrame(new(), columns=X.columns, index=[f"{EVIL}{i}" for i in range(NEW)])
    at = rue.LinearRUE().fit(rue.wrap(Ridge().fit(X, train()[1])), (X, train()[1]))
    group = {EVIL: np.where(np.arange(NEW) % 2, EVIL, "b")}
    return rue.report(at, X_new, title=EVIL, purpose=EVIL, noun=EVIL, group=group, baselines=False)


def saved(*names: str) -> list[str]:
    """What lies in the folder after saving a report under each name."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            page, data = reported().save(Path(folder) / name)
            assert page != data, "page and JSON are one file"
            assert page.read_text("utf-8").lstrip().lower().startswith("<!doctype")
            assert data.read_text("utf-8").lstrip().startswith("{")
        return sorted(path.name for path in Path(folder).iterdir())


def over_a_stranger(name: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        stranger = Path(folder) / name
        stranger.write_text("my thesis")
        reported().save(Path(folder) / "audit.html")
        return stranger.read_text()


def into_a_folder() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "reports").mkdir()
        return reported().save(Path(folder) / "reports")


def into_no_folder() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        page, data = reported().save(Path(folder) / "not" / "there" / "audit.html")
        return page.is_file() and data.is_file()


def inside_shuffled() -> float:
    lower, upper, _ = auditor().audit(held()[0]).interval(0.9)
    y = held()[1][::-1]
    return float(((lower <= y) & (y <= upper)).mean())


def wide() -> rue.Report:
    source = np.random.default_rng(0)
    X = source.normal(size=(60, 2000))
    y = X[:, 0] + source.normal(size=60)
    at = rue.LinearRUE().fit(rue.wrap(Ridge(100.0).fit(X, y)), (X, y))
    return rue.report(at, source.normal(size=(3, 2000)), baselines=False, checkup=at.check())


REPORTS = [
    Attack(
        "Names of columns, rows, groups and the title are HTML",
        evil,
        Right("no tag of theirs is on the page", harmless),
    ),
    Attack(
        "A report is saved under one name twice",
        lambda: saved("audit.html", "audit.html"),
        Right("one page and one JSON", true(lambda names: names == ["audit.html", "audit.json"])),
    ),
    Attack(
        "A report is saved as audit.json",
        lambda: saved("audit.json"),
        Right("a page and a JSON", true(lambda names: len(names) == 2)),
    ),
    Attack(
        "A report is saved under a name without an ending",
        lambda: saved("audit"),
        Right("a page and a JSON", true(lambda names: len(names) == 2)),
    ),
    Attack(
        "A report is saved where a page of another kind lies",
        lambda: over_a_stranger("audit.html"),
        Refused(RueError, "."),
    ),
    Attack(
        "A report is saved where a JSON of another kind lies",
        lambda: over_a_stranger("audit.json"),
        Refused(RueError, "."),
    ),
    Attack("A report is saved into a folder without a name", into_a_folder, Refused(RueError, ".")),
    Attack("A report is saved into a folder that is not there", into_no_folder, Right("a page is there", true(bool))),
    Attack("Names of audited rows are there twice", lambda: reported(ids=["a", "b"] * 10), Warned(".")),
    Attack(
        "Names of audited rows are those of fewer rows", lambda: reported(ids=["a"] * 3), Refused(ShapeError, "ids")
    ),
    Attack(
        "A group of a report is missing for a row",
        lambda: reported(group=[None, *["a"] * 19]),
        Right("a report all the same", harmless),
    ),
    Attack(
        "A report of one row",
        lambda: reported(inputs=new()[:1], targets=table()[1][-NEW:][:1]),
        Right("a report with one row", true(lambda found: "1" in found.html())),
    ),
    Attack(
        "A report is made with a policy and held-out rows together",
        lambda: reported(calibrated(), policy=rue.Policy.by_share(calibrated().audit(held()[0]), share=0.3)),
        Right("a report", harmless),
    ),
    Attack(
        "A report is made with the policy of another auditor",
        lambda: reported(linear(), policy=policy()),
        Refused(RueError, "."),
    ),
    Attack(
        "A report is made with a policy from before calibration",
        lambda: reported(auditor().calibrate(held()[0], 4 * held()[1]), policy=policy()),
        Refused(RueError, "."),
    ),
    Attack(
        "A report is made with the checks of another auditor",
        lambda: reported(linear(), checkup=of_classes().check()),
        Refused(RueError, "check"),
    ),
    Attack("A report's checks are a word", lambda: reported(checkup="green"), Refused(RueError, "check")),
    Attack(
        "A report has a number as its title",
        lambda: reported(title=2024),
        Right("the number stands on the page", true(lambda found: "<title>2024</title>" in found.html())),
    ),
    Attack(
        "A report of two thousand columns",
        wide,
        Right("a page of less than ten megabytes", true(lambda found: len(found.html()) < 1e7)),
    ),
    Attack(
        "A report's targets are in another order",
        lambda: reported(auditor(), held()[0], held()[1][::-1]).document["highlights"],
        Right(
            "the share of shuffled targets inside the intervals, by hand",
            true(
                lambda found: (
                    {"Coverage": f"{inside_shuffled():.0%}".replace("%", " %")}.items()
                    <= {one["label"]: one["value"] for one in found}.items()
                )
            ),
        ),
    ),
    Attack(
        "Training rows are reported as if they were new",
        lambda: reported(auditor(), train()[0][:40], train()[1][:40]).verdict,
        Right(
            "a red light for rows that were trained on",
            true(lambda verdict: verdict.startswith("red") and "duplicates" in verdict),
        ),
    ),
]

# ------------------------------------------------------------------------------------------ copies in disguise


def copied(change: Callable[[np.ndarray], np.ndarray], rows=slice(None), model=None, targets=None) -> rue.Audit:
    X, y = train()[0], train()[1] if targets is None else targets
    X, y = np.concatenate([X, change(X[rows])]), np.concatenate([y, y[rows]])
    return rue.audit((model or Ridge()).fit(X, y), train=(X, y), inputs=new(), refit=False)


def concatenated() -> rue.Audit:
    X = pd.DataFrame(train()[0], columns=COLUMNS).assign(y=train()[1])
    both = pd.concat([X, X]).sample(frac=1, random_state=0)
    model = Ridge().fit(both[COLUMNS], both.y)
    return rue.audit(model, train=(both[COLUMNS], both.y), inputs=pd.DataFrame(new(), columns=COLUMNS))


def with_id() -> rue.Audit:
    """Copies differ by a running number that was left among the columns."""
    X, y = (np.concatenate([part, part]) for part in train())
    X = np.column_stack([X, np.arange(2 * N)])
    model = Ridge().fit(X, y)
    return rue.audit(model, train=(X, y), inputs=np.column_stack([new(), np.arange(NEW)]))


def oversampled() -> rue.Audit:
    X, labels = train()[0], classes(TRAIN)
    rare = np.flatnonzero(labels == 1)[:20]
    rows = np.concatenate([np.flatnonzero(labels == 0), np.repeat(rare, 4)])
    model = LogisticRegression().fit(X[rows], labels[rows])
    return rue.audit(model, train=(X[rows], labels[rows]), inputs=new())


def windows() -> rue.Audit:
    """A random walk, predicted from its last values: audited rows overlap with training rows."""
    walk = np.cumsum(np.random.default_rng(4).normal(size=200))
    X = np.stack([walk[i : i + 5] for i in range(194)])
    y = walk[6:200]
    return rue.audit(LinearRegression().fit(X[:150], y[:150]), train=(X[:150], y[:150]), inputs=X[150:])


def walked(found: rue.Audit) -> None:
    walk = np.cumsum(np.random.default_rng(4).normal(size=200))
    error = found.prediction - walk[156:200]
    assert 0.5 < np.median(found.total_std) / error.std() < 2


COPIES = [
    Attack(
        "Copies of rows went through single precision",
        lambda: copied(lambda X: X.astype(np.float32).astype(float)),
        Warned("cop|group"),
    ),
    Attack("Copies of rows are moved by 1e-12", lambda: copied(lambda X: jittered(X, 1e-12)), Warned("cop|group")),
    Attack(
        "Copies of rows have one column rounded to two digits",
        lambda: copied(lambda X: np.column_stack([X[:, 0].round(2), X[:, 1:]])),
        Warned("cop|group"),
    ),
    Attack(
        "Copies of rows are augmented by noise of a thousandth",
        lambda: copied(lambda X: jittered(X, 1e-3)),
        Warned("cop|group"),
    ),
    Attack(
        "Copies of rows of a single tree are moved by 1e-9",
        lambda: copied(lambda X: jittered(X, 1e-9), model=DecisionTreeRegressor(random_state=0)),
        Warned("cop|group"),
    ),
    Attack("The table is concatenated with itself and shuffled", concatenated, Warned("cop|group")),
    Attack("Copies of rows differ by a running number among the columns", with_id, Warned("cop|group")),
    Attack("A rare class is there four times", oversampled, Warned("cop|group")),
    Attack(
        "Audited rows of a time series overlap with training rows",
        windows,
        Right("errors of the next steps, within a factor of two", walked),
    ),
]

# ------------------------------------------------------------------------------------------ methods


def method(
    made: Callable[[], Any], model: Callable[[], Any] = lambda: rue.wrap(ridge()), y: Any = None
) -> Callable[[], rue.Audit]:
    return lambda: made().fit(model(), (train()[0], train()[1] if y is None else y)).audit(new())


METHODS = [
    *(
        Attack(
            f"The seed is {what}",
            method(lambda seed=seed: rue.RUE(members=5, seed=seed)),
            Refused(SettingError, "seed"),
        )
        for what, seed in {"a fraction": 0.5, "beyond 64 bits": 2**70, "true": True, "a word": "0"}.items()
    ),
    Attack(
        "The seed of a calibrated audit is a fraction",
        method(lambda: rue.CalibratedRUE(seed=1.5)),
        Refused(SettingError, "seed"),
    ),
    Attack(
        "The seed is negative",
        lambda: method(lambda: rue.RUE(members=5, seed=-3))().score,
        Refused(SettingError, "seed"),
    ),
    Attack("The number of members is true", method(lambda: rue.RUE(members=True)), Refused(SettingError, "members")),
    Attack(
        "The damping is 1e12, beside which the data do not count",
        method(lambda: rue.LinearRUE(damping=rue.solve.Fixed(1e12))),
        Warned("damping"),
    ),
    Attack(
        "A fixed damping is infinite",
        method(lambda: rue.LinearRUE(damping=rue.solve.Fixed(float("inf")))),
        Refused(SettingError, "damping"),
    ),
    Attack(
        "A fixed damping is zero",
        method(lambda: rue.LinearRUE(damping=rue.solve.Fixed(0.0))),
        Right("linear algebra", same_std(lambda: sandwich(*train(), new(), 1.0))),
    ),
    Attack(
        "The resampler is a solver",
        method(lambda: rue.LinearRUE(resampler=rue.solve.Cholesky())),
        Refused(SettingError, "resampler"),
    ),
    Attack(
        "The solver is a damping",
        method(lambda: rue.LinearRUE(solver=rue.solve.Fixed(1.0))),
        Refused(SettingError, "solver"),
    ),
    Attack(
        "The damping is a solver",
        method(lambda: rue.LinearRUE(damping=rue.solve.Cholesky())),
        Refused(SettingError, "damping"),
    ),
    Attack(
        "The curvature is a resampler",
        method(lambda: rue.LinearRUE(curvature=rue.resample.Poisson())),
        Refused(SettingError, "curvature"),
    ),
    Attack(
        "Resampling and left-out rules are swapped",
        method(lambda: rue.CalibratedRUE(resampler=rue.left_out.Folds(3))),
        Refused(SettingError, "resampler"),
    ),
    Attack(
        "A projection has no directions",
        method(lambda: rue.LinearRUE(solver=rue.solve.Projection(0))),
        Refused(SettingError, "size"),
    ),
    Attack("Forests are asked for of a ridge regression", method(rue.ForestRUE), Refused(ModelError, ".")),
    Attack("Confidence is asked of a regression", method(rue.Confidence), Refused(ModelError, ".")),
    Attack("Classes are asked of a regression", method(rue.ClassifierRUE), Refused(ModelError, ".")),
    Attack(
        "Neighbours are a fraction",
        method(lambda: rue.NearestNeighbours(neighbours=2.5)),
        Refused(SettingError, "neighbours"),
    ),
    *(
        Attack(
            f"Bandwidths of a density are {what}",
            method(lambda widths=widths: rue.KernelDensity(bandwidths=widths)),
            Refused(SettingError, "bandwidth"),
        )
        for what, widths in {"none": (), "zero": (0.0,), "NaN": (float("nan"),), "words": ("small",)}.items()
    ),
    Attack(
        "The step of Bootstrap SGD is infinite",
        method(lambda: rue.BootstrapSGD(step=float("inf"))),
        Refused(SettingError, "step"),
    ),
]


# ------------------------------------------------------------------------------------------ protocols in part


@dataclass
class Partial:
    """A model of the user's own: whatever `how` makes of the right predictions."""

    how: Callable[[Any, np.ndarray], Any]

    def predict(self, X):
        return self.how(X, ridge().predict(np.asarray(X)))


@dataclass
class PartialClassifier:
    how: Callable[[np.ndarray], Any]
    classes_: Any = (0, 1)

    def predict_proba(self, X):
        return self.how(logistic().predict_proba(np.asarray(X)))


def partial(how) -> Callable[[], rue.Audit]:
    return lambda: rue.audit(Partial(how), train=(train()[0][:80], train()[1][:80]), inputs=new())


def partial_classes(how, labels=(0, 1)) -> Callable[[], rue.Audit]:
    model = PartialClassifier(how, np.asarray(labels))
    return lambda: rue.audit(model, train=(train()[0], classes(TRAIN)), inputs=new())


def own(found: rue.Audit) -> None:
    np.testing.assert_allclose(np.ravel(found.prediction), ridge().predict(new()), rtol=1e-9)
    assert 0.5 < np.median(found.total_std) / (held()[1] - ridge().predict(held()[0])).std() < 2


def _in_place(X, p):
    X *= 2
    return p


PROTOCOLS = [
    Attack(
        "A model's predictions are a column of one",
        partial(lambda _, p: p[:, None]),
        Right("the model's own predictions, and errors as they are", own),
    ),
    Attack(
        "A model's predictions are a list",
        partial(lambda _, p: p.tolist()),
        Right("the model's own predictions, and errors as they are", own),
    ),
    Attack(
        "A model's predictions are objects",
        partial(lambda _, p: p.astype(object)),
        Refused(ModelError, "numbers were expected"),
    ),
    Attack(
        "A model's predictions are a Series in another order of its index",
        partial(lambda _, p: pd.Series(p, index=np.arange(len(p))[::-1])),
        Right("the model's own predictions, and errors as they are", own),
    ),
    Attack("A model predicts fewer rows than it is given", partial(lambda _, p: p[:-1]), Refused(RueError, ".")),
    Attack("A model predicts one number for all rows", partial(lambda _, p: float(p.mean())), Refused(RueError, ".")),
    Attack(
        "A model's prediction is missing for a row",
        partial(lambda _, p: np.where(p == p.max(), np.nan, p)),
        Refused(RueError, "."),
    ),
    Attack("A model's predictions are complex", partial(lambda _, p: p + 0.5j), Refused(RueError, ".")),
    Attack("A model changes the rows it is given", partial(_in_place), Refused(ModelError, "came out differently")),
    Attack("A model sorts its predictions", partial(lambda _, p: np.sort(p)), Refused(RueError, ".")),
    Attack(
        "A model standardises its predictions by the rows it is given",
        partial(lambda _, p: (p - p.mean()) / p.std()),
        Refused(RueError, "rows"),
    ),
    Attack("A model's probabilities do not sum to one", partial_classes(lambda p: 0.5 * p), Refused(RueError, ".")),
    Attack("A model's probabilities are logits", partial_classes(np.log), Refused(RueError, ".")),
    Attack(
        "A model's probabilities are of one column, that of yes",
        partial_classes(lambda p: p[:, 1]),
        Right(
            "the audit of both columns",
            lambda found: np.testing.assert_allclose(
                found.probability, partial_classes(lambda p: p)().probability, rtol=1e-9
            ),
        ),
    ),
    Attack(
        "A model has three classes and two columns", partial_classes(lambda p: p, (0, 1, 2)), Refused(RueError, ".")
    ),
    Attack("A model's classes are in the wrong order", partial_classes(lambda p: p, (1, 0)), Warned(".")),
    Attack(
        "A model's classes are others than those of the targets",
        partial_classes(lambda p: p, ("no", "yes")),
        Refused(RueError, "."),
    ),
    Attack("A model's classes are there twice", partial_classes(lambda p: p, (1, 1)), Refused(RueError, ".")),
]

# ------------------------------------------------------------------------------------------ surroundings


def forest() -> RandomForestRegressor:
    return RandomForestRegressor(20, random_state=0).fit(*train())


SOUND: dict[str, Callable[[], rue.Audit]] = {
    "Ridge": lambda: rue.CalibratedRUE().fit(rue.wrap(ridge()), train()).audit(new()),
    "a classifier": lambda: rue.audit(logistic(), train=(train()[0], classes(TRAIN)), inputs=new()),
    "a network": lambda: rue.audit(network(), train=train(), inputs=new(), loss=nn.MSELoss()),
    "a forest": lambda: rue.audit(forest(), train=train(), inputs=new()),
    "neighbours": lambda: rue.audit(KNeighborsRegressor(5).fit(*train()), train=train(), inputs=new(), refit=False),
}


@cache
def sound(kind: str) -> rue.Audit:
    return SOUND[kind]()


@contextmanager
def warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@contextmanager
def default_dtype() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if before == torch.float32 else torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def half_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def deterministic() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


AROUND: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "Warnings are errors": (warnings_are_errors, tuple(SOUND)),
    "NumPy raises at every underflow and division": (lambda: np.errstate(all="raise"), tuple(SOUND)),
    "The default dtype of torch is another": (default_dtype, ("Ridge", "a network", "a classifier")),
    "The default dtype of torch is half precision": (half_by_default, ("Ridge", "a network", "a classifier")),
    "The default device of torch has no memory": (lambda: torch.device("meta"), ("Ridge", "a network", "a classifier")),
    "Gradients are switched off": (torch.no_grad, ("Ridge", "a network")),
    "The audit runs in inference mode": (torch.inference_mode, ("Ridge", "a network")),
    "Algorithms of torch are to be deterministic": (deterministic, ("a network",)),
}


def within(around: Callable[[], Any], kind: str) -> rue.Audit:
    ridge(), logistic(), network()
    with around():
        return SOUND[kind]()


def scale(factor: float, offset: float = 0.0) -> rue.Audit:
    X, y = train()
    y = factor * y + offset
    return rue.CalibratedRUE().fit(rue.wrap(LinearRegression().fit(X, y)), (X, y)).audit(new())


def scaled(factor: float, rtol: float) -> Right:
    def check(found: rue.Audit) -> None:
        np.testing.assert_allclose(found.total_std / factor, scale(1.0).total_std, rtol=rtol)

    return Right("the audit in the first units", check)


SURROUNDINGS = [
    *(
        Attack(
            f"{what}, and {kind} is audited",
            lambda around=around, kind=kind: within(around, kind),
            Right("the audit in plain surroundings", same(lambda kind=kind: sound(kind), 1e-6)),
        )
        for what, (around, kinds) in AROUND.items()
        for kind in kinds
    ),
    Attack("Targets are a million times as large", lambda: scale(1e6), scaled(1e6, 1e-3)),
    Attack("Targets are a billionth as large", lambda: scale(1e-9), scaled(1e-9, 1e-3)),
    Attack("Targets have ten million added", lambda: scale(1.0, 1e7), scaled(1.0, 1e-2)),
]

SECTIONS = {
    "Independent trial: weights and groups": WEIGHTS,
    "Independent trial: validation rows, refits and left-out rows": LEFT_OUT,
    "Independent trial: held-out rows": CALIBRATION,
    "Independent trial: levels": LEVELS,
    "Independent trial: decisions": DECISIONS,
    "Independent trial: explanations and checks": EXPLANATIONS,
    "Independent trial: what comes back": RESULTS,
    "Independent trial: measures": MEASURES,
    "Independent trial: figures": FIGURES,
    "Independent trial: reports": REPORTS,
    "Independent trial: copies in disguise": COPIES,
    "Independent trial: methods and settings": METHODS,
    "Independent trial: models that follow the protocol in part": PROTOCOLS,
    "Independent trial: surroundings": SURROUNDINGS,
}
