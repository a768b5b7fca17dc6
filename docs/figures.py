"""Draw the figures of figures.md anew, from the code on that page: python docs/figures.py [folder].

Blocks marked `python` are run, as the tests run them; those marked `py` too, with a stand-in for the explanation they
draw. Every Matplotlib figure that has a name afterwards is written under that name.
"""

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from rue.calibrate import leave_one_out
from rue.curvature import GaussNewton
from rue.data import input_batches, training_rows
from rue.derivatives import jacobian

DOCS = Path(__file__).parent
PAGE = DOCS / "figures.md"
OUT = DOCS / "figures"
DPI = 80


def drawn() -> dict[str, Figure]:
    """Every figure of the page, by the name that the page gives it."""
    names: dict[str, Any] = {"__name__": "__page__"}
    blocks = re.findall(r"```(python|py)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    for kind in ("python", "py"):
        if kind == "py":
            patient = names["X_held"][:1]
            names["explanation"] = stand_in(names["model"], names["X"], names["y"], patient)
            curve = names["curve"]
            names["explanation_of_curve"] = stand_in(names["of_curve"], curve.X, curve.y, np.array([[8.0]]))
        for marked, block in blocks:
            if marked == kind:
                exec(compile(block, str(PAGE), "exec"), names)
    return {name: item for name, item in names.items() if isinstance(item, Figure)}


def stand_in(model: Any, X: Any, y: Any, inputs: Any) -> SimpleNamespace:
    """What a `rue.Explanation` of one prediction holds, for rows as units and weights of variance one."""
    rows, bound = training_rows((X, y), model)
    solve = torch.linalg.inv(GaussNewton().at(bound, rows).dense())
    own = torch.cat([jacobian(bound, batch.inputs)[:, 0] for batch in rows.batches()]).double()
    at = next(iter(input_batches(inputs, bound)))
    inner = (jacobian(bound, at)[:, 0].double() @ solve @ own.T)[0].numpy()  # gᵀH⁻¹gᵢ
    fitted = np.asarray(model.answer(X)) - y
    change = inner * fitted  # a row's weight from one to zero, to first order
    left_out = leave_one_out(model, (X, y))
    return SimpleNamespace(
        of="the prediction",
        similarity=inner**2 / (inner**2).max(),
        kernel=inner**2,
        residual=left_out.residual,
        unit=np.arange(len(y)),
        contribution=change**2,
        change=change,
        label=np.arange(len(y)),
        variance=float((change**2).sum()),
        prediction=float(np.asarray(model.answer(inputs))[0]),
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in drawn().items():
        figure.savefig(folder / f"{name}.png", dpi=DPI, metadata={"Software": None}, pil_kwargs={"optimize": True})
