"""How many steps conjugate gradients take with each preconditioner, and what LiSSA leaves.

`python benchmarks/iterations.py FOLDER` writes `docs/scale/iterations.csv`; FOLDER has kin8nm.csv, target last. The
right-hand sides are the gradients of eight training rows; `apart` is the largest relative distance to the exact
solution.
"""

import csv
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from fewer_rows import digits, table
from rue.errors import NotConvergedError

import rue
from rue.core.derivatives import gradient_batches
from rue.data.opening import training_rows

PAGE = Path(__file__).parent.parent / "docs" / "scale" / "iterations.csv"
DAMPINGS = (0.0, 10.0)
TOLERANCE = 1e-4
SOLVERS = {
    "CG, no preconditioner": rue.solve.ConjugateGradient(TOLERANCE, rank=0),
    "CG, Nyström 100": rue.solve.ConjugateGradient(TOLERANCE, rank=100),
    "CG, Nyström 300": rue.solve.ConjugateGradient(TOLERANCE, rank=300),
    "CG, EK-FAC": rue.solve.ConjugateGradient(TOLERANCE, preconditioner=rue.solve.EigenBases()),
    "LiSSA, all rows": rue.solve.LiSSA(steps=2000, rows=None, tolerance=TOLERANCE),
    "LiSSA, 64 rows": rue.solve.LiSSA(steps=2000, rows=64, tolerance=TOLERANCE),
}


class Counted:
    """A curvature that counts its products, those of drawn rows among them."""

    def __init__(self, inner: Any, count: list[int]) -> None:
        self.inner, self.count = inner, count

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def product(self, vectors: torch.Tensor) -> torch.Tensor:
        self.count[0] += 1
        return self.inner.product(vectors)


def measured(name: str, model: rue.Model, data: Any) -> list[dict[str, str]]:
    """The lines of one network."""
    rows, bound = training_rows(data, model)
    plain = rue.curvature.GaussNewton().at(bound, rows)
    wanted = next(gradient_batches(bound, rows))[1][:8]
    lines = []
    for damping in DAMPINGS:
        exact = rue.solve.Dual().factor(plain, damping).solve(wanted).vectors
        for way, solver in SOLVERS.items():
            curvature = Counted(plain, [0])
            inverse = solver.factor(curvature, damping)
            curvature.count[0] = 0
            try:
                solved, residual = inverse.solve(wanted)
                apart = float(((solved - exact).norm(dim=1) / exact.norm(dim=1)).max())
                steps, said, far = str(curvature.count[0] - 1), f"{residual:.1e}", f"{apart:.1e}"
            except NotConvergedError as error:
                steps, said, far = "not converged", str(error).split("residual ")[1].removeprefix("of ").split()[0], ""
            line = {"network": name, "parameters": str(plain.size), "damping": str(damping), "solver": way}
            lines.append({**line, "steps": steps, "residual": said, "apart": far})
            print(*lines[-1].values(), flush=True)
    return lines


def main(folder: Path) -> None:
    """Solve in every way, and write the table."""
    warnings.simplefilter("ignore")
    model, data, *_ = table(folder / "kin8nm.csv")
    lines = measured("Kin8nm, l2 of 1", model, data)
    model, data, *_ = digits()
    lines += measured("Digits, l2 of 3", model, data)
    with PAGE.open("w", newline="") as file:
        page = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        page.writeheader()
        page.writerows(lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
