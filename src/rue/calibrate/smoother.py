"""The normalised smoother: the local mean of squared left-out residuals over similar training rows.

The paper has Σ r²k(x, xᵢ), without a denominator. Similarity is the squared cosine κ between gradients in the metric
of the inverse curvature, raised to some power. With several outputs a row has several gradients; κ is then
‖J₁H̃⁻¹J₂ᵀ‖² over ‖J₁H̃⁻¹J₁ᵀ‖ ‖J₂H̃⁻¹J₂ᵀ‖, in Frobenius norms.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.core.concepts import Inverse, Objective, TrainingSet
from rue.core.derivatives import jacobian_batches, outputs
from rue.core.errors import SettingError
from rue.core.memory import free_bytes
from rue.core.stored import storable

POWERS = (1, 2, 4, 8, 16, 32, 64, 128)
COPIES = 3  # of the solved rows that are in memory at once during the solve
BLOCK = 2**20  # similarities computed at once
TINY = torch.finfo(torch.float64).tiny


def products(rows: Tensor, others: Tensor) -> Tensor:
    """The products of all pairs of gradients: (c, k, d), (n, j, d) -> (c, k, n, j)."""
    c, k, _ = rows.shape
    n, j, _ = others.shape
    return (rows.flatten(0, 1) @ others.flatten(0, 1).T).view(c, k, n, j)


def sizes(own: Tensor, weight: Tensor) -> Tensor:
    """‖JH̃⁻¹Jᵀ‖ (n,) of training rows, from JH̃⁻¹Jᵀ (n, k, k); infinite for rows of weight zero, so that κ is 0."""
    return torch.where(weight.to(own.device) > 0, torch.linalg.matrix_norm(own), torch.inf)


def similarity(square: Tensor, size: Tensor, others: Tensor, same: Tensor | None = None) -> Tensor:
    """κ (c, s) from ‖J₁H̃⁻¹J₂ᵀ‖² (c, s) and sizes (c,) and (s,) or (c, s); zero within the `same` unit (c, s).

    >>> similarity(torch.tensor([[4.0, 1.0]]), torch.tensor([2.0]), torch.tensor([2.0, torch.inf])).tolist()
    [[1.0, 0.0]]
    """
    kappa = square / others.clamp_min(TINY) / size.clamp_min(TINY)[:, None]
    return kappa if same is None else torch.where(same, 0.0, kappa)


@storable
@dataclass(frozen=True)
class Metric:
    """The training rows in the metric of the inverse curvature, to compare inputs with."""

    solved: Tensor = field(repr=False)  # (n, k, d), H̃⁻¹J of each row
    size: Tensor = field(repr=False)  # (n,), the Frobenius norm of JH̃⁻¹Jᵀ; infinite for weight zero, so that κ = 0
    weight: Tensor = field(repr=False)  # (n,), the weights of the rows in training
    unit: Tensor = field(repr=False)  # (n,)
    residual: float  # the largest relative residual of the solves

    def similarity(self, jacobian: Tensor, own: Tensor, unit: Tensor | None = None) -> Tensor:
        """κ (c, n) of inputs with Jacobians (c, k, d) and `own` = JH̃⁻¹Jᵀ (c, k, k) to the training rows.

        Rows of the same `unit` (c,) as the input have κ = 0.
        """
        square = products(jacobian, self.solved).double().square().sum((1, 3))
        same = None if unit is None else self.unit == unit[:, None]
        return similarity(square, torch.linalg.matrix_norm(own), self.size, same)

    def chunk(self) -> int:
        """How many inputs to compare at once."""
        return max(1, BLOCK // (len(self.size) * self.solved.shape[1] ** 2))


def metric(model: Objective, data: TrainingSet, inverse: Inverse) -> Metric:
    """The metric of a model: solves once for every training row."""
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
        solution = inverse.solve(rows.flatten(0, 1))
        residual = max(residual, solution.residual)
        solved.append(solution.vectors.view_as(rows))
        own.append(rows @ solved[-1].mT)
    all_solved = torch.cat(solved)
    weight = data.weight.to(all_solved)
    return Metric(all_solved, sizes(torch.cat(own), weight), weight, data.unit.to(all_solved.device), residual)


def smooth(similarity: Tensor, values: Tensor, weight: Tensor, powers: Sequence[int]) -> Tensor:
    """Means of values (n, v), weighted by κ (c, n) to each power times the weights (n,): (powers, c, v).

    >>> near, far = torch.tensor([[1.0, 0.5]]), torch.tensor([[0.0], [3.0]])
    >>> smooth(near, far, torch.ones(2), powers=(1, 2)).flatten()  # 1.5/1.5, 0.75/1.25
    tensor([1.0000, 0.6000])
    """
    top = similarity.max(1, keepdim=True).values
    near = similarity / top.clamp_min(torch.finfo(similarity.dtype).tiny)
    overall = weight @ values / weight.sum()
    means, raised, power = [], near, 1
    for wanted in sorted(powers):
        while 2 * power <= wanted:
            raised, power = raised.square(), 2 * power
        shaped = weight * (raised if power == wanted else near**wanted)
        local = shaped @ values / shaped.sum(1, keepdim=True)
        means.append(torch.where(top > 0, local, overall))  # the mean if none is similar
    return torch.stack(means)
