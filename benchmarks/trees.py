"""A large boosted ensemble: seconds and peak memory of wrapping, fitting LinearRUE and auditing.

python benchmarks/trees.py                                       # 1000 trees of 63 leaves, 100 000 rows, 10 000 audited
python benchmarks/trees.py --trees 100 --leaves 31 --rows 20000  # a small one
"""

import argparse
import json
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lightgbm
import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.stats import spearmanr

import rue

FOUND: dict[str, object] = {}  # what is printed, for trees.json
RESULTS = Path(__file__).parent / "trees.json"


@contextmanager
def phase(name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    FOUND[f"{name}, seconds"] = round(time.perf_counter() - start, 1)
    FOUND["peak GiB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    print(f"{name:<28}{FOUND[f'{name}, seconds']:>9.1f} s   peak {FOUND['peak GiB']:>6.2f} GiB", flush=True)


def simulated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(n, 20))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.5 * draw.normal(size=n)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (
        ("trees", 1000),
        ("leaves", 63),
        ("rows", 100_000),
        ("audited", 10_000),
        ("threads", 1),
        ("exact", 0),
    ):
        options.add_argument(f"--{name}", type=int, default=default)
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    X, y = simulated(asked.rows, 0)
    new, truth = simulated(asked.audited, 1)
    settings = {"num_leaves": asked.leaves, "num_threads": asked.threads, "verbose": -1, "learning_rate": 0.05}
    with phase("train LightGBM"):
        booster = lightgbm.train(settings, lightgbm.Dataset(X, y), asked.trees)
    with phase("wrap"):
        model = rue.wrap(booster)
    with phase(f"leaves of {asked.audited} rows"):
        inputs = model.read(new)
    with phase("features of these rows"):
        for start in range(0, asked.audited, 1000):
            model.jacobian({name: part[start : start + 1000] for name, part in inputs.items()})
    with phase("fit LinearRUE"):
        auditor = rue.LinearRUE().fit(model, (X, y))
    with phase(f"audit {asked.audited} rows"):
        audit = auditor.audit(new)
    print(f"structure: {auditor.facts['structure']}; l2 {auditor.facts['l2']:g}: {auditor.facts['l2_reason']}")
    error = np.abs(truth - audit.prediction)
    print(f"mean std {audit.std.mean():.3g}, root mean squared error {np.sqrt(np.mean(error**2)):.3g}")
    if asked.exact:
        with phase(f"exact, {asked.exact} rows"):
            std = exact_std(booster, X, y, new[: asked.exact], auditor.facts["l2"])
        seen = audit.std[: asked.exact]
        ranks, ratio = spearmanr(seen, std)[0], np.median(seen / std)
        FOUND.update({"Spearman with exact": round(float(ranks), 3), "median ratio to exact": round(float(ratio), 2)})
        print(f"against the exact answer: Spearman {ranks:.3f}, median ratio {ratio:.2f}")
    size = f"{asked.trees} trees, {asked.leaves} leaves, {asked.rows} rows, {asked.audited} audited"
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**kept, size: {"threads": asked.threads, **FOUND}}, indent=1) + "\n")


def exact_std(booster: lightgbm.Booster, X: np.ndarray, y: np.ndarray, new: np.ndarray, l2: float) -> np.ndarray:
    """The same without a projection, by a dense factorisation: a leaf matrix of up to some 20,000 leaves."""
    counts = booster.predict(X[:1], pred_leaf=True).shape[1]
    leaves = [booster.predict(part, pred_leaf=True).astype(np.int32) for part in (X, new)]
    width = max(int(part.max()) for part in leaves) + 1
    matrices = []
    for part in leaves:
        columns = (part + width * np.arange(counts, dtype=np.int32)).ravel()
        starts = np.arange(0, part.size + 1, counts)
        matrices.append(
            csr_matrix((np.ones(part.size, np.float32), columns, starts), shape=(len(part), width * counts))
        )
    rows, asked = matrices
    residual = booster.predict(X) - y
    matrix = (rows.T @ rows).toarray().astype(np.float64)
    matrix[np.diag_indices_from(matrix)] += l2
    factor = torch.linalg.cholesky(torch.from_numpy(matrix))
    solved = torch.cholesky_solve(torch.from_numpy(asked.toarray().astype(np.float64).T.copy()), factor).numpy()
    pulls = (rows @ solved) * residual[:, None]
    return np.sqrt(np.square(pulls - pulls.mean(axis=0)).sum(axis=0))


if __name__ == "__main__":
    main()
