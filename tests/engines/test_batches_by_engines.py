"""Stored audits of batches that Ray, Spark, Dask, Polars and DuckDB hand out: the bits of one process."""

import os
import sys

import numpy as np
import pytest

pytest.importorskip("ray", reason="needs the environment that `make test-engines` makes")
pa = pytest.importorskip("pyarrow")
ROWS = 20_000
NAMES = ["a", "b", "c", "d"]
pytestmark = pytest.mark.filterwarnings("ignore")  # those of the engines


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A stored audit as a function of batches, a table of rows, and what one process says of them."""
    import torch

    import rue

    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
    draw = np.random.default_rng(0)
    X = draw.normal(size=(500, 4))
    model = rue.wrap(net, loss="squared_error", l2=1.0)
    path = tmp_path_factory.mktemp("stored") / "a.rue"
    rue.LinearRUE().fit(model, (X, X[:, 0] + 0.1 * draw.normal(size=500))).save(path)
    rows = pa.table({"id": np.arange(ROWS), **{name: draw.normal(size=ROWS) for name in NAMES}})
    audited = rue.batches(path, model, keep=("id",))
    return audited, rows, audited(rows).to_pandas().set_index("id")


def same(found, wanted):
    found = found.set_index("id").loc[wanted.index]
    assert list(found.columns) == list(wanted.columns)
    for name in wanted.columns:
        np.testing.assert_array_equal(found[name].to_numpy(), wanted[name].to_numpy(), err_msg=name)


def test_ray(stored):
    import ray

    audited, rows, wanted = stored
    paths = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=paths)
    try:
        data = ray.data.from_arrow(rows).repartition(2)
        same(data.map_batches(audited, batch_format="pyarrow", batch_size=4096).to_pandas(), wanted)
    finally:
        ray.shutdown()


def test_spark(stored, monkeypatch):
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema

    audited, rows, wanted = stored
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = session.createDataFrame(rows.to_pandas())
        schema = from_arrow_schema(audited.schema(rows.slice(0, 2)))
        same(frame.mapInArrow(audited, schema).toPandas(), wanted)
    finally:
        session.stop()


def test_dask(stored):
    import dask.dataframe as dd

    audited, rows, wanted = stored
    frame = dd.from_pandas(rows.to_pandas(), npartitions=4)
    meta = audited(rows.slice(0, 2)).to_pandas().iloc[:0]

    def of_part(part):
        return audited(pa.Table.from_pandas(part, preserve_index=False)).to_pandas()

    mapped = frame.map_partitions(of_part, meta=meta)
    same(mapped.compute(scheduler="processes", num_workers=2), wanted)


def test_polars(stored):
    import polars as pl

    audited, rows, wanted = stored
    frame = pl.from_arrow(rows)
    parts = [pl.from_arrow(audited(part.to_arrow())) for part in frame.iter_slices(5000)]
    same(pl.concat(parts).to_pandas(), wanted)


def test_duckdb(stored):
    import duckdb

    audited, rows, wanted = stored
    connection = duckdb.connect()
    connection.register("patients", rows)
    reader = connection.execute("select * from patients where id >= 0").to_arrow_reader(4096)
    audits = pa.Table.from_batches(audited(reader))
    connection.register("audits", audits)
    found = connection.execute("select * from audits order by score desc").to_arrow_table()
    assert (np.diff(found.column("score").to_numpy()) <= 0).all()
    same(found.to_pandas(), wanted)
