"""The report at the end of the demo: one network, audited on patients that it was not trained on."""

import copy
import warnings

import numpy as np
import torch
from torch import Tensor, nn

from rue.cli.paper_network import ALPHA, paper_network, train
from rue.core.arrays import Array, Whole
from rue.core.errors import RueWarning
from rue.core.model import Model
from rue.data.features import Standardiser
from rue.evaluate.datasets import diabetes
from rue.methods import CalibratedRUE
from rue.models import wrap
from rue.reports import Report, report

HELD_OUT = 5  # one patient in so many is audited and not trained on
REFITS = 4  # so many networks are trained again to check the audit
TITLE = "Audit of a network for diabetes progression"
PURPOSE = (
    "A demonstration. The network predicts the progression of diabetes one year after ten baseline measurements, a "
    "number from 25 to 346, and is not meant for any patient's care."
)


class InUnits(nn.Module):
    """A network of standardised inputs and targets that takes and returns raw units."""

    def __init__(self, net: nn.Module, inputs: Standardiser, target: Standardiser):
        super().__init__()
        self.net, self.inputs = net, inputs
        self.centre, self.unit = float(target.mean), float(target.scale)

    def forward(self, x: Tensor) -> Tensor:
        """Raw measurements in, progression out."""
        standardised: Tensor = self.net(self.standardised(x))
        return self.centre + self.unit * standardised

    def standardised(self, x: Tensor) -> Tensor:
        """Inputs standardised as in training."""
        return (x - torch.as_tensor(self.inputs.mean).to(x)) / torch.as_tensor(self.inputs.scale).to(x)

    def wrapped(self) -> Model:
        """In raw units ½(y − f)² is the trained loss times the squared unit; the penalty is scaled in the same way."""
        return wrap(self, loss="squared_error", l2=ALPHA * self.unit**2)

    def trained(self, X: Array, y: Array, seed: int) -> "InUnits":
        """A copy, trained as in the paper, with the same standardisation."""
        copied = copy.deepcopy(self)
        inputs, targets = (torch.tensor(part, dtype=torch.float32) for part in (X, y))
        train(copied.net, self.standardised(inputs), (targets - self.centre) / self.unit, seed)
        return copied


def demo_report(seed: int = 0) -> Report:
    """Train on four of five patients, audit the others, check the audit by refits, and make a report."""
    import pandas as pd

    data = diabetes()
    order = np.random.default_rng(seed).permutation(len(data.y))
    held, rows = np.sort(order[: len(order) // HELD_OUT]), np.sort(order[len(order) // HELD_OUT :])
    table = pd.DataFrame(data.X, columns=list(data.features)).rename_axis("patient")
    X, y = table.iloc[rows], data.y[rows]
    start = InUnits(paper_network(data.X.shape[1], seed), Standardiser.of(X.to_numpy()), Standardiser.of(y))
    model = start.trained(X.to_numpy(), y, seed)

    def refit(drawn: Whole) -> Model:
        return start.trained(X.to_numpy()[drawn], y[drawn], seed).wrapped()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RueWarning)  # the report contains them
        auditor = CalibratedRUE().fit(model.wrapped(), (X, y))
        new = table.iloc[held]
        return report(
            auditor,
            new,
            data.y[held],
            title=TITLE,
            purpose=PURPOSE,
            noun="patients",
            group={"sex": new["sex"].map({1.0: "sex 1", 2.0: "sex 2"}), "age": _bands(new["age"].to_numpy())},
            checkup=auditor.check(new, refit=refit, refits=REFITS),
        )


def _bands(age: Array) -> list[str]:
    return [f"{low}s" for low in (age // 10 * 10).astype(int).clip(20, 70)]
