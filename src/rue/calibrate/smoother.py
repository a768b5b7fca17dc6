"""The normalised smoother: how badly the training rows that the model takes for similar were fitted.

The paper's Σ r²k(x, xᵢ) without its denominator becomes a local mean of squared left-out residuals. Similar is what
has similar gradients in the metric of the inverse curvature: the squared cosine κ between them, to some power.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.calibrate.nearest import NearestRows, nearest_rows
from rue.calibrate.similarity import products, similarity, sizes
from rue.core.concepts import Inverse, Objective, TrainingSet
from rue.core.derivatives import jacobian_batches, outputs
from rue.core.errors import SettingError
from rue.core.memory import free_bytes

POWERS = (1, 2, 4, 8, 16, 32, 64, 128)
ALL_PAIRS = 20_000  # training rows up to which each is compared with every other; beyond, with the nearest
COPIES = 3  # of the solved rows that solving holds at the same time
BLOCK = 2**22  # similarities held at once


@dataclass(frozen=True)
class Metric:
    """The training rows as the inverse curvature sees them."""

    solved: Tensor = field(repr=False)  # (n, k, d), H̃⁻¹J of each row
    size: Tensor = field(repr=False)  # (n,), the Frobenius norm of JH̃⁻¹Jᵀ; infinite for a row without weight: κ = 0
    weight: Tensor = field(repr=False)  # (n,), of the rows in training
    unit: Tensor = field(repr=False)  # (n,)
    nearest: NearestRows | None = field(repr=False)  # where rows are too many to compare with all
    residual: float  # of the solves

    def similarity(self, jacobian: Tensor, own: Tensor, unit: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """κ of inputs with Jacobians (c, k, d) and JH̃⁻¹Jᵀ (c, k, k) to training rows: (c, s), and which (c, s).

        Which is None where s counts all n rows. Rows of the same `unit` (c,) as the input have κ = 0.
        """
        rows = None if self.nearest is None else self.nearest(jacobian)
        if rows is None:
            square = products(jacobian, self.solved).square().sum((1, 3))
            size, units = self.size, self.unit.expand(len(jacobian), -1)
        else:
            square = torch.einsum("ckd,csjd->ckjs", jacobian, self.solved[rows]).square().sum((1, 2))
            size, units = self.size[rows], self.unit[rows]
        same = None if unit is None else units == unit[:, None]
        return similarity(square, torch.linalg.matrix_norm(own), size, same), rows

    def chunk(self) -> int:
        """How many inputs to compare at once."""
        if self.nearest is None:
            return max(1, BLOCK // (len(self.size) * self.solved.shape[1] ** 2))
        return max(1, BLOCK // (self.nearest.count * self.solved[0].numel()))


def metric(model: Objective, data: TrainingSet, inverse: Inverse) -> Metric:
    """Solve for every training row, once."""
    count = data.n * outputs(model, next(iter(data.batches())).inputs).shape[1]
    needed = COPIES * 8 * count * model.theta.numel()
    if needed > free_bytes(model.theta.device):
        raise SettingError(
            f"{data.n} training rows and {model.theta.numel()} parameters would take {needed / 2**30:.1f} GiB to "
            "compare; select= fewer parameters (a last layer), or use LinearRUE"
        )
    solved, own, residual = [], [], 0.0
    for _, jacobian in jacobian_batches(model, data):
        rows = jacobian.double()
        found = inverse.solve(rows.flatten(0, 1))
        residual = max(residual, found.residual)
        solved.append(found.vectors.view_as(rows))
        own.append(rows @ solved[-1].mT)
    all_solved = torch.cat(solved)
    nearest = nearest_rows(model, data, all_solved) if data.n > ALL_PAIRS else None
    weight = data.weight.to(all_solved)
    return Metric(all_solved, sizes(torch.cat(own), weight), weight, data.unit.to(all_solved.device), nearest, residual)


def smooth(similarity: Tensor, rows: Tensor | None, values: Tensor, weight: Tensor, powers: Sequence[int]) -> Tensor:
    """Means of values (n, v) of rows with weight (n,), by κᵖ (c, s), for each of p powers: (p, c, v).

    >>> near, far = torch.tensor([[1.0, 0.5]]), torch.tensor([[0.0], [3.0]])
    >>> smooth(near, None, far, torch.ones(2), powers=(1, 2)).flatten()  # 1.5/1.5, 0.75/1.25
    tensor([1.0000, 0.6000])
    """
    top = similarity.max(1, keepdim=True).values
    near = similarity / top.clamp_min(torch.finfo(similarity.dtype).tiny)
    share, overall = (weight if rows is None else weight[rows]), weight @ values / weight.sum()
    found, raised, power = [], near, 1
    for wanted in sorted(powers):
        while 2 * power <= wanted:
            raised, power = raised.square(), 2 * power
        shaped = share * (raised if power == wanted else near**wanted)
        sums = shaped @ values if rows is None else torch.einsum("cs,csv->cv", shaped, values[rows])
        found.append(torch.where(top > 0, sums / shaped.sum(1, keepdim=True), overall))  # nothing similar: all alike
    return torch.stack(found)
