"""Raw scores of model files by their own libraries, in a process of its own: a damaged file may bring a library down.

    wanted = LibraryReading(folder).outputs(path, table)  # None: the library refused the file, hung or died

Run as a program, it reads paths from its input, a line each, and leaves the raw scores in a file. Each path is read in
a fork, so that the libraries are imported once.
"""

import os
import signal
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

SECONDS = 1  # the most that a library may take for one file
DONE, REFUSED, DIED = b"done\n", b"refused\n", b"died\n"


@dataclass
class LibraryReading:
    """A process that reads files when asked to."""

    folder: Path
    deaths: int = 0
    server: subprocess.Popen | None = field(default=None, repr=False)

    def outputs(self, path: Path, table: np.ndarray) -> np.ndarray | None:
        """Raw scores (n, k) of a file for the rows of a table, or None."""
        if self.server is None:
            np.save(self.folder / "table.npy", table)
            command = [sys.executable, __file__, str(self.folder)]
            self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.server.stdin.write(f"{path}\n".encode())
        said = self.server.stdout.readline()
        self.deaths += said == DIED
        return np.load(self.folder / "outputs.npy") if said == DONE else None

    def close(self) -> None:
        """Let the process end."""
        if self.server is not None:
            self.server.stdin.close()
            self.server.wait()
            self.server.stdout.close()
            self.server = None


def _scores(path: str, table: np.ndarray) -> np.ndarray:
    if path.endswith(".txt"):
        return lightgbm.Booster(model_file=path).predict(table, raw_score=True, num_threads=1)
    booster = xgboost.Booster({"nthread": 1}, model_file=path)
    booster.feature_names = None
    return booster.predict(xgboost.DMatrix(table, nthread=1), output_margin=True)


def _answer(path: str, folder: Path) -> bytes:
    """What became of a fork that reads a file."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        try:
            table = np.load(folder / "table.npy")
            scores = np.asarray(_scores(path, table), dtype=np.float64)
            np.save(folder / "outputs.npy", scores.reshape(len(table), -1))
        except BaseException:  # each library raises its own errors
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    return {0: DONE, 256: REFUSED}.get(status, DIED)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    import lightgbm
    import xgboost

    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the libraries write there, too
    os.dup2(1, 2)
    for line in sys.stdin:
        answers.write(_answer(line.rstrip("\n"), Path(sys.argv[1])))
