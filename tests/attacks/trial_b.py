"""Tables and estimators: an independent trial of what people do to them."""

import contextlib
import io
import json
import runpy
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lightgbm as lgb
import numpy as np
import pandas as pd
import scipy.sparse
import torch
import xgboost as xgb
from catboost import CatBoost, CatBoostClassifier, CatBoostRanker, CatBoostRegressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    SGDRegressor,
)
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder
from sklearn.svm import SVC

import rue
from attacks.attack import Attack, Refused, Right, Warned
from rue.core.errors import DataError, InputError, ModelError, NumericalError, RueError, ShapeError

WARDS = {"east": 0.0, "north": 1.5, "west": 3.0}
ROWS, NEW = 160, 60


def people(rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Patients: three numbers and a ward, and what depends on them."""
    source = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": source.normal(50, 10, rows),
            "dose": source.gamma(4, 1, rows),
            "weight": source.normal(70, 12, rows),
            "ward": source.choice(list(WARDS), rows),
        }
    )
    y = 0.1 * frame.age + frame.dose + frame.ward.map(WARDS) + 0.5 * source.normal(size=rows)
    return frame, y.to_numpy(dtype=float)


@cache
def words() -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Rows of training and new rows, with the ward as text."""
    return *people(ROWS, 1), *people(NEW, 2)


@cache
def numbers() -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """The same with numbers alone: a column for each ward."""
    X, y, new, y_new = words()
    return _wide(X), y, _wide(new), y_new


def _wide(X: pd.DataFrame) -> pd.DataFrame:
    return X.drop(columns="ward").assign(north=1.0 * (X.ward == "north"), west=1.0 * (X.ward == "west"))


@cache
def classes() -> np.ndarray:
    """A class for each row of training: above the median, with some noise."""
    y = numbers()[1] + np.random.default_rng(3).normal(size=ROWS)
    return (y > np.median(y)).astype(int)


@cache
def three() -> np.ndarray:
    """One of three classes for each row of training."""
    y = numbers()[1] + np.random.default_rng(4).normal(size=ROWS)
    return np.digitize(y, np.quantile(y, [0.33, 0.66]))


def categories(X: pd.DataFrame, order: Any = ("east", "north", "west")) -> pd.DataFrame:
    return X.assign(ward=pd.Categorical(X.ward, categories=list(order)))


def boosted(**told: Any) -> lgb.LGBMRegressor:
    return lgb.LGBMRegressor(**{"n_estimators": 25, "num_leaves": 6, "verbose": -1, "n_jobs": 1, **told})


def voted(**told: Any) -> lgb.LGBMClassifier:
    return lgb.LGBMClassifier(**{"n_estimators": 25, "num_leaves": 6, "verbose": -1, "n_jobs": 1, **told})


def extreme(**told: Any) -> xgb.XGBRegressor:
    return xgb.XGBRegressor(**{"n_estimators": 25, "max_depth": 3, "n_jobs": 1, **told})


def cat(**told: Any) -> CatBoostRegressor:
    return CatBoostRegressor(
        **{"iterations": 25, "depth": 3, "verbose": False, "thread_count": 1, "allow_writing_files": False, **told}
    )


def logistic() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression())


@cache
def with_categories() -> lgb.LGBMRegressor:
    X, y, _, _ = words()
    return boosted().fit(categories(X), y)


@cache
def plainly(kind: str) -> Any:
    """Models of numbers alone."""
    X, y, _, _ = numbers()
    return {
        "least squares": LinearRegression,
        "Ridge": Ridge,
        "LightGBM": boosted,
        "XGBoost": extreme,
        "CatBoost": cat,
        "HistGradientBoosting": lambda: HistGradientBoostingRegressor(max_iter=25, random_state=0),
        "neighbours": KNeighborsRegressor,
        "forest": lambda: RandomForestRegressor(30, random_state=0),
    }[kind]().fit(X, y)


@cache
def sound(kind: str) -> rue.Audit:
    X, y, new, _ = numbers()
    return audited(plainly(kind), X, y, new)


def audited(model: Any, X: Any, y: Any, new: Any, **told: Any) -> rue.Audit:
    """The audit in one call, with nothing trained but witnesses."""
    weight = told.pop("weight", None)
    data = (X, y) if weight is None else rue.Data(X, y, weight=weight)
    return rue.audit(model, train=data, inputs=new, **{"refit": False, **told})


def of(kind: str, new: Any) -> rue.Audit:
    X, y, _, _ = numbers()
    return audited(plainly(kind), X, y, new)


# ------------------------------------------------------------------------------------------ oracles


def same(plain: Callable[[], rue.Audit], *, rtol: float = 1e-6, scale: float = 1.0) -> Right:
    """Nothing changed, or all numbers by one factor."""

    def check(audit: rue.Audit) -> None:
        other = plain()
        np.testing.assert_allclose(np.ravel(audit.prediction), scale * np.ravel(other.prediction), rtol=rtol)
        np.testing.assert_allclose(np.ravel(audit.score), scale * np.ravel(other.score), rtol=rtol)

    return Right("the audit of the sound set-up", check)


