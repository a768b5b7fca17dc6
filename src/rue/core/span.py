"""Span: a few axes of the training rows' gradients, along which an audit needs all that it asks of a new row.

Let H̃ = SᵀS + D and M = D^(−½)SᵀSD^(−½), with eigenvalues σ. For a row with gradients G = JD^(−½), JH̃⁻¹Jᵀ is
G(I + M)⁻¹Gᵀ: along an axis q with Mq = σq it is (Gq)²/(1 + σ), and along what is left of G its square, too large by at
most a factor 1 + σ of the first axis that was left out. The parameter steps of resampling are combinations of rows of
SD⁻¹, so that they change a row's outputs by products with its numbers along these axes. Rows that a classifier is sure
of, and wrong, pull where the curvature is flat: a few axes more hold their steps.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from rue.core.resample import generator
from rue.core.stored import storable

FLAT = 1e-3  # eigenvalues σ below which axes are left out: leverages are exact to one part in a thousand
WHOLE = 2_500  # rows of a matrix up to which all its eigenvalues are computed
MOST = 2_048  # axes that are looked for in a larger one
CHUNK = 512  # axes that are summed at once
LOST = 1e-3  # part of the squared steps of resampling that may lie beside the axes
MORE = 256  # axes that are added to hold them, at most
PROBES = 8  # vectors, multiplied so often as well, that the largest eigenvalue left out is measured with


@storable
class Projected(NamedTuple):
    """What a span sees of the gradients of some rows."""

    inside: Tensor  # (c, k, q), along the axes, as exact as these
    beside: Tensor  # (c, k, k), products of what is left


@storable
@dataclass(frozen=True)
class Span:
    """Axes Q (q, d) of the gradients in the metric of D, QQᵀ = I."""

    axes: Tensor = field(repr=False)  # QD^(−½) (q, d)
    scale: Tensor = field(repr=False)  # D^(−½) (d,)
    shares: Tensor = field(repr=False)  # 1/(1 + σ), (q,)

    def __call__(self, jacobian: Tensor) -> Projected:
        """The numbers of rows (c, k, d) along the axes, and the products of what they have beside them."""
        flat = self.axes @ jacobian.to(self.axes).flatten(0, 1).T  # in this order matrices of many rows are read faster
        inside = flat.T.view(*jacobian.shape[:2], -1)
        rows, along = jacobian.double() * self.scale, inside.double()
        return Projected(inside, rows @ rows.mT - along @ along.mT)

    def widened(self, vectors: Tensor) -> "Span | None":
        """With axes for what parameter steps (r, d) have beside these; None where they have too much."""
        turned = vectors / self.scale
        beside = turned - (self.steps(vectors) @ self.axes.double()) / self.scale
        limit = LOST * float(turned.square().sum())
        if float(beside.square().sum()) <= limit:
            return self
        start = _random(len(self.scale), min(MORE, *beside.shape), beside)
        basis = torch.linalg.qr(beside.T @ (beside @ start)).Q  # (d, ·)
        values, turn = torch.linalg.eigh((beside @ basis).T @ (beside @ basis))
        values, turn = values.flip(0), turn.flip(1)
        left = beside.square().sum() - values.cumsum(0)
        count = int((left > limit).sum()) + 1
        if count > len(values):
            return None
        more = (basis @ turn[:, :count]).T * self.scale
        return Span(
            torch.cat([self.axes, more.to(self.axes)]), self.scale, torch.cat([self.shares, more.new_ones(count)])
        )

    def steps(self, vectors: Tensor) -> Tensor:
        """Parameter steps (..., d) along the axes: (..., q)."""
        return (vectors / self.scale.square()) @ self.axes.double().T


@storable
class Leading(NamedTuple):
    """The eigenvalues σ above the limit."""

    values: Tensor  # (q,)
    vectors: Tensor  # (n·k, q)


def span(rows: Callable[[], Iterator[Tensor]], diagonal: Tensor, found: Leading, dtype: torch.dtype) -> Span:
    """The span of rows S (n·k, d) with the diagonal D of the rest, from the eigenvectors of SD⁻¹Sᵀ, in a dtype."""
    scale = diagonal.rsqrt()
    axes = torch.empty(len(found.values), len(diagonal), dtype=dtype, device=diagonal.device)
    for part in torch.arange(len(axes), device=diagonal.device).split(CHUNK):
        total = torch.zeros(len(part), len(diagonal), dtype=torch.float64, device=diagonal.device)
        weights, start = (found.vectors[:, part] / found.values[part].sqrt()).T, 0
        for block in rows():
            total.addmm_(weights[:, start : start + len(block)], block)
            start += len(block)
        axes[part] = (total * scale.square()).to(dtype)
    return Span(axes, scale, 1 / (1 + found.values))


def leading(factor: Tensor) -> Leading | None:
    """The leading eigenvalues of K, from the factor of I + K; None where more matter than are looked for."""
    size = len(factor)
    if size <= WHOLE:
        values, vectors = torch.linalg.eigh(factor @ factor.T)
        kept = values - 1 > FLAT
        return Leading(values[kept] - 1, vectors[:, kept])
    basis = torch.linalg.qr(_times(factor, _random(size, MOST, factor))).Q
    values, turn = torch.linalg.eigh(basis.T @ _times(factor, basis))
    vectors, kept = basis @ turn, values > FLAT
    return Leading(values[kept], vectors[:, kept]) if _largest_beside(factor, vectors) <= FLAT else None


def _times(factor: Tensor, vectors: Tensor) -> Tensor:
    """K times vectors (n·k, ·)."""
    return factor @ (factor.T @ vectors) - vectors


def _largest_beside(factor: Tensor, vectors: Tensor) -> float:
    """The largest eigenvalue of K at right angles to orthonormal vectors, by a few steps of iteration."""

    def outside(some: Tensor) -> Tensor:
        return some - vectors @ (vectors.T @ some)

    probes = outside(_random(len(factor), PROBES, factor))
    for _ in range(PROBES):
        probes = torch.linalg.qr(outside(_times(factor, probes))).Q
    return float(torch.linalg.matrix_norm(outside(_times(factor, probes)), ord=2))


def _random(length: int, count: int, like: Tensor) -> Tensor:
    return torch.randn(length, count, generator=generator(0), dtype=torch.float64).to(like)
