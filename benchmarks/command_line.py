"""`rue audit` of many rows of Parquet: memory and time, beside the model's own predictions of the same rows.

`python benchmarks/command_line.py [ROWS]` replaces `docs/models/command_line.csv`; 10 million rows take
half an hour. Rows are simulated,
20 columns, and each command runs on one thread in a process of its own.
"""

import argparse
import csv
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow.parquet import ParquetWriter

PAGE = Path(__file__).parent.parent / "docs" / "models" / "command_line.csv"
NAMES = [f"x{j:02d}" for j in range(20)]
TRAINED, GROUP = 2_000, 500_000  # training rows; rows of a group in the file
COLUMNS = ("rows", "command", "wall_s", "cpu_s", "rows_per_cpu_s", "peak_mib")
BARE = """
import sys
import lightgbm, pyarrow as pa, pyarrow.parquet as pq
booster, writer = lightgbm.Booster(model_file="model.txt"), None
for batch in pq.ParquetFile("new.parquet", pre_buffer=False).iter_batches(16_384):
    said = booster.predict(batch.drop_columns(["id"]).to_pandas(), num_threads=1)
    table = pa.table({"id": batch.column("id"), "prediction": said})
    writer = writer or pq.ParquetWriter("bare.parquet", table.schema)
    writer.write_table(table)
writer.close()
"""


def drawn(draw: np.random.Generator, n: int) -> pd.DataFrame:
    X = draw.normal(size=(n, len(NAMES)))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] * X[:, 3] + 0.3 * draw.normal(size=n)
    return pd.DataFrame(X, columns=NAMES).assign(y=y)


def prepare(n: int) -> None:
    """Write model.txt, train.parquet, new.parquet and model.rue into this folder."""
    from lightgbm import LGBMRegressor

    draw = np.random.default_rng(0)
    train, writer = drawn(draw, TRAINED), None
    train.to_parquet("train.parquet")
    LGBMRegressor(verbose=-1, n_jobs=1).fit(train[NAMES], train["y"]).booster_.save_model("model.txt")
    for first in range(0, n, GROUP):
        rows = drawn(draw, min(GROUP, n - first)).drop(columns="y")
        rows.insert(0, "id", np.arange(first, first + len(rows)))
        table = pa.Table.from_pandas(rows, preserve_index=False)
        writer = writer or ParquetWriter("new.parquet", table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    fit = [sys.executable, "-m", "rue", "fit", "model.txt", "train.parquet", "--target", "y", "--out", "model.rue"]
    subprocess.run(fit, check=True, capture_output=True)


AUDIT = (
    "-m",
    "rue",
    "audit",
    "model.txt",
    "new.parquet",
    "--fitted",
    "model.rue",
    "--id",
    "id",
    "--out",
    "out.parquet",
)


def measured(n: int, name: str, command: tuple[str, ...]) -> dict[str, Any]:
    """Wall and processor seconds, and the most memory, of a command of Python in a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, command
    seconds = used.ru_utime + used.ru_stime
    return {
        "rows": n,
        "command": name,
        "wall_s": round(time.perf_counter() - start, 1),
        "cpu_s": round(seconds, 1),
        "rows_per_cpu_s": round(n / seconds),
        "peak_mib": round(used.ru_maxrss / 1024),
    }


def killed() -> None:
    """Killed when some rows are written, nothing stands under the final name."""
    process = subprocess.Popen([sys.executable, *AUDIT[:-1], "killed.parquet"], stderr=subprocess.DEVNULL)
    while not any(part.stat().st_size for part in Path().glob(".rue-*")):
        assert process.poll() is None
        time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not Path("killed.parquet").exists()
    print("killed half-way: nothing stands under the final name")


def main() -> None:
    """Measure tables of a hundredth, a tenth and all of the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=lambda text: int(float(text)), default=10_000_000)
    asked = parser.parse_args().rows
    os.environ["OMP_NUM_THREADS"] = "1"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    found = []
    for n in (asked // 100, asked // 10, asked):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            prepare(n)
            for name, command in (("LightGBM, its predictions", ("-c", BARE)), ("rue audit", AUDIT)):
                found.append(measured(n, name, command))
                print(found[-1], flush=True)
            audited = pd.read_parquet("out.parquet", columns=["id", "prediction"])
            bare = pd.read_parquet("bare.parquet")
            np.testing.assert_array_equal(audited["id"], bare["id"])
            np.testing.assert_allclose(audited["prediction"], bare["prediction"], rtol=1e-5, atol=1e-9)
            if n == asked:
                killed()
            os.chdir("/")
    with PAGE.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(found)


if __name__ == "__main__":
    main()
