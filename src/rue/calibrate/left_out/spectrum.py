"""Features in the coordinates of their eigenvectors, where squared error has a diagonal curvature."""

from typing import NamedTuple

import torch
from torch import Tensor

from rue.core.randomness import generator

MANY = 3  # with more than so many times the wanted directions, a randomised method is used
FLAT = 1e-12  # times the largest eigenvalue: directions below it are dropped as rounding errors


class Spectrum(NamedTuple):
    """Coordinates z = rows times `basis`, in which Σ w zzᵀ is diagonal with `values`."""

    basis: Tensor  # (q, r)
    values: Tensor  # (r,)


def spectrum(rows: Tensor, weight: Tensor, most: int | None = None) -> Spectrum:
    """The spectrum of rows (N, q) with weights (N,), by the smaller Gram matrix; at most the `most` largest directions.

    If there are many more directions, the largest come from random combinations of the rows (Halko et al. 2011).

    >>> spectrum(torch.tensor([[3.0, 0.0], [0.0, 2.0]]), torch.ones(2)).values
    tensor([4., 9.])
    """
    scaled = weight.sqrt()[:, None] * rows
    if most is not None and min(scaled.shape) > MANY * most:
        mixes = torch.randn(2 * most, len(scaled), generator=generator(0), dtype=scaled.dtype).to(scaled.device)
        within = torch.linalg.qr((mixes @ scaled).T).Q  # (q, 2·most)
        inner = spectrum(scaled @ within, torch.ones_like(weight), most)
        return Spectrum(within @ inner.basis, inner.values)
    tall = len(scaled) > scaled.shape[1]
    values, vectors = torch.linalg.eigh(scaled.T @ scaled if tall else scaled @ scaled.T)
    kept = torch.nonzero(values > FLAT * values[-1]).flatten()
    kept = kept if most is None else kept[-most:]
    values, vectors = values[kept], vectors[:, kept]
    return Spectrum(vectors if tall else scaled.T @ vectors / values.sqrt(), values)
