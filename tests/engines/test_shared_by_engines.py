"""Sums of a fit driven by Ray and by Spark, two workers each: the bits of one process."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "engines"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A file of rows, and the audit of a network on them by this process."""
    on_ray = pytest.importorskip("on_ray", reason="needs the environment that `make test-engines` makes")
    import rue

    path = str(tmp_path_factory.mktemp("rows") / "rows.parquet")
    on_ray.write_rows(path)
    model, rows = on_ray.fitted_network(path)
    return path, rue.CalibratedRUE().fit(model, rows).audit(rows[0][:200])


def same(auditor, alone):
    path, audit = alone
    from on_ray import rows_of

    other = auditor.audit(rows_of(path)[0][:200])
    for name in ("prediction", "std", "total_std", "score"):
        np.testing.assert_array_equal(getattr(audit, name), getattr(other, name))
    assert audit.facts["warnings"] == other.facts["warnings"]


@pytest.mark.filterwarnings("ignore")  # of the engines' own
def test_two_workers_of_ray_give_the_bits_of_one_process(alone):
    import on_ray
    import ray

    found = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}  # workers import the example too
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=found)
    try:
        same(on_ray.fit(alone[0]), alone)
    finally:
        ray.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_two_workers_of_spark_give_the_bits_of_one_process(alone, monkeypatch):
    import on_spark

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    session = on_spark.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        same(on_spark.fit(session, alone[0]), alone)
    finally:
        session.stop()
