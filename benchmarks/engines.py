"""Rows a second of stored audits inside Spark, Ray, Dask, Polars and DuckDB, beside the bare model in the same engine.

`.venv-engines/bin/python benchmarks/engines.py [ROWS]` replaces `docs/models/engines.csv`. Two workers; the default
audit of a network and its bare predictions, one after the other in one run; every audit is compared with that of one
process, bit by bit. Rows are simulated, and are whole batches for every worker.
"""

import argparse
import csv
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

import rue

PAGE = Path(__file__).parent.parent / "docs" / "models" / "engines.csv"
NAMES = ["a", "b", "c", "d"]
COLUMNS = ("engine", "rows", "model_rows_per_s", "audit_rows_per_s", "times_as_long", "same_bits")
BATCH = 8192
WORKERS = 2

Mapped = Callable[[Any], Any]
"""From a record batch or table to one; of many record batches, an iterator."""


@dataclass(frozen=True)
class Bare:
    """The predictions of the model alone, as `rue.batches` would be called."""

    net: torch.nn.Module

    def __call__(self, rows: Any) -> Any:
        if isinstance(rows, pa.Table):
            return pa.Table.from_batches([self._said(rows)])
        return self._said(rows) if isinstance(rows, pa.RecordBatch) else map(self._said, rows)

    def schema(self, few: Any) -> Any:
        return self._said(few).schema

    def _said(self, rows: Any) -> Any:
        columns = [np.asarray(rows.column(name)) for name in NAMES]
        with torch.no_grad():
            said = self.net(torch.from_numpy(np.stack(columns, 1)))[:, 0].numpy()
        ids = rows.column("id")
        return pa.RecordBatch.from_pydict(
            {"id": ids.combine_chunks() if hasattr(ids, "combine_chunks") else ids, "prediction": said}
        )


def of_ray(rows: pa.Table, mapped: Mapped) -> pd.DataFrame:
    import ray

    data = ray.data.from_arrow(rows).repartition(WORKERS * 4)
    return data.map_batches(mapped, batch_format="pyarrow", batch_size=BATCH).to_pandas()


def of_spark(rows: pa.Table, mapped: Mapped) -> pd.DataFrame:
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema

    session = SparkSession.builder.getOrCreate()
    frame = session.createDataFrame(rows.to_pandas())
    return frame.mapInArrow(mapped, from_arrow_schema(mapped.schema(rows.slice(0, 2)))).toPandas()


def of_dask(rows: pa.Table, mapped: Mapped) -> pd.DataFrame:
    import dask.dataframe as dd

    frame = dd.from_pandas(rows.to_pandas(), chunksize=4 * BATCH)

    def of_part(part: pd.DataFrame) -> pd.DataFrame:
        table = pa.Table.from_pandas(part, preserve_index=False)
        said = [mapped(batch) for batch in table.to_batches(max_chunksize=BATCH)]
        return pa.Table.from_batches(said).to_pandas()

    meta = mapped(rows.slice(0, 2)).to_pandas().iloc[:0]
    return frame.map_partitions(of_part, meta=meta).compute(scheduler="processes", num_workers=WORKERS)


def of_polars(rows: pa.Table, mapped: Mapped) -> pd.DataFrame:
    import polars as pl
    from joblib import Parallel, delayed

    parts = (part.to_arrow() for part in pl.from_arrow(rows).iter_slices(BATCH))
    said = Parallel(WORKERS)(delayed(mapped)(part) for part in parts)
    return pl.concat([pl.from_arrow(part) for part in said]).to_pandas()


def of_duckdb(rows: pa.Table, mapped: Mapped) -> pd.DataFrame:
    import duckdb
    from joblib import Parallel, delayed

    connection = duckdb.connect()
    connection.register("patients", rows)
    reader = connection.execute("select * from patients").to_arrow_reader(BATCH)
    said = pa.Table.from_batches(Parallel(WORKERS)(delayed(mapped)(batch) for batch in reader))
    connection.register("audits", said)
    return connection.execute("select * from audits").to_arrow_table().to_pandas()


ENGINES = {"Spark": of_spark, "Ray": of_ray, "Dask": of_dask, "Polars": of_polars, "DuckDB": of_duckdb}


def started() -> None:
    """Start what has to be started before anything is timed."""
    import ray
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    paths = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}}
    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, runtime_env=paths)
    made = SparkSession.builder.master(f"local[{WORKERS}]").config("spark.ui.enabled", "false")
    made.config("spark.driver.memory", "4g").config("spark.sql.execution.arrow.maxRecordsPerBatch", BATCH).config(
        "spark.sql.execution.arrow.pyspark.enabled", "true"
    ).getOrCreate()


def prepared(folder: str, n: int) -> tuple[Mapped, Mapped, pa.Table]:
    """A stored audit of a network, the network alone, and rows."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(2_000, len(NAMES)))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * draw.normal(size=len(X))
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(torch.from_numpy(X))[:, 0], torch.from_numpy(y)).backward()
        optimizer.step()
    model = rue.wrap(net, loss=torch.nn.MSELoss())
    rue.CalibratedRUE().fit(model, (X, y)).save(f"{folder}/a.rue")
    rows = pa.table({"id": np.arange(n), **{name: draw.normal(size=n) for name in NAMES}})
    return rue.batches(f"{folder}/a.rue", model, keep=("id",)), Bare(net), rows


def timed(engine: Callable[[pa.Table, Mapped], pd.DataFrame], rows: pa.Table, mapped: Mapped) -> tuple[float, Any]:
    """Seconds, and the frame in the order of its ids; a few rows first, so that workers are there."""
    engine(rows.slice(0, 4 * BATCH), mapped)
    start = time.perf_counter()
    frame = engine(rows, mapped)
    return time.perf_counter() - start, frame.set_index("id").sort_index()


def main() -> None:
    """Every engine, the bare model and the audit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=lambda text: int(float(text)), default=2**20)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    started()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        audited, bare, rows = prepared(folder, asked.rows)
        batches = rows.to_batches(max_chunksize=BATCH)
        wanted = pa.Table.from_batches(audited(iter(batches))).to_pandas().set_index("id")
        for name in asked.engines:
            alone, _ = timed(ENGINES[name], rows, bare)
            seconds, frame = timed(ENGINES[name], rows, audited)
            same = all(np.array_equal(frame[column].to_numpy(), wanted[column].to_numpy()) for column in wanted)
            found.append(
                {
                    "engine": name,
                    "rows": asked.rows,
                    "model_rows_per_s": round(asked.rows / alone),
                    "audit_rows_per_s": round(asked.rows / seconds),
                    "times_as_long": round(seconds / alone, 1),
                    "same_bits": same,
                }
            )
            print(found[-1], flush=True)
    with PAGE.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(found)


if __name__ == "__main__":
    main()