def own(predicted: Callable[[], Any]) -> Right:
    """What the library itself predicts, and errors that are finite and above zero."""

    def check(audit: rue.Audit) -> None:
        found, wanted = np.asarray(audit.prediction), np.asarray(predicted())
        if wanted.dtype.kind in "fc":
            np.testing.assert_allclose(np.ravel(found), np.ravel(wanted), rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(np.ravel(found), np.ravel(wanted))
        assert np.all(np.isfinite(audit.score))
        assert np.all(np.asarray(audit.score) >= 0)

    return Right("the library's own predictions", check)


def honest(predicted: Callable[[], Any], actual: Callable[[], Any], *, factor: float = 1.7) -> Right:
    """The library's own predictions, and expected errors of the size that errors on new rows have."""

    def check(audit: rue.Audit) -> None:
        own(predicted).check(audit)
        error = np.ravel(audit.prediction) - np.ravel(actual())
        ratio = np.sqrt(np.mean(np.square(np.ravel(audit.total_std))) / np.mean(error**2))
        assert 1 / factor < ratio < factor, f"expected errors are {ratio:.2f} of those on new rows"

    return Right("the library's own predictions, and the errors on new rows", check)


def doubted(predicted: Callable[[], Any], row: int = 0) -> Right:
    """The library's own prediction, and a row that is flagged as unlike the training rows or scored so."""

    def check(audit: rue.Audit) -> None:
        own(predicted).check(audit)
        flagged = audit.scarce is not None and bool(audit.scarce[row])
        usual = np.median(audit.score)
        assert flagged or audit.score[row] > 3 * usual, f"score {audit.score[row]:.3g}, others {usual:.3g}"

    return Right("the library's own predictions, and the flag of the row or three times the usual score", check)


UNLIKE = Refused(DataError, "ward")

# ------------------------------------------------------------------------------------------ frames


def _first(X: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The table with other values in its first row."""
    X = X.copy()
    for name, value in values.items():
        column = X[name].astype(object)
        column.iloc[0] = value
        X[name] = column.infer_objects()
    return X


def _lgbm_order() -> rue.Audit:
    X, y, new, _ = words()
    return audited(with_categories(), categories(X), y, categories(new, ["west", "east", "north"]))


def _plain_categories() -> rue.Audit:
    X, y, new, _ = words()
    return audited(with_categories(), categories(X), y, categories(new))


def _lgbm_file_order() -> rue.Audit:
    X, y, new, _ = words()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.txt"
        with_categories().booster_.save_model(path)
        return audited(path, categories(X), y, categories(new, ["west", "east", "north"]))


@cache
def _hist_categories() -> Any:
    X, y, _, _ = words()
    return HistGradientBoostingRegressor(max_iter=25, random_state=0, categorical_features="from_dtype").fit(
        categories(X), y
    )


@cache
def _xgb_categories() -> Any:
    X, y, _, _ = words()
    return extreme(enable_categorical=True).fit(categories(X), y)


@cache
def _cat_words() -> Any:
    X, y, _, _ = words()
    return cat(cat_features=["ward"]).fit(X, y)


@cache
def _one_hot(unknown: str) -> Any:
    X, y, _, _ = words()
    coded = make_column_transformer((OneHotEncoder(handle_unknown=unknown), ["ward"]), remainder="passthrough")
    return make_pipeline(coded, Ridge()).fit(X, y)


@cache
def _ordinal() -> Any:
    X, y, _, _ = words()
    coder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(
        make_column_transformer((coder, ["ward"]), remainder="passthrough"),
        HistGradientBoostingRegressor(max_iter=25, random_state=0),
    ).fit(X, y)


def _codes(X: pd.DataFrame) -> pd.DataFrame:
    """Wards by number: 10, 20, 30."""
    return X.assign(ward=X.ward.map({"east": 10, "north": 20, "west": 30}).astype("int64"))


def _coded(X: pd.DataFrame) -> pd.DataFrame:
    return _codes(X).assign(ward=lambda t: t.ward.astype("category"))


@cache
def _of_codes() -> Any:
    X, y, _, _ = words()
    return boosted().fit(_coded(X), y)


def _file_of_codes(new: Callable[[pd.DataFrame], pd.DataFrame]) -> rue.Audit:
    X, y, rows, _ = words()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.txt")
        _of_codes().booster_.save_model(path)
        return audited(path, new(X), y, new(rows))


def _na(X: pd.DataFrame) -> pd.DataFrame:
    return X.assign(ward=X.ward.replace("north", "NA"))


@cache
def _cat_na() -> Any:
    X, y, _, _ = words()
    return cat(cat_features=["ward"]).fit(_na(X), y)


@cache
def _truths() -> tuple[Any, pd.DataFrame, pd.DataFrame]:
    X, y, new, _ = numbers()
    X, new = (t.assign(north=t.north == 1, west=t.west == 1) for t in (X, new))
    return boosted().fit(X, y), X, new


def _bools(change: Callable[[pd.DataFrame], pd.DataFrame]) -> rue.Audit:
    model, X, new = _truths()
    return audited(model, X, numbers()[1], change(new))


def _tuples(X: pd.DataFrame) -> pd.DataFrame:
    return X.set_axis(pd.MultiIndex.from_tuples([("patient" if i < 3 else "ward", c) for i, c in enumerate(X)]), axis=1)


def _counted(X: pd.DataFrame) -> pd.DataFrame:
    return X.set_axis(range(X.shape[1]), axis=1)


def _renamed(rename: Callable[[pd.DataFrame], pd.DataFrame], build: Callable[[], Any]) -> rue.Audit:
    """Trained on renamed columns, audited with the columns backwards."""
    X, y, new, _ = numbers()
    X, new = rename(X), rename(new)
    return audited(build().fit(X, y), X, y, new[new.columns[::-1]])


def _days(X: pd.DataFrame) -> pd.DataFrame:
    return X.apply(lambda column: column.astype("int64") / 8.64e13)


@cache
def _dated() -> tuple[Any, pd.DataFrame, pd.DataFrame]:
    X, y, new, _ = numbers()
    start = pd.Timestamp("2026-01-01").as_unit("ns")
    X, new = (t[["dose"]].assign(when=start + pd.to_timedelta((10 * t.age).round(), unit="D")) for t in (X, new))
    X, new = (t.assign(when=t.when.astype("datetime64[ns]")) for t in (X, new))
    prepared = make_column_transformer((FunctionTransformer(_days), ["when"]), remainder="passthrough")
    return make_pipeline(prepared, StandardScaler(), Ridge()).fit(X, y), X, new


def _at(change: Callable[[pd.DataFrame], pd.DataFrame]) -> rue.Audit:
    model, X, new = _dated()
    return audited(model, X, numbers()[1], change(new))


def _swapped_index() -> rue.Audit:
    """Thirty targets stand at other places than their rows, but their index says whose they are."""
    X, y, new, _ = numbers()
    order = np.arange(ROWS)
    order[:30] = np.roll(order[:30], 1)
    return audited(plainly("Ridge"), X, pd.Series(y).iloc[order], new)


def _spaces_in_names(change: Callable[[pd.DataFrame], Any]) -> rue.Audit:
    """LightGBM writes underscores for the blanks in the names of columns."""
    X, y, new, _ = numbers()
    X, new = (t.rename(columns={"weight": "body weight"}) for t in (X, new))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.txt"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            boosted().fit(X, y).booster_.save_model(path)
        return audited(path, X, y, change(new))


FRAMES = [
    Attack(
        "LightGBM: the categories of the audited table stand in another order",
        _lgbm_order,
        same(_plain_categories),
    ),
    Attack(
        "LightGBM file: the categories of the audited table stand in another order",
        _lgbm_file_order,
        own(lambda: with_categories().predict(categories(words()[2]))),
    ),
    Attack(
        "HistGradientBoosting: the categories of the audited table stand in another order",
        lambda: audited(
            _hist_categories(), categories(words()[0]), words()[1], categories(words()[2], ["west", "east", "north"])
        ),
        own(lambda: _hist_categories().predict(categories(words()[2]))),
    ),
    Attack(
        "XGBoost: the categories of the audited table stand in another order",
        lambda: audited(
            _xgb_categories(), categories(words()[0]), words()[1], categories(words()[2], ["west", "east", "north"])
        ),
        own(lambda: _xgb_categories().predict(categories(words()[2]))),
    ),
    Attack(
        "LightGBM: the audited table has categories that none of its rows uses",
        lambda: audited(
            with_categories(), categories(words()[0]), words()[1], categories(words()[2], ["attic", *WARDS])
        ),
        same(_plain_categories),
    ),
    Attack(
        "CatBoost: an audited row is of a ward that training never saw",
        lambda: audited(_cat_words(), words()[0], words()[1], _first(words()[2], ward="south")),
        Warned("words that no training row has"),
    ),
    Attack(
        "LightGBM: an audited row is of a ward that training never saw",
        lambda: audited(
            with_categories(),
            categories(words()[0]),
            words()[1],
            categories(_first(words()[2], ward="south"), [*WARDS, "south"]),
        ),
        UNLIKE,
    ),
    Attack(
        "An encoder that ignores unknown words meets an unknown ward",
        lambda: audited(_one_hot("ignore"), words()[0], words()[1], _first(words()[2], ward="south")),
        doubted(lambda: _one_hot("ignore").predict(_first(words()[2], ward="south"))),
    ),
    Attack(
        "An encoder that ignores unknown words meets a ward with a blank after it",
        lambda: audited(_one_hot("ignore"), words()[0], words()[1], _first(words()[2], ward="east ")),
        doubted(lambda: _one_hot("ignore").predict(_first(words()[2], ward="east "))),
    ),
    Attack(
        "An encoder that refuses unknown words meets an unknown ward",
        lambda: audited(_one_hot("error"), words()[0], words()[1], _first(words()[2], ward="south")),
        Refused(DataError, "south"),
    ),
    Attack(
        "An encoder has a number for unknown words and meets one, before trees",
        lambda: audited(_ordinal(), words()[0], words()[1], _first(words()[2], ward="south")),
        doubted(lambda: _ordinal().predict(_first(words()[2], ward="south"))),
    ),
    Attack(
        "LightGBM: numbers were categories in training and are numbers now",
        lambda: audited(_of_codes(), _coded(words()[0]), words()[1], _codes(words()[2])),
        own(lambda: _of_codes().predict(_coded(words()[2]))),
    ),
    Attack(
        "LightGBM: numbers were numbers in training and are categories now",
        lambda: audited(
            boosted().fit(_codes(words()[0]), words()[1]), _codes(words()[0]), words()[1], _coded(words()[2])
        ),
        UNLIKE,
    ),
    Attack(
        "LightGBM file: numbers were categories in training and are categories now",
        lambda: _file_of_codes(_coded),
        own(lambda: _of_codes().predict(_coded(words()[2]))),
    ),
    Attack(
        "LightGBM file: numbers were categories in training and are plain numbers in both tables",
        lambda: _file_of_codes(_codes),
        own(lambda: _of_codes().predict(_coded(words()[2]))),
    ),
    Attack(
        "CatBoost: a ward is called NA",
        lambda: audited(_cat_na(), _na(words()[0]), words()[1], _na(words()[2])),
        own(lambda: _cat_na().predict(_na(words()[2]))),
    ),
    Attack(
        "A text column is of another text type than in training",
        lambda: audited(
            _one_hot("ignore"), words()[0], words()[1], words()[2].assign(ward=words()[2].ward.astype("string"))
        ),
        own(lambda: _one_hot("ignore").predict(words()[2])),
    ),
    Attack(
        "Ridge: the audited table has nullable types, and nothing is missing",
        lambda: of("Ridge", numbers()[2].convert_dtypes()),
        same(lambda: sound("Ridge")),
    ),
    Attack(
        "Ridge: a cell of a nullable column is missing",
        lambda: of("Ridge", _first(numbers()[2].astype("Float64"), dose=pd.NA).astype("Float64")),
        Refused(DataError, "NaN|missing|NA"),
    ),
    Attack(
        "LightGBM: a cell of a nullable column is missing, which training never saw",
        lambda: of("LightGBM", _first(numbers()[2].astype("Float64"), dose=pd.NA).astype("Float64")),
        doubted(lambda: plainly("LightGBM").predict(_first(numbers()[2], dose=np.nan))),
    ),
    *(
        Attack(
            f"{kind}: a cell is missing in a column that was complete in training",
            lambda kind=kind: of(kind, _first(numbers()[2], dose=np.nan)),
            Warned("missing in columns that no training row lacks"),
        )
        for kind in ("LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting")
    ),
    Attack(
        "LightGBM: truths come as nullable truths",
        lambda: _bools(lambda X: X.astype({"north": "boolean"})),
        own(lambda: _truths()[0].predict(_truths()[2])),
    ),
    Attack(
        "LightGBM: truths come as 0 and 1",
        lambda: _bools(lambda X: X.astype({"north": int})),
        own(lambda: _truths()[0].predict(_truths()[2])),
    ),
    Attack(
        "LightGBM: truths come as words",
        lambda: _bools(lambda X: X.assign(north=X.north.map({True: "True", False: "False"}))),
        Refused(DataError, "north"),
    ),
    Attack(
        "LightGBM: truths come as 1 and 2",
        lambda: _bools(lambda X: X.assign(north=X.north + 1)),
        doubted(
            lambda: _truths()[0].predict(_truths()[2].assign(north=_truths()[2].north + 1)),
            row=int(np.argmax(_wide(people(NEW, 2)[0]).north)),
        ),
    ),
    Attack(
        "Numbers have decimal commas in the audited table",
        lambda: of("LightGBM", numbers()[2].assign(dose=numbers()[2].dose.map(lambda v: f"{v:.3f}".replace(".", ",")))),
        Refused(DataError, "dose"),
    ),
    Attack(
        "Two rows of the audited table have the same label",
        lambda: of("Ridge", numbers()[2].set_axis([7] * NEW)),
        Right(
            "the labels in to_frame()", lambda audit: np.testing.assert_array_equal(audit.to_frame().index, [7] * NEW)
        ),
    ),
    Attack(
        "Targets are a Series whose index is not in the order of the rows",
        _swapped_index,
        Refused(DataError, "index"),
    ),
    Attack(
        "Columns have two levels of names, and come backwards",
        lambda: _renamed(_tuples, Ridge),
        same(lambda: sound("Ridge")),
    ),
    Attack(
        "Columns are called by numbers, and come backwards, to Ridge",
        lambda: _renamed(_counted, Ridge),
        same(lambda: sound("Ridge")),
    ),
    Attack(
        "Columns are called by numbers, and come backwards, to LightGBM",
        lambda: _renamed(_counted, boosted),
        same(lambda: sound("LightGBM")),
    ),
    Attack(
        "A column has a capital letter in the audited table",
        lambda: of("LightGBM", numbers()[2].rename(columns={"dose": "Dose"})),
        Refused(DataError, "dose"),
    ),
    Attack(
        "A column has a blank after its name in the audited table",
        lambda: of("XGBoost", numbers()[2].rename(columns={"dose": "dose "})),
        Refused(DataError, "dose"),
    ),
    Attack(
        "A column for identification is left in the audited table",
        lambda: of("neighbours", numbers()[2].assign(patient=range(NEW))),
        Refused(DataError, "patient"),
    ),
    Attack(
        "The target is left in the audited table",
        lambda: of("CatBoost", numbers()[2].assign(outcome=numbers()[3])),
        Refused(DataError, "outcome"),
    ),
    Attack(
        "LightGBM file: a column's name has a blank, which LightGBM writes as an underscore",
        lambda: _spaces_in_names(lambda X: X[X.columns[::-1]]),
        same(lambda: sound("LightGBM"), rtol=1e-3),
    ),
    Attack(
        "Dates have a time zone that they did not have in training",
        lambda: _at(lambda X: X.assign(when=X.when.dt.tz_localize("UTC"))),
        own(lambda: _dated()[0].predict(_dated()[2])),
    ),
    Attack(
        "Dates are counted in seconds that were counted in nanoseconds in training",
        lambda: _at(lambda X: X.assign(when=X.when.astype("datetime64[s]"))),
        doubted(lambda: _dated()[0].predict(_dated()[2].assign(when=_dated()[2].when.astype("datetime64[s]")))),
    ),
    Attack(
        "Dates come as words",
        lambda: _at(lambda X: X.assign(when=X.when.dt.strftime("%Y-%m-%d"))),
        Refused(DataError, "when"),
    ),
]

# ------------------------------------------------------------------------------------------ arrays


def _by_array(new: Callable[[np.ndarray], Any], kind: str = "Ridge") -> rue.Audit:
    X, y, rows, _ = numbers()
    model = {"Ridge": Ridge, "LightGBM": boosted}[kind]().fit(X.to_numpy(), y)
    return audited(model, X.to_numpy(), y, new(rows.to_numpy()))


def _small(dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pixels: whole numbers that fill a byte."""
    source = np.random.default_rng(6)
    X = source.integers(0, 256, size=(ROWS + NEW, 3))
    y = X @ [0.5, -0.3, 0.2] + 10 * source.normal(size=len(X))
    shift = 128 if dtype == "int8" else 0
    return (X[:ROWS] - shift).astype(dtype), y[:ROWS], (X[ROWS:] - shift).astype(dtype)


def _pixels(dtype: str, build: Callable[[], Any], *, wide: bool = False) -> rue.Audit:
    X, y, new = _small(dtype)
    model = build().fit(X.astype(float), y)
    return audited(model, X.astype(float) if wide else X, y, new.astype(float) if wide else new)


def _whole_targets(dtype: str, build: Callable[[], Any], *, wide: bool = False) -> rue.Audit:
    X, y, new, _ = numbers()
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    y = (low + 1 + (y - y.min()) / np.ptp(y) * (high - low - 2)).astype(dtype)
    model = build().fit(X, y.astype(float))
    return audited(model, X, y.astype(float) if wide else y, new)


def _structured(X: pd.DataFrame) -> np.ndarray:
    return X.to_records(index=False).view(np.ndarray)


def _texts() -> tuple[Any, list[str], np.ndarray, list[str]]:
    source = np.random.default_rng(8)
    labels = source.integers(0, 2, 120)
    said = [
        " ".join(source.choice(["pain", "fever", "fine", "well", "cough", "rest"], 6, p=p))
        for p in np.where(labels[:, None], [0.3, 0.3, 0.05, 0.05, 0.2, 0.1], [0.05, 0.05, 0.3, 0.3, 0.1, 0.2])
    ]
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(said[:100], labels[:100])
    return model, said[:100], labels[:100], said[100:]


def _audited_texts() -> rue.Audit:
    model, X, y, new = _texts()
    return audited(model, X, y, new)


ARRAYS = [
    Attack(
        "Ridge: the audited rows are a list of lists",
        lambda: _by_array(lambda X: X.tolist()),
        same(lambda: sound("Ridge")),
    ),
    Attack(
        "LightGBM: the audited rows are a list of lists",
        lambda: _by_array(lambda X: X.tolist(), "LightGBM"),
        same(lambda: sound("LightGBM")),
    ),
    Attack(
        "Ridge: the audited rows are an array of Python objects",
        lambda: _by_array(lambda X: X.astype(object)),
        same(lambda: sound("Ridge")),
    ),
    Attack(
        "Ridge: the audited rows are a sparse matrix",
        lambda: _by_array(scipy.sparse.csr_matrix),
        same(lambda: sound("Ridge")),
    ),
    Attack(
        "LightGBM: the audited rows are a sparse matrix",
        lambda: _by_array(scipy.sparse.csr_matrix, "LightGBM"),
        same(lambda: sound("LightGBM")),
    ),
    Attack(
        "Columns of the audited table are sparse",
        lambda: of("Ridge", numbers()[2].astype(pd.SparseDtype(float))),
        Refused(DataError, "give them as in training"),
    ),
    Attack(
        "The audited rows are a structured array",
        lambda: of("LightGBM", _structured(numbers()[2])),
        Refused(DataError, ".{30}"),
    ),
    Attack("The audited row is a Series", lambda: of("LightGBM", numbers()[2].iloc[0]), Refused(RueError, ".{30}")),
    Attack(
        "The audited table is a dictionary of columns",
        lambda: of("XGBoost", {name: column.to_numpy() for name, column in numbers()[2].items()}),
        Refused(DataError, ".{30}"),
    ),
    Attack(
        "Cells of the audited array are masked",
        lambda: _by_array(lambda X: np.ma.masked_greater(X, 60), "LightGBM"),
        Refused(DataError, "mask"),
    ),
    Attack(
        "Rows are bytes of an image, which differences overflow, to neighbours",
        lambda: _pixels("uint8", KNeighborsRegressor),
        same(lambda: _pixels("uint8", KNeighborsRegressor, wide=True)),
    ),
    Attack(
        "Rows are bytes of an image, which differences overflow, to Ridge",
        lambda: _pixels("int8", Ridge),
        same(lambda: _pixels("int8", Ridge, wide=True)),
    ),
    Attack(
        "Targets are bytes, which residuals overflow, of LightGBM",
        lambda: _whole_targets("int8", boosted),
        same(lambda: _whole_targets("int8", boosted, wide=True)),
    ),
    Attack(
        "Targets are bytes, which residuals overflow, of Ridge",
        lambda: _whole_targets("uint8", Ridge),
        same(lambda: _whole_targets("uint8", Ridge, wide=True)),
    ),
    Attack(
        "Targets are numbers as text",
        lambda: audited(plainly("Ridge"), numbers()[0], numbers()[1].astype(str), numbers()[2]),
        Refused(DataError, ".{30}"),
    ),
    Attack(
        "Targets are a table of one column",
        lambda: audited(plainly("Ridge"), numbers()[0], pd.DataFrame({"y": numbers()[1]}), numbers()[2]),
        same(lambda: sound("Ridge")),
    ),
    Attack(
        "A pipeline takes texts",
        _audited_texts,
        own(lambda: _texts()[0].predict(_texts()[3])),
    ),
]

# ------------------------------------------------------------------------------------------ units


def _scaled(build: Callable[[], Any], inputs: float = 1.0, targets: float = 1.0, offset: float = 0.0) -> rue.Audit:
    X, y, new, _ = numbers()
    X, y, new = inputs * X, targets * y + offset, inputs * new
    return audited(build().fit(X, y), X, y, new)


def _shifted(audit: rue.Audit) -> None:
    np.testing.assert_allclose(audit.score, sound("least squares").score, rtol=0.01)
    np.testing.assert_allclose(audit.std, sound("least squares").std, rtol=0.01)


def _sandwich(audit: rue.Audit) -> None:
    X, y, new, y_new = numbers()
    rows, later = (np.column_stack([np.ones(len(t)), t]) for t in (X, new))
    inverse = np.linalg.inv(rows.T @ rows)
    residual = y - rows @ (inverse @ (rows.T @ y))
    np.testing.assert_allclose(audit.std, np.sqrt(np.square(later @ inverse @ rows.T * residual).sum(1)), rtol=1e-3)
    ratio = np.sqrt(np.mean(np.square(audit.total_std)) / np.mean((audit.prediction - y_new) ** 2))
    assert 0.7 < ratio < 1.4


def _more_columns(build: Callable[[], Any], more: Callable[[pd.DataFrame], pd.DataFrame]) -> rue.Audit:
    X, y, new, _ = numbers()
    return audited(build().fit(more(X), y), more(X), y, more(new))


def _wide_table() -> rue.Audit:
    source = np.random.default_rng(9)
    X, y = source.normal(size=(30, 60)), source.normal(size=30)
    return audited(LinearRegression().fit(X, y), X, y, source.normal(size=(9, 60)))


UNITS = [
    *(
        Attack(
            f"Targets of {name} are of the size {size:g}",
            lambda build=build, size=size: _scaled(build, targets=size),
            same(lambda kind=name: sound(kind), rtol=0.02, scale=size),
        )
        for name, build in {"Ridge": Ridge, "LightGBM": boosted, "neighbours": KNeighborsRegressor}.items()
        for size in (1e-4, 1e8)
    ),
    Attack(
        "Inputs of least squares are of the size 1e-9",
        lambda: _scaled(LinearRegression, inputs=1e-9),
        Right("the sandwich formula, and the errors on new rows", lambda audit: _sandwich(audit)),
    ),
    Attack(
        "Inputs of least squares are of the size 1e9",
        lambda: _scaled(LinearRegression, inputs=1e9),
        same(lambda: sound("least squares"), rtol=0.02),
    ),
    Attack(
        "Targets are seconds since 1970, of which the last few matter",
        lambda: _scaled(LinearRegression, offset=1.7e9),
        Right("the audit of the targets without the offset", _shifted),
    ),
    Attack(
        "A column is constant",
        lambda: _more_columns(LinearRegression, lambda X: X.assign(country=49.0)),
        Warned("features that repeat each other"),
    ),
    Attack(
        "A column is there twice under two names",
        lambda: _more_columns(LinearRegression, lambda X: X.assign(dosis=X.dose)),
        Warned("features that repeat each other"),
    ),
    Attack(
        "A column is another one in other units",
        lambda: _more_columns(LinearRegression, lambda X: X.assign(pounds=2.2046 * X.weight)),
        Warned("features that repeat each other"),
    ),
    Attack(
        "There are more columns than rows, to least squares", _wide_table, Warned("exactly|effective|singular|repeat")
    ),
    Attack(
        "The target is the same in every row",
        lambda: audited(Ridge().fit(numbers()[0], np.full(ROWS, 3.0)), numbers()[0], np.full(ROWS, 3.0), numbers()[2]),
        Refused(NumericalError, ".{30}"),
    ),
    Attack(
        "The target is the same in every row, of LightGBM",
        lambda: audited(
            boosted().fit(numbers()[0], np.full(ROWS, 3.0)), numbers()[0], np.full(ROWS, 3.0), numbers()[2]
        ),
        Refused(NumericalError, ".{30}"),
    ),
    Attack(
        "An audited cell has a slipped decimal point",
        lambda: of("LightGBM", _first(numbers()[2], weight=7000.0)),
        doubted(lambda: plainly("LightGBM").predict(_first(numbers()[2], weight=7000.0))),
    ),
    Attack(
        "An audited cell holds 999 for missing",
        lambda: of("forest", _first(numbers()[2], age=-999.0)),
        doubted(lambda: plainly("forest").predict(_first(numbers()[2], age=-999.0))),
    ),
]

# ------------------------------------------------------------------------------------------ rows of training


def _weights() -> np.ndarray:
    return np.random.default_rng(10).uniform(0.1, 3.0, ROWS)


def _weighted(build: Callable[[], Any], stated: Any, used: Any = None) -> rue.Audit:
    X, y, new, _ = numbers()
    used = _weights() if used is None else used
    return audited(build().fit(X, y, sample_weight=used), X, y, new, weight=stated)


def _to_one(w: np.ndarray) -> np.ndarray:
    return w / w.sum()


def _swapped(kind: str) -> rue.Audit:
    """New rows are given as those of training, and the other way round."""
    X, _, _, _ = numbers()
    frame, y = people(ROWS, 2)
    return audited(plainly(kind), _wide(frame), y, X)


def _leaking(build: Callable[[], Any]) -> rue.Audit:
    X, y, new, y_new = numbers()
    X, new = X.assign(outcome=y), new.assign(outcome=y_new)
    return audited(build().fit(X, y), X, y, new)


def _stopped_on_training() -> rue.Audit:
    X, y, new, _ = numbers()
    return audited(plainly("LightGBM"), X, y, new, validation=(X, y))


def _reported() -> dict[str, Any]:
    X, y, _, _ = numbers()
    auditor = rue.CalibratedRUE().fit(rue.wrap(plainly("Ridge")), (X, y))
    return rue.report(auditor, X, y, baselines=False).document


def _half() -> rue.Audit:
    """Told of every second training row."""
    X, y, new, _ = numbers()
    return audited(plainly("LightGBM"), X[::2], y[::2], new)


def _gaps(X: pd.DataFrame) -> pd.DataFrame:
    return X.mask(np.random.default_rng(11).random(X.shape) < 0.15)


def _with_gaps(build: Callable[[], Any]) -> rue.Audit:
    X, y, new, _ = numbers()
    return audited(build().fit(_gaps(X), y), _gaps(X), y, _gaps(new))


def _gaps_predicted(build: Callable[[], Any]) -> np.ndarray:
    X, y, new, _ = numbers()
    return build().fit(_gaps(X), y).predict(_gaps(new))


def _of_size(model: Callable[[], Any]) -> Right:
    """Expected errors of the size that errors on other rows have."""

    def check(audit: rue.Audit) -> None:
        frame, y = people(300, 21)
        error = model().predict(_wide(frame)) - y
        ratio = np.sqrt(np.mean(np.square(audit.total_std)) / np.mean(error**2))
        assert 1 / 1.4 < ratio < 1.4, f"expected errors are {ratio:.2f} of those on other rows"

    return Right("the errors on 300 other rows", check)


def imputed() -> Any:
    return make_pipeline(SimpleImputer(), Ridge())


TRAINING = [
    Attack(
        "Weights of least squares sum to one",
        lambda: _weighted(LinearRegression, _to_one(_weights()), _to_one(_weights())),
        same(lambda: _weighted(LinearRegression, _weights()), rtol=1e-4),
    ),
    Attack(
        "Weights of Ridge sum to one",
        lambda: _weighted(lambda: Ridge(0.01), _to_one(_weights()), _to_one(_weights())),
        same(lambda: _weighted(lambda: Ridge(0.01 * _weights().sum()), _weights()), rtol=1e-4),
    ),
    Attack(
        "Weights of LightGBM sum to one",
        lambda: _weighted(boosted, _to_one(_weights()), _to_one(_weights())),
        same(lambda: _weighted(lambda: boosted(min_child_weight=0.0), _weights()), rtol=0.05),
    ),
    Attack(
        "Weights are a million times too large",
        lambda: _weighted(LinearRegression, 1e6 * _weights()),
        same(lambda: _weighted(LinearRegression, _weights()), rtol=1e-4),
    ),
    Attack(
        "Weights are numbers as text",
        lambda: _weighted(LinearRegression, _weights().astype(str)),
        same(lambda: _weighted(LinearRegression, _weights())),
    ),
    Attack(
        "Weights are a table of one column",
        lambda: _weighted(LinearRegression, pd.DataFrame({"w": _weights()})),
        Refused(ShapeError, "weight"),
    ),
    Attack(
        "LightGBM was trained with weights that nobody states",
        lambda: _weighted(boosted, None, np.where(np.arange(ROWS) % 4, 0.05, 20.0)),
        Warned("weight"),
    ),
    Attack(
        "XGBoost was trained with weights that nobody states",
        lambda: _weighted(extreme, None, np.where(np.arange(ROWS) % 4, 0.05, 20.0)),
        Warned("weight"),
    ),
    Attack(
        "PoissonRegressor was trained with weights that nobody states",
        lambda: audited(
            make_pipeline(StandardScaler(), PoissonRegressor(alpha=1e-3, tol=1e-8)).fit(
                numbers()[0], np.round(numbers()[1]), poissonregressor__sample_weight=_weights() ** 3
            ),
            numbers()[0],
            np.round(numbers()[1]),
            numbers()[2],
        ),
        Warned("weight"),
    ),
    *(
        Attack(
            f"New rows are given as the training rows of {kind}, and training rows are audited",
            lambda kind=kind: _swapped(kind),
            Warned("(?i)rows") if kind == "Ridge" else _of_size(lambda kind=kind: plainly(kind)),
        )
        for kind in ("Ridge", "LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting", "neighbours")
    ),
    Attack(
        "New rows are given as the training rows of a forest, and training rows are audited",
        lambda: _swapped("forest"),
        Refused(DataError, "rows"),
    ),
    Attack(
        "The target is left among the features, of least squares",
        lambda: _leaking(LinearRegression),
        Warned("outcome|target"),
    ),
    Attack("The target is left among the features, of LightGBM", lambda: _leaking(boosted), Warned("outcome|target")),
    Attack("The target is left among the features, of a forest", lambda: _leaking(_forest), Warned("outcome|target")),
    Attack(
        "Validation rows are the training rows",
        _stopped_on_training,
        Refused(DataError, "training row"),
    ),
    Attack(
        "Training rows are reported on as if they were new",
        _reported,
        Right("the light of the report", lambda found: _red(found)),
    ),
    Attack("Every second training row is given, of LightGBM", _half, _of_size(lambda: plainly("LightGBM"))),
    Attack(
        "Cells are missing in training and in new rows, to LightGBM",
        lambda: _with_gaps(boosted),
        honest(lambda: _gaps_predicted(boosted), lambda: numbers()[3]),
    ),
    Attack(
        "Cells are missing in training and in new rows, to HistGradientBoosting",
        lambda: _with_gaps(lambda: HistGradientBoostingRegressor(max_iter=25, random_state=0)),
        honest(
            lambda: _gaps_predicted(lambda: HistGradientBoostingRegressor(max_iter=25, random_state=0)),
            lambda: numbers()[3],
        ),
    ),
    Attack(
        "Cells are missing in training and in new rows, and a pipeline fills them in",
        lambda: _with_gaps(imputed),
        honest(lambda: _gaps_predicted(imputed), lambda: numbers()[3]),
    ),
    Attack(
        "A cell is missing that Ridge cannot take",
        lambda: of("Ridge", _first(numbers()[2], dose=np.nan)),
        Refused(DataError, "NaN|missing"),
    ),
]


def _filled(build: Callable[[], Any]) -> rue.Audit:
    """A pipeline would fill cells in, but none was missing in training: one column is, in all new rows."""
    X, y, new, _ = numbers()
    return audited(make_pipeline(SimpleImputer(), build()).fit(X, y), X, y, new.assign(dose=np.nan))


def _learnt_by_heart() -> rue.Audit:
    X, y, new, _ = numbers()
    model = boosted(n_estimators=150, num_leaves=31, min_child_samples=3).fit(X, y)
    return audited(model, X, y, new, validation=(X, y))


def _one_class(build: Callable[[], Any]) -> rue.Audit:
    X, _, new, _ = numbers()
    return audited(build().fit(X, np.ones(ROWS, dtype=int)), X, np.ones(ROWS, dtype=int), new)


def _outputs(build: Callable[[], Any], trained: int, told: int) -> rue.Audit:
    X, y, new, _ = numbers()
    targets = {1: y, 2: _two_targets()}
    return audited(build().fit(X, targets[trained]), X, targets[told], new)


def _state_of_torch() -> bool:
    model = Ridge().fit(*numbers()[:2])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        rue.wrap(model)
        drawn = torch.rand(3)
        torch.manual_seed(0)
        return bool((drawn == torch.rand(3)).all())


def _kept(same_draw: bool) -> None:
    assert same_draw, "wrap drew from torch's global random state"


MISMATCH = Refused(ShapeError, "one target for each output|targets have shape")

SIBLINGS = [
    *(
        Attack(
            f"A pipeline fills in cells that were never missing in training, before {name}",
            lambda build=build: _filled(build),
            Warned("missing in columns that no training row lacks"),
        )
        for name, build in {"Ridge": Ridge, "a forest": lambda: _forest(), "neighbours": KNeighborsRegressor}.items()
    ),
    Attack(
        "Validation rows are the training rows of a model that knows them by heart",
        _learnt_by_heart,
        Refused(DataError, "training row"),
    ),
    Attack(
        "Neighbours were trained on one class", lambda: _one_class(KNeighborsClassifier), Refused(RueError, "class")
    ),
    Attack("Neighbours have two outputs and get one target", lambda: _outputs(KNeighborsRegressor, 2, 1), MISMATCH),
    Attack("Neighbours have one output and get two targets", lambda: _outputs(KNeighborsRegressor, 1, 2), MISMATCH),
    Attack("XGBoost has two outputs and gets one target", lambda: _outputs(extreme, 2, 1), MISMATCH),
    Attack(
        "CatBoost predicts three quantiles at once",
        lambda: _fitted(lambda: cat(loss_function="MultiQuantile:alpha=0.1,0.5,0.9")),
        Refused(RueError, "shape|output|quantile"),
    ),
    Attack(
        "Cells of the audited array are masked, to Ridge",
        lambda: _by_array(lambda X: np.ma.masked_greater(X, 60)),
        Refused(DataError, "mask"),
    ),
    Attack(
        "Ridge is wrapped between two draws of torch's random numbers",
        _state_of_torch,
        Right("the draw without it", _kept),
    ),
]


def _forest() -> RandomForestRegressor:
    return RandomForestRegressor(30, random_state=0)


def _red(document: dict[str, Any]) -> None:
    assert document["verdict"]["light"] == "red", document["verdict"]


# ------------------------------------------------------------------------------------------ classes


def _classified(build: Callable[[], Any], trained: Any, told: Any = None, **more: Any) -> rue.Audit:
    X, _, new, _ = numbers()
    return audited(build().fit(X, trained), X, trained if told is None else told, new, **more)


def labelled(build: Callable[[], Any], trained: Callable[[], Any]) -> Right:
    return own(lambda: build().fit(numbers()[0], trained()).predict(numbers()[2]))


def _same_labels(audit: rue.Audit) -> None:
    other = _classified(logistic, classes())
    np.testing.assert_allclose(audit.score, other.score, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(audit.prediction).astype(int), other.prediction)


def cat_classes() -> CatBoostClassifier:
    return CatBoostClassifier(iterations=25, depth=3, verbose=False, thread_count=1, allow_writing_files=False)


def xgb_classes(**told: Any) -> xgb.XGBClassifier:
    return xgb.XGBClassifier(n_estimators=25, max_depth=3, n_jobs=1, **told)


def _rare(count: int) -> np.ndarray:
    labels = np.zeros(ROWS, dtype=int)
    labels[np.argsort(numbers()[1])[-count:]] = 1
    return labels


def _log_loss(y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p = 1 / (1 + np.exp(-z))
    return p - y, p * (1 - p)


def _words_of(labels: np.ndarray) -> np.ndarray:
    return np.where(labels == 1, "yes", "no")


@cache
def voting() -> Any:
    return VotingClassifier([("l", logistic()), ("n", KNeighborsClassifier())], voting="hard")


CLASSES = [
    Attack(
        "Labels are truths, of logistic regression",
        lambda: _classified(logistic, classes() == 1),
        Right("the audit with 0 and 1", _same_labels),
    ),
    Attack(
        "Labels are truths, of CatBoost",
        lambda: _classified(cat_classes, classes() == 1),
        labelled(cat_classes, lambda: classes() == 1),
    ),
    Attack(
        "Labels are 1.5 and 2.5",
        lambda: _classified(KNeighborsClassifier, np.where(classes() == 1, "2.5", "1.5")),
        labelled(KNeighborsClassifier, lambda: np.where(classes() == 1, "2.5", "1.5")),
    ),
    Attack(
        "Labels were whole numbers in training and are given as floats",
        lambda: _classified(logistic, classes(), classes().astype(float)),
        Right("the audit with whole numbers", _same_labels),
    ),
    Attack(
        "Labels were whole numbers in training and are given as text",
        lambda: _classified(logistic, classes(), classes().astype(str)),
        Refused(DataError, "label|class"),
    ),
    Attack(
        "Labels are written with a capital letter in one row",
        lambda: _classified(
            logistic, _words_of(classes()), np.where(np.arange(ROWS) == 5, "Yes", _words_of(classes()))
        ),
        Refused(DataError, "Yes"),
    ),
    Attack(
        "A label is None",
        lambda: _classified(
            voted, _words_of(classes()), np.where(np.arange(ROWS) == 5, None, _words_of(classes()).astype(object))
        ),
        Refused(DataError, "None|label"),
    ),
    Attack(
        "Labels are categories in an order that is not that of the alphabet",
        lambda: _classified(
            logistic, pd.Series(pd.Categorical(_words_of(classes()), categories=["yes", "no"], ordered=True))
        ),
        labelled(logistic, lambda: _words_of(classes())),
    ),
    Attack(
        "Labels are given one-hot that were whole numbers in training",
        lambda: _classified(logistic, classes(), np.eye(2)[classes()]),
        Refused(RueError, "label|shape|class"),
    ),
    Attack(
        "Labels are exchanged: 0 for 1",
        lambda: _classified(voted, classes(), 1 - classes()),
        Warned("training fit"),
    ),
    Attack(
        "All training rows that are given have one label",
        lambda: audited(
            voted().fit(numbers()[0], classes()),
            numbers()[0][classes() == 1],
            classes()[classes() == 1],
            numbers()[2],
        ),
        Refused(RueError, "one class"),
    ),
    Attack(
        "A forest was trained on one class",
        lambda: _classified(lambda: RandomForestClassifier(20, random_state=0), np.ones(ROWS, dtype=int)),
        Refused(RueError, "class"),
    ),
    Attack(
        "LightGBM was trained on one class",
        lambda: _classified(voted, np.ones(ROWS, dtype=int)),
        Refused(RueError, "class"),
    ),
    Attack(
        "One row alone is of the second class, to neighbours",
        lambda: _classified(KNeighborsClassifier, _rare(1), refit=None),
        labelled(KNeighborsClassifier, lambda: _rare(1)),
    ),
    Attack(
        "Three rows are of the second class, to logistic regression",
        lambda: _classified(logistic, _rare(3)),
        labelled(logistic, lambda: _rare(3)),
    ),
    Attack(
        "LightGBM balances rare classes by itself",
        lambda: _classified(lambda: voted(is_unbalance=True), _rare(15)),
        labelled(lambda: voted(is_unbalance=True), lambda: _rare(15)),
    ),
    Attack(
        "XGBoost weighs positives twenty times",
        lambda: _classified(lambda: xgb_classes(scale_pos_weight=20), _rare(15)),
        labelled(lambda: xgb_classes(scale_pos_weight=20), lambda: _rare(15)),
    ),
    Attack(
        "XGBoost learns classes by an objective of the user's own",
        lambda: _classified(lambda: xgb_classes(objective=_log_loss), classes()),
        labelled(lambda: xgb_classes(objective=_log_loss), classes),
    ),
    Attack(
        "LightGBM learns classes by an objective of the user's own",
        lambda: _classified(lambda: voted(objective=_log_loss), classes()),
        Refused(ModelError, "probabilit|objective"),
    ),
    Attack(
        "A regressor was trained on classes",
        lambda: _classified(boosted, classes()),
        honest(
            lambda: boosted().fit(numbers()[0], classes()).predict(numbers()[2]),
            lambda: (numbers()[3] + np.random.default_rng(5).normal(size=NEW) > np.median(numbers()[1])).astype(int),
        ),
    ),
    Attack(
        "Support vectors decide without probabilities",
        lambda: _classified(lambda: make_pipeline(StandardScaler(), SVC(random_state=0)), three()),
        labelled(lambda: make_pipeline(StandardScaler(), SVC(random_state=0)), three),
    ),
    Attack("A vote by the majority decides", lambda: _classified(voting, three()), labelled(voting, three)),
    Attack(
        "Probabilities are calibrated by folds",
        lambda: _classified(lambda: CalibratedClassifierCV(KNeighborsClassifier()), three()),
        labelled(lambda: CalibratedClassifierCV(KNeighborsClassifier()), three),
    ),
    Attack(
        "A dummy draws its labels at random",
        lambda: _classified(
            lambda: DummyClassifier(strategy="stratified", random_state=np.random.RandomState(0)), classes()
        ),
        Refused(ModelError, "random|twice|two passes"),
    ),
    Attack(
        "A dummy always says the commonest class",
        lambda: _classified(lambda: DummyClassifier(strategy="most_frequent"), _rare(30)),
        Warned("training fit|class"),
    ),
    Attack(
        "Two labels are learnt for every row",
        lambda: _classified(
            lambda: MultiOutputClassifier(LogisticRegression(max_iter=2000)),
            np.stack([classes(), 1 - classes()], axis=1),
        ),
        Refused(RueError, ".{30}"),
    ),
    Attack(
        "XGBoost itself learns three classes and predicts labels",
        lambda: audited(_native_classes(), numbers()[0], three(), numbers()[2]),
        own(lambda: _native_classes().predict(xgb.DMatrix(numbers()[2])).astype(int)),
    ),
]


@cache
def _native_classes() -> xgb.Booster:
    told = {"objective": "multi:softmax", "num_class": 3, "max_depth": 3, "nthread": 1}
    return xgb.train(told, xgb.DMatrix(numbers()[0], three()), 20)


# ------------------------------------------------------------------------------------------ estimators


def _fitted(build: Callable[[], Any], y: Any = None, **told: Any) -> rue.Audit:
    X, targets, new, _ = numbers()
    y = targets if y is None else y
    return audited(build().fit(X, y), X, y, new, **told)


def predicted(build: Callable[[], Any], y: Callable[[], Any] = lambda: numbers()[1]) -> Callable[[], Any]:
    return lambda: build().fit(numbers()[0], y()).predict(numbers()[2])


def stacked() -> Any:
    return StackingRegressor([("r", Ridge()), ("n", KNeighborsRegressor())], final_estimator=Ridge())


def reciprocal() -> Any:
    return TransformedTargetRegressor(LinearRegression(), func=lambda y: 1 / y, inverse_func=lambda t: 1 / t)


def logged() -> Any:
    return TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp)


def _two_targets() -> np.ndarray:
    y = numbers()[1]
    return np.stack([y, 3 - 2 * y + np.random.default_rng(12).normal(size=ROWS)], axis=1)


def _partly() -> rue.Audit:
    X, y, new, _ = numbers()
    scaler = StandardScaler().fit(X)
    model = SGDRegressor(random_state=0).partial_fit(scaler.transform(X[:40]), y[:40])
    return audited(model, scaler.transform(X), y, scaler.transform(new))


def _grown_twice() -> rue.Audit:
    X, y, new, _ = numbers()
    forest = RandomForestRegressor(10, warm_start=True, random_state=0).fit(X[:80], y[:80])
    forest.set_params(n_estimators=20).fit(X[80:], y[80:])
    return audited(forest, X[80:], y[80:], new)


def _more_trees_wanted() -> rue.Audit:
    X, y, new, _ = numbers()
    forest = RandomForestRegressor(30, warm_start=True, random_state=0).fit(X, y)
    return audited(forest.set_params(n_estimators=60), X, y, new)


def _half_fitted() -> Any:
    pipeline = make_pipeline(StandardScaler(), Ridge())
    pipeline[0].fit(numbers()[0])
    return pipeline


def _search(**told: Any) -> GridSearchCV:
    return GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3, **told)


def _ranked(build: Callable[[], Any]) -> rue.Audit:
    X, y, new, _ = numbers()
    grades = np.digitize(y, np.quantile(y, [0.3, 0.6, 0.9]))
    return audited(build().fit(X, grades, group=[16] * 10), X, grades, new)


def _ranked_cat() -> rue.Audit:
    X, y, new, _ = numbers()
    grades = np.digitize(y, np.quantile(y, [0.3, 0.6, 0.9]))
    model = CatBoost(
        {
            "loss_function": "YetiRank",
            "iterations": 10,
            "verbose": False,
            "allow_writing_files": False,
            "thread_count": 1,
        }
    )
    return audited(model.fit(X, grades, group_id=np.repeat(np.arange(10), 16)), X, grades, new)


def _squares(y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return f - y, np.ones_like(f)


def _counts(y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.exp(f) - y, np.exp(f)


@cache
def _stopped(kind: str) -> Any:
    X, y, new, y_new = numbers()
    if kind == "LightGBM":
        return boosted(n_estimators=200, learning_rate=0.3).fit(
            X, y, eval_set=[(new, y_new)], callbacks=[lgb.early_stopping(3, verbose=False)]
        )
    if kind == "XGBoost":
        return extreme(n_estimators=200, early_stopping_rounds=3).fit(X, y, eval_set=[(new, y_new)], verbose=False)
    if kind == "CatBoost":
        return cat(iterations=200, early_stopping_rounds=3, learning_rate=0.5).fit(X, y, eval_set=(new, y_new))
    assert kind == "LightGBM itself"
    data = lgb.Dataset(X, y)
    return lgb.train(
        {"num_leaves": 6, "verbose": -1, "num_threads": 1, "learning_rate": 0.3},
        data,
        200,
        valid_sets=[lgb.Dataset(new, y_new, reference=data)],
        callbacks=[lgb.early_stopping(3, verbose=False)],
    )


def _coded_array(X: pd.DataFrame) -> np.ndarray:
    return _codes(X).to_numpy(dtype=float)


@cache
def _of_array() -> Any:
    X, y, _, _ = words()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return boosted().fit(_coded_array(X), y, categorical_feature=[3])


def _unseen_code() -> rue.Audit:
    X, y, new, _ = words()
    rows = _coded_array(new)
    rows[0, 3] = 99
    return audited(_of_array(), _coded_array(X), y, rows)


def _unseen_code_predicted() -> np.ndarray:
    rows = _coded_array(words()[2])
    rows[0, 3] = 99
    return _of_array().predict(rows)


@cache
def _target_encoded() -> Any:
    X, y, _, _ = words()
    coded = make_column_transformer((TargetEncoder(random_state=0), ["ward"]), remainder="passthrough")
    return make_pipeline(coded, Ridge()).fit(X, y)


def _isotonic() -> rue.Audit:
    X, y, new, _ = numbers()
    model = IsotonicRegression(out_of_bounds="clip").fit(X[["dose"]], y)
    return audited(model, X[["dose"]], y, new[["dose"]])


def process() -> Any:
    return make_pipeline(StandardScaler(), GaussianProcessRegressor())


def network() -> Any:
    return make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(30,), early_stopping=True, max_iter=300, random_state=0)
    )


BOOSTED: dict[str, Callable[[], Any]] = {
    "LightGBM drops trees (dart)": lambda: boosted(boosting_type="dart", n_estimators=40),
    "LightGBM has lines in its leaves": lambda: boosted(linear_tree=True),
    "LightGBM is held to monotone effects": lambda: boosted(monotone_constraints=[1, 1, 0, 0, 0]),
    "LightGBM learns squares by an objective of the user's own": lambda: boosted(objective=_squares),
    "XGBoost is linear": lambda: extreme(booster="gblinear", n_estimators=200),
    "XGBoost is a forest": lambda: xgb.XGBRFRegressor(n_estimators=25, max_depth=4, n_jobs=1),
    "CatBoost learns the absolute error": lambda: cat(loss_function="MAE", iterations=60),
    "Neighbours are weighed by their distance": lambda: KNeighborsRegressor(weights="distance"),
    "A Gaussian process goes through every training row": process,
    "A network held rows out to stop by": network,
    "Estimators are stacked": stacked,
    "A dummy says the mean": DummyRegressor,
    "Lasso has thrown every column out": lambda: Lasso(alpha=1e4, random_state=0),
    "A forest takes half of the rows for each tree": lambda: RandomForestRegressor(40, max_samples=0.5, random_state=0),
    "LightGBM learns the upper decile": lambda: boosted(objective="quantile", alpha=0.9, n_estimators=50),
    "CatBoost learns the upper decile": lambda: cat(loss_function="Quantile:alpha=0.9", iterations=60),
    "A line is put through the upper decile": lambda: QuantileRegressor(quantile=0.9, alpha=0),
}

ESTIMATORS = [
    *(
        Attack(name, lambda build=build: _fitted(build), honest(predicted(build), lambda: numbers()[3]))
        for name, build in BOOSTED.items()
    ),
    Attack(
        "LightGBM learns counts by an objective of the user's own and predicts logarithms",
        lambda: _fitted(lambda: boosted(objective=_counts), np.round(numbers()[1])),
        Warned("training fit|scal"),
    ),
    *(
        Attack(
            f"{kind} stopped early, and predicts with its best trees",
            lambda kind=kind: audited(_stopped(kind), *numbers()[:3]),
            own(lambda kind=kind: _stopped(kind).predict(numbers()[2])),
        )
        for kind in ("LightGBM", "LightGBM itself", "XGBoost", "CatBoost")
    ),
    Attack(
        "LightGBM ranks",
        lambda: _ranked(lambda: lgb.LGBMRanker(n_estimators=9, verbose=-1)),
        Refused(ModelError, "rank"),
    ),
    Attack("XGBoost ranks", lambda: _ranked(lambda: xgb.XGBRanker(n_estimators=9)), Refused(ModelError, "rank")),
    Attack("CatBoost ranks", _ranked_cat, Refused(ModelError, "rank")),
    Attack(
        "XGBoost predicts three quantiles at once",
        lambda: _fitted(lambda: extreme(objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9])),
        Refused(RueError, "shape|output|quantile"),
    ),
    Attack("A category is a number that training never had", _unseen_code, doubted(_unseen_code_predicted)),
    Attack(
        "Categories are coded by the mean of their targets, otherwise in training than later",
        lambda: audited(_target_encoded(), *words()[:3]),
        honest(lambda: _target_encoded().predict(words()[2]), lambda: words()[3]),
    ),
    Attack("A monotone curve takes one column", _isotonic, own(lambda: _isotonic_predicted())),
    Attack(
        "Targets were learnt as reciprocals, which turn intervals round",
        lambda: _fitted(reciprocal),
        Refused(ModelError, "order"),
    ),
    Attack(
        "Targets are given as logarithms to a model that takes them itself",
        lambda: audited(logged().fit(numbers()[0], numbers()[1]), numbers()[0], np.log(numbers()[1]), numbers()[2]),
        Refused(RueError, "target"),
    ),
    Attack(
        "A model of two outputs is put together of two",
        lambda: _fitted(lambda: MultiOutputRegressor(Ridge()), _two_targets()),
        own(predicted(lambda: MultiOutputRegressor(Ridge()), _two_targets)),
    ),
    Attack(
        "Ridge has a penalty for each of two outputs",
        lambda: _fitted(lambda: Ridge(alpha=np.array([0.1, 50.0])), _two_targets()),
        Right("Ridge with one output and its own penalty", lambda audit: _column_by_column(audit)),
    ),
    Attack("SGD was shown a quarter of the rows once", _partly, Warned("rest|training fit")),
    Attack("A forest was grown on one table and then on another", _grown_twice, Refused(DataError, "rows")),
    Attack(
        "A forest is told of more trees, and not grown further",
        _more_trees_wanted,
        same(lambda: sound("forest")),
    ),
    Attack(
        "A pipeline is fitted but for its last step",
        lambda: audited(_half_fitted(), *numbers()[:3]),
        Refused(ModelError, "not fitted"),
    ),
    Attack("A search is not fitted", lambda: audited(_search(), *numbers()[:3]), Refused(ModelError, "not fitted|fit")),
    Attack(
        "A search keeps no best estimator",
        lambda: audited(_search(refit=False).fit(*numbers()[:2]), *numbers()[:3]),
        Refused(ModelError, "refit|fit"),
    ),
    Attack(
        "A model that finds outliers is audited",
        lambda: _fitted(lambda: IsolationForest(n_estimators=20, random_state=0)),
        Refused(RueError, ".{30}"),
    ),
    Attack(
        "A mixture of clusters is audited",
        lambda: _fitted(lambda: GaussianMixture(2, random_state=0), classes()),
        Refused(RueError, ".{30}"),
    ),
    Attack(
        "Principal components are audited",
        lambda: audited(PCA(2).fit(numbers()[0]), *numbers()[:3]),
        Refused(ModelError, "predict|wrap|read"),
    ),
    Attack(
        "A pipeline ends in a transformer",
        lambda: audited(make_pipeline(StandardScaler(), PCA(2)).fit(numbers()[0]), *numbers()[:3]),
        Refused(ModelError, "predict|wrap|read"),
    ),
    Attack(
        "A ranker of CatBoost is wrapped",
        lambda: rue.wrap(_cat_ranker()),
        Refused(ModelError, "rank"),
    ),
]


