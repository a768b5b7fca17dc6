"""The streamed dual form: exact for few rows of a large network, of whose gradients only products are ever made.

With K = JD⁻¹Jᵀ (n·k, n·k) of all outputs of all training rows, a row x has the coordinates k(x, X)K^(−½), and k more
for the part of its gradients that no training row has. In these few coordinates every product of gradients with those
of training rows is the exact one, and so is all that an audit makes of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from rue.core.concepts import Curvature, Facts, Inputs, Inverse, TrainedObjective, TrainingSet
from rue.core.coordinates import GradientProducts
from rue.core.curvature import penalty_diagonal
from rue.core.errors import SettingError
from rue.core.memory import rows_read
from rue.core.solve.dense import Cholesky
from rue.core.solve.sketch import EVEN, SketchedObjective
from rue.core.stored import storable_rows

MULTIPLICATIONS = {"cpu": 1e12, "cuda": 2e14}  # of all pairs of gradients that are made unasked, in a minute or two
FLAT = {  # eigenvalues up to this part of the largest count as zero; gradients in float32 are noisy
    torch.float64: 1e-14,
    torch.float32: 1e-9,
}


@dataclass(frozen=True)
class StreamedDual:
    """The exact answer for modules with few rows, whatever their size: gradients are multiplied layer by layer.

    It makes one matrix of all outputs of all training rows, as `Dual` does. What gradients are products of is kept
    where that takes little memory (`GradientProducts.keepable`); else the training rows are read again for every
    audited batch. Penalties may differ between parameters; a damping is then in units of the penalty.
    """

    notices_singular: ClassVar[bool] = True

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:
        """The objective in coordinates that the gradients of the training rows span."""
        if core.gradient_products is None or core.family.coupled:
            raise SettingError(
                "StreamedDual() reads gradients off the layers of a torch module whose rows do not depend on each "
                "other, and this model has none; leave solver= away, or use Projection()"
            )
        metric, strength = _penalty(core)
        products = core.gradient_products(data, metric, core.centre - core.theta)
        coordinates, centre = spanned(products, data, core.theta.dtype)
        place = core.theta.device
        return SketchedObjective(
            core,
            torch.zeros(coordinates.size, dtype=core.theta.dtype, device=place),
            coordinates,
            torch.full((coordinates.size,), strength, dtype=torch.float64, device=place),
            centre.to(core.theta),
            turned=True,
        )

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Factor the matrix of the coordinates."""
        return Cholesky().factor(curvature, damping)


def _penalty(core: TrainedObjective) -> tuple[Tensor, float]:
    """The penalty's curvature as a metric (d,) with a geometric mean of one, times a number."""
    one = torch.ones((), dtype=torch.float64, device=core.theta.device).expand_as(core.theta)
    if not core.stated:
        return one, 0.0
    diagonal = penalty_diagonal(core) if core.ridge is None else core.ridge
    if diagonal is None:
        raise SettingError("StreamedDual() needs a penalty that couples no parameters; use Projection()")
    low, high = float(diagonal.min()), float(diagonal.max())
    if high - low <= EVEN * high:
        return one, high
    if low <= 0:
        raise SettingError(
            f"StreamedDual() needs a penalty on every parameter or on none, found {low:.3g} to {high:.3g}; give each "
            "an l2, audit those that have one (select=), or use Sketch()"
        )
    strength = float(diagonal.double().log().mean().exp())
    return diagonal / strength, strength


def spanned(products: GradientProducts, data: TrainingSet, dtype: torch.dtype) -> tuple["SpannedCoordinates", Tensor]:
    """The coordinates that the training rows and a direction span, and the direction in them (r,)."""
    products = products.remembered()
    gram = products.gram()
    size = gram.diagonal().clamp_min(0).sqrt()
    size = torch.where(size > 0, size, 1.0)  # in units in which no row is larger than another
    values, vectors = torch.linalg.eigh(gram / torch.outer(size, size))
    kept = values > FLAT[dtype] * len(values) * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    known, mixing = size[:, None] * vectors * values.sqrt(), vectors / size[:, None] / values.sqrt()
    k = (len(gram) - 1) // data.n
    outside = known.new_zeros(k)
    coordinates = SpannedCoordinates(products, data, mixing, known[:-1].to(dtype).unflatten(0, (data.n, k)))
    return coordinates, torch.cat([known[-1], outside])


@storable_rows
@dataclass(frozen=True)
class SpannedCoordinates:
    """Coordinates along the gradients of training rows, and k for what a row has beside them.

    The last k are those of one row alone: products of two rows, both not of training, are not kept.
    """

    combined: ClassVar[bool] = False  # every product with a training row is kept

    products: GradientProducts = field(repr=False)
    data: TrainingSet = field(repr=False)
    mixing: Tensor = field(repr=False)  # (n·k+1, r − k), from products with training rows to coordinates
    known: Tensor = field(repr=False)  # (n, k, r − k), of training rows

    @property
    def size(self) -> int:
        """The number of coordinates, r."""
        return self.known.shape[2] + self.known.shape[1]

    def jacobian(self, inputs: Inputs, followed: Tensor | None = None) -> Tensor:
        """∂f/∂z (m, k, r), or of the `followed` outputs of each row (m, f) alone: (m, f, r)."""
        training = rows_read(self.data, inputs)
        if training is None:
            rows = self._of_others(inputs)
        else:
            inside = self.known[training]
            rows = torch.cat([inside, inside.new_zeros(*inside.shape[:2], inside.shape[1])], -1)
        return rows if followed is None else rows.gather(1, followed[:, :, None].expand(-1, -1, self.size))

    def _of_others(self, inputs: Inputs) -> Tensor:
        products, own = self.products.with_rows(inputs)
        inside = products @ self.mixing
        values, vectors = torch.linalg.eigh(own - inside @ inside.mT)
        outside = vectors * values.clamp_min(0).sqrt().unsqueeze(-2)  # below zero by rounding
        return torch.cat([inside, outside], -1).to(self.known)

    def held(self, rows: int) -> int:
        """Bytes of hidden layers that are in memory at once while these many rows are read."""
        return self.products.held(rows)

    def project(self, vectors: Tensor) -> Tensor:
        """The coordinates (..., r) of vectors (..., d); of what no training row sees of them there are none."""
        inside = torch.stack([self.products.along(vector) for vector in vectors.reshape(-1, vectors.shape[-1])])
        outside = inside.new_zeros(len(inside), self.known.shape[1])
        return torch.cat([inside @ self.mixing, outside], -1).view(*vectors.shape[:-1], -1).to(vectors)

    def parts(self, vector: Tensor) -> Iterator[tuple[Tensor, int]]:
        """The vector (d,) itself: all parameters are combined with each other."""
        yield vector, self.size

    def describe(self) -> Facts:
        """How many coordinates there are, and how gradients were read."""
        return {"coordinates": self.size, **self.products.describe()}
