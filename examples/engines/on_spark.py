"""Fit an audit on a Spark cluster: its sums over training rows are made by `mapInArrow`, to the bit as by one process.

Every executor reads the rows itself, here from a Parquet file that all can read; only sums travel. Run
`python examples/engines/on_spark.py` after `pip install pyspark`, where there is Java.
"""

import io
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from on_ray import fitted_network, rows_of, write_rows
from pyspark.sql import SparkSession
from rue.sharing import Part, Sent, Sums

import rue


@dataclass(frozen=True)
class SparkWorkers:
    """Tasks of a Spark session that share the sums of a fit."""

    spark: SparkSession
    path: str
    count: int = 2

    def sums(self, part: Part, blocks: Sequence, nodes: Sequence[range]) -> list[Sums]:
        """Give every partition some nodes."""
        sent, path, nodes = Sent.of(part, blocks), self.path, list(nodes)

        def on_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            torch.set_num_threads(1)
            data = rows_of(path)
            for number in (number for batch in batches for number in batch.column(0).to_pylist()):
                sums = sent.added(data, nodes[number])
                packed = io.BytesIO()
                np.savez(packed, *(each.numpy() for each in sums))
                yield pa.RecordBatch.from_pydict({"number": [number], "sums": [packed.getvalue()]})

        numbers = self.spark.range(0, len(nodes), 1, self.count)
        rows = sorted(numbers.mapInArrow(on_executor, SCHEMA).collect(), key=lambda row: row.number)
        return [tuple(map(torch.from_numpy, np.load(io.BytesIO(row.sums)).values())) for row in rows]


SCHEMA = "number long, sums binary"


def fit(spark: SparkSession, path: str, workers: int = 2) -> rue.Auditor:
    """The audit of a network on the rows of a file, by so many workers."""
    model, rows = fitted_network(path)
    with rue.workers(SparkWorkers(spark, path, workers)):
        return rue.CalibratedRUE().fit(model, rows)


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "rows.parquet")
        write_rows(file)
        print(fit(session, file).audit(rows_of(file)[0][:5]).to_frame().round(2))
    session.stop()