def _cat_ranker() -> CatBoostRanker:
    X, y, _, _ = numbers()
    model = CatBoostRanker(iterations=9, verbose=False, allow_writing_files=False, thread_count=1)
    return model.fit(X, np.digitize(y, [6, 9, 12]), group_id=np.repeat(np.arange(10), 16))


def _isotonic_predicted() -> np.ndarray:
    X, y, new, _ = numbers()
    return IsotonicRegression(out_of_bounds="clip").fit(X[["dose"]], y).predict(new[["dose"]])


def _column_by_column(audit: rue.Audit) -> None:
    X, _, new, _ = numbers()
    y = _two_targets()
    for k, alpha in enumerate((0.1, 50.0)):
        other = audited(Ridge(alpha=alpha).fit(X, y[:, k]), X, y[:, k], new)
        np.testing.assert_allclose(audit.prediction[:, k], other.prediction, rtol=1e-6)
        np.testing.assert_allclose(audit.std[:, k], other.std, rtol=1e-4)


# ------------------------------------------------------------------------------------------ files


def _from_file(name: str, write: Callable[[Path], Any], *, as_text: bool = False, **told: Any) -> rue.Audit:
    """A model by its path."""
    X, y, new, _ = numbers()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return audited(str(path) if as_text else path, told.pop("X", X), told.pop("y", y), told.pop("new", new), **told)


