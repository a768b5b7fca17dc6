"""A training set as probabilistic backpropagation reads it: standardised, in random orders."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.core.errors import DataError, ModelError
from rue.core.resample import generator
from rue.data.features import Standardiser, coordinates
from rue.methods.fitting import Fitting
from rue.methods.integrated.pbp.architecture import widths
from rue.methods.integrated.pbp.layers import with_constant

BLOCK = 1024  # rows of each problem that are reordered at once


@dataclass(frozen=True)
class Problem:
    """One training set, standardised, and the source of its initial weights and orders of rows."""

    widths: tuple[int, ...]
    inputs: Array  # (n, p), with the constant one, divided by √p
    targets: Array  # (n,)
    standardise_inputs: Standardiser
    standardise_targets: Standardiser
    random: torch.Generator

    @classmethod
    def of(cls, fit: Fitting, seed: int) -> "Problem":
        """Read the rows of a fit."""
        if bool((fit.data.weight != 1).any()):
            raise DataError("example weights other than one were given, and PBP has no use for them; leave weight out")
        sizes = widths(fit.model)
        batches = list(fit.data.batches())
        inputs = np.concatenate([coordinates(batch.inputs) for batch in batches])
        targets = np.concatenate([coordinates(batch.targets) for batch in batches])
        by_inputs, by_targets = Standardiser.of(inputs), Standardiser.of(targets)
        return cls(
            widths=sizes,
            inputs=with_constant(by_inputs(inputs)),
            targets=by_targets(targets)[:, 0],
            standardise_inputs=by_inputs,
            standardise_targets=by_targets,
            random=generator(seed),
        )

    def initial_weights(self) -> list[Array]:
        """Random means, N(0, 1/V) for a layer of V inputs: (p, h) for each layer."""
        sizes = [(before + 1, after) for before, after in pairwise(self.widths)]
        drawn = [torch.randn(size, generator=self.random, dtype=torch.float64) for size in sizes]
        return [means.numpy() / len(means) ** 0.5 for means in drawn]

    def order(self) -> NDArray[np.int64]:
        """A random order of the rows: (n,)."""
        return torch.randperm(len(self.inputs), generator=self.random).numpy()


def shuffled(problems: Sequence[Problem]) -> Iterator[tuple[Array, Array]]:
    """Every problem's rows in an order of its own: (p, g, 1) and (g,) at a time."""
    orders = np.stack([problem.order() for problem in problems])  # (g, n)
    for start in range(0, orders.shape[1], BLOCK):
        pairs = list(zip(problems, orders[:, start : start + BLOCK], strict=True))
        rows = np.stack([problem.inputs[order] for problem, order in pairs], axis=-1)[..., None]
        targets = np.stack([problem.targets[order] for problem, order in pairs], axis=-1)
        yield from zip(rows, targets, strict=True)


def check_alike(problems: Sequence[Problem]) -> None:
    """Refuse problems that cannot be trained side by side."""
    architectures = sorted({problem.widths for problem in problems})
    if len(architectures) > 1:
        raise ModelError(
            f"the networks have different widths, {architectures}; fit_many needs one architecture: fit these apart"
        )
    sizes = sorted({len(problem.targets) for problem in problems})
    if len(sizes) > 1:
        raise DataError(f"the training sets have {sizes} rows; fit_many needs one size: fit these apart")