def _lgb_array_file() -> rue.Audit:
    """Trained on an array: the file knows no names, the tables have them, the audited one backwards."""
    X, y, new, _ = numbers()
    model = boosted().fit(X.to_numpy(), y)
    return _from_file("m.txt", lambda path: model.booster_.save_model(path), new=new[new.columns[::-1]])


FILES = [
    Attack("The file of a model is not there", lambda: _from_file("m.txt", lambda _: None), Refused(RueError, "m.txt")),
    Attack(
        "The file of a model is a folder", lambda: _from_file("m.txt", lambda p: p.mkdir()), Refused(RueError, "m.txt")
    ),
    Attack(
        "The file of a model is empty",
        lambda: _from_file("m.json", lambda p: p.write_text("")),
        Refused(RueError, "m.json"),
    ),
    Attack(
        "A model of XGBoost is called .txt",
        lambda: _from_file(
            "m.txt", lambda p: p.write_bytes(plainly("XGBoost").get_booster().save_raw("json")), as_text=True
        ),
        Refused(RueError, "LightGBM|m.txt"),
    ),
    Attack(
        "A model of LightGBM is called .json",
        lambda: _from_file("m.json", lambda p: plainly("LightGBM").booster_.save_model(p), as_text=True),
        Refused(RueError, "XGBoost|JSON|m.json"),
    ),
    Attack(
        "A model of LightGBM is written by dump_model as JSON",
        lambda: _from_file("m.json", lambda p: p.write_text(json.dumps(plainly("LightGBM").booster_.dump_model()))),
        Refused(RueError, "XGBoost|m.json"),
    ),
    Attack(
        "A model of CatBoost is written as JSON",
        lambda: _from_file("m.json", lambda p: plainly("CatBoost").save_model(str(p), format="json")),
        Refused(RueError, "XGBoost|m.json"),
    ),
    Attack(
        "A model of CatBoost is given by its file",
        lambda: _from_file("m.cbm", lambda p: plainly("CatBoost").save_model(str(p))),
        same(lambda: sound("CatBoost"), rtol=1e-3),
    ),
    Attack(
        "A table is given as the file of a model",
        lambda: _from_file("m.txt", lambda p: numbers()[0].to_csv(p)),
        Refused(RueError, "LightGBM|m.txt"),
    ),
    Attack(
        "A file of LightGBM that learnt from an array meets a table whose columns are backwards",
        _lgb_array_file,
        same(lambda: sound("LightGBM"), rtol=1e-3),
    ),
    Attack(
        "A file of XGBoost has a capital letter in its ending",
        lambda: _from_file("m.JSON", lambda p: p.write_bytes(plainly("XGBoost").get_booster().save_raw("json"))),
        same(lambda: sound("XGBoost"), rtol=1e-3),
    ),
    Attack(
        "A file of XGBoost was stopped early",
        lambda: _from_file("m.json", lambda p: _stopped("XGBoost").save_model(p)),
        own(lambda: _stopped("XGBoost").get_booster().predict(xgb.DMatrix(numbers()[2]))),
    ),
    Attack(
        "A file of a classifier meets labels that are words",
        lambda: _from_file(
            "m.txt",
            lambda p: voted().fit(numbers()[0], _words_of(classes())).booster_.save_model(p),
            y=_words_of(classes()),
        ),
        Refused(DataError, "text"),
    ),
    Attack(
        "A file of LightGBM ranks",
        lambda: _from_file("m.txt", lambda p: _ranker().booster_.save_model(p)),
        Refused(ModelError, "rank"),
    ),
    Attack(
        "A file of XGBoost is linear",
        lambda: _from_file("m.json", lambda p: extreme(booster="gblinear").fit(*numbers()[:2]).save_model(p)),
        Refused(RueError, "linear"),
    ),
    Attack(
        "A file of LightGBM learnt the upper decile",
        lambda: _from_file("m.txt", lambda p: _decile().booster_.save_model(p)),
        Refused(ModelError, "quantile"),
    ),
]


@cache
def _ranker() -> lgb.LGBMRanker:
    X, y, _, _ = numbers()
    return lgb.LGBMRanker(n_estimators=9, verbose=-1).fit(X, np.digitize(y, [6, 9, 12]), group=[16] * 10)


@cache
def _decile() -> lgb.LGBMRegressor:
    return boosted(objective="quantile", alpha=0.9, n_estimators=50).fit(*numbers()[:2])


# ------------------------------------------------------------------------------------------ the command line


def reported(
    model: Callable[[], Any],
    train: pd.DataFrame | str,
    new: pd.DataFrame | str,
    *told: str,
) -> dict[str, Any]:
    """`rue report` on files in a folder of its own; an exit with a sentence becomes the error it is."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        model().booster_.save_model(at / "model.txt")
        for name, table in {"train.csv": train, "new.csv": new}.items():
            (at / name).write_text(table if isinstance(table, str) else table.to_csv(index=False), encoding="utf-8")
        files = [str(at / name) for name in ("model.txt", "train.csv", "new.csv")]
        command = ["rue", "report", *files, "--out", str(at / "audit.html"), *(told or ("--target", "y"))]
        with (
            patch.object(sys, "argv", command),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            try:
                runpy.run_module("rue", run_name="__main__")
                code: Any = 0
            except SystemExit as left:
                code = left.code
        if code:
            raise InputError(" ".join(printed.getvalue().split()))
        return json.loads((at / "audit.json").read_text(encoding="utf-8"))


def tables(X: pd.DataFrame | None = None, new: pd.DataFrame | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows, y, later, _ = numbers()
    return (rows if X is None else X).assign(y=y), (later if new is None else new)[:20]


def predicts(wanted: Callable[[], Any]) -> Right:
    def check(document: dict[str, Any]) -> None:
        np.testing.assert_allclose(document["predictions"]["values"]["prediction"], wanted()[:20], rtol=1e-4)

    return Right("LightGBM's own predictions", check)


def _plain_wanted() -> np.ndarray:
    return plainly("LightGBM").predict(numbers()[2])


def _of_plain(train: Any = None, new: Any = None, *told: str) -> dict[str, Any]:
    first, second = tables()
    return reported(
        lambda: plainly("LightGBM"), first if train is None else train, second if new is None else new, *told
    )


def _german(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, sep=";", decimal=",")


@cache
def _with_na() -> Any:
    X, y, _, _ = words()
    return boosted().fit(categories(_na(X), ["NA", "east", "west"]), y)


LINE = [
    Attack(
        "Command line: tables have semicolons and decimal commas",
        lambda: _of_plain(_german(tables()[0]), _german(tables()[1])),
        Refused(InputError, "y|column|;"),
    ),
    Attack(
        "Command line: one column of the audited table has decimal commas",
        lambda: _of_plain(None, tables()[1].assign(dose=[f"{v:.3f}".replace(".", ",") for v in tables()[1].dose])),
        Refused(InputError, "dose"),
    ),
    Attack(
        "Command line: one column of both tables has decimal commas",
        lambda: _of_plain(*(t.assign(dose=[f"{v:.3f}".replace(".", ",") for v in t.dose]) for t in tables())),
        Refused(InputError, "categorical"),
    ),
    Attack(
        "Command line: numbers have a sign for per cent",
        lambda: _of_plain(*(t.assign(dose=[f"{v:.3f}%" for v in t.dose]) for t in tables())),
        Refused(InputError, "categorical"),
    ),
    Attack(
        "Command line: the target has another name",
        lambda: _of_plain(None, None, "--target", "Y"),
        Refused(InputError, "Y"),
    ),
    Attack(
        "Command line: a header has blanks",
        lambda: _of_plain(None, tables()[1].rename(columns={"dose": " dose"})),
        Refused(InputError, "dose"),
    ),
    Attack(
        "Command line: files begin with a mark of byte order",
        lambda: _of_plain(*("\ufeff" + t.to_csv(index=False) for t in tables())),
        predicts(_plain_wanted),
    ),
    Attack(
        "Command line: the index was written as a column without a name",
        lambda: _of_plain(*(t.to_csv() for t in tables())),
        predicts(_plain_wanted),
    ),
    Attack(
        "Command line: the same table is given for training and to audit",
        lambda: _of_plain(tables()[0], tables()[0][:20]),
        Right("the light of the report", _red),
    ),
    Attack(
        "Command line: a target of training is missing",
        lambda: _of_plain(tables()[0].assign(y=tables()[0].y.mask(np.arange(ROWS) == 3))),
        Refused(InputError, "y|NaN|missing"),
    ),
    Attack(
        "Command line: a ward is called NA",
        lambda: reported(_with_na, *tables(_na(words()[0]), _na(words()[2]))),
        predicts(lambda: _with_na().predict(categories(_na(words()[2]), ["NA", "east", "west"]))),
    ),
    Attack(
        "Command line: wards are numbers that were categories",
        lambda: reported(_of_codes, *tables(_codes(words()[0]), _codes(words()[2]))),
        predicts(lambda: _of_codes().predict(_coded(words()[2]))),
    ),
    Attack(
        "Command line: truths are written as words",
        lambda: reported(lambda: _truths()[0], *tables(_truths()[1], _truths()[2])),
        predicts(lambda: _truths()[0].predict(_truths()[2])),
    ),
    Attack(
        "Command line: the audited table lacks some wards of training",
        lambda: reported(
            with_categories, *tables(words()[0], words()[2][words()[2].ward == "west"].reset_index(drop=True))
        ),
        predicts(lambda: with_categories().predict(categories(words()[2][words()[2].ward == "west"]))),
    ),
    Attack(
        "Command line: the training table is another than that of the model",
        lambda: _of_plain(_wide(people(ROWS, 77)[0]).assign(y=people(ROWS, 77)[1])),
        predicts(_plain_wanted),
    ),
]


SECTIONS = {
    "Independent trial: frames": FRAMES,
    "Independent trial: arrays": ARRAYS,
    "Independent trial: units": UNITS,
    "Independent trial: rows of training and weights": TRAINING,
    "Independent trial: classes": CLASSES,
    "Independent trial: estimators": ESTIMATORS,
    "Independent trial: files": FILES,
    "Independent trial: the command line": LINE,
    "Independent trial: siblings of what was found": SIBLINGS,
}
