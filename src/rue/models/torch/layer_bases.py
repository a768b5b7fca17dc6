"""Eigenbases of every layer: of the second moments of what goes into it and of what comes back to it.

The gradient of a matrix of weights is a sum of products of both, so that in these bases, one for its rows and one for
its columns, its coordinates are nearly uncorrelated (K-FAC: Martens and Grosse, 2015). Biases, norms, tables of
embeddings, matrices with very long sides and whatever is not read off layers stay as they are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from rue.core.concepts import Facts, Inputs
from rue.core.coordinates import CurvedRows
from rue.core.errors import SettingError
from rue.core.nested import take
from rue.core.stored import storable
from rue.models.torch.blocks import LayerBlock, Place, lengths
from rue.models.torch.layer_sketch import LayerSketch
from rue.models.torch.tapped_layers import WITHOUT_TABLES
from rue.models.torch.taps import Tapping
from rue.models.torch.uses import FEW

LONGEST = 8192  # side of a matrix: eigenvectors of half a gigabyte, in a few minutes


@storable
@dataclass(frozen=True)
class LayerBases:
    """Coordinates of all parameters that a network uses: an orthogonal change of basis."""

    combined: ClassVar[bool] = False

    sketch: LayerSketch = field(repr=False)  # with as many coordinates as parameters
    places: frozenset[Place] = field(repr=False)  # matrices that have been turned

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.sketch.size

    def jacobian(self, inputs: Inputs, followed: Tensor | None = None) -> Tensor:
        """∂f/∂z (c, k, d), or of the `followed` outputs of each row alone."""
        return self.sketch.jacobian(inputs, followed)

    def held(self, rows: int) -> int:
        """Bytes of hidden layers that are in memory at once while these many rows are read."""
        return self.sketch.held(rows)

    def project(self, vectors: Tensor) -> Tensor:
        """The coordinates (..., d) of vectors (..., d)."""
        return self.sketch.project(vectors)

    def parts(self, vector: Tensor) -> Iterator[tuple[Tensor, int]]:
        """The entries of a vector (d,) in each block, and their number."""
        return self.sketch.parts(vector)

    def describe(self) -> Facts:
        """How many parameters are in eigenbases of their layer, and how many count as independent as they are."""
        inside = sum(place.numel for place in self.places)
        return {"in_eigenbases": inside, "diagonal_alone": self.size - inside}


def turned(sketch: LayerSketch, few: Inputs, rows: Iterable[CurvedRows]) -> LayerBases:
    """Eigenbases for a sketch that keeps every parameter; `few` are some rows, `rows` all of training."""
    matrices = [place for place in untabled(sketch, few) if max(lengths(place, vector=False)) <= LONGEST]
    if not matrices:
        raise SettingError(
            "bases of layers (EKFAC(), EigenBases()) are for modules with linear layers or convolutions, and found no "
            "matrix of weights that can be read off; use another solver or preconditioner"
        )
    theta = sketch.network.theta
    moments = {place: _Moments.none(place, theta) for place in matrices}
    for part in rows:
        _add(sketch, moments, part)
    bases = {place: moment.turned(sketch.blocks[place], theta) for place, moment in moments.items()}
    return LayerBases(replace(sketch, blocks={**sketch.blocks, **bases}), frozenset(matrices))


def untabled(sketch: LayerSketch, few: Inputs) -> list[Place]:
    """The matrices that are read off linear layers, convolutions and products alone, and are no tables."""
    with torch.enable_grad(), Tapping(sketch.network.theta, WITHOUT_TABLES) as taps:
        sketch.network.predict_once(take(few, slice(0, FEW)))
    return [
        place
        for place, vector in taps.seen.vectors.items()
        if not vector and place in sketch.tapped and place not in taps.seen.untapped
    ]


def _add(sketch: LayerSketch, moments: dict[Place, "_Moments"], rows: CurvedRows) -> None:
    """Add the moments of some rows: a backward pass for every direction of their outputs in which the loss curves."""
    step = sketch.rows_at_once()
    for start in range(0, len(rows.weight), step):
        inputs, root, weight = (take(part, slice(start, start + step)) for part in rows)
        weighted = {place: replace(moment, weight=weight) for place, moment in moments.items()}
        with torch.enable_grad():
            predicted, numbers = sketch.forward(inputs, weighted)
            for direction in root.to(predicted).unbind(1):
                sketch.back((direction * predicted).sum(), numbers)


@dataclass(frozen=True)
class _Moments:
    """Stands in the place of a block: adds up second moments, and gives no coordinates."""

    whole: ClassVar[bool] = False
    rows: ClassVar[None] = None
    columns: ClassVar[None] = None
    kept: ClassVar[None] = None
    size: ClassVar[int] = 0

    place: Place
    left: Tensor = field(repr=False)  # (a, a) in float64, Σ wᵢ llᵀ, to which rows are added in place
    right: Tensor = field(repr=False)  # (b, b)
    weight: Tensor = field(repr=False)  # (c,), of the rows that pass

    @classmethod
    def none(cls, place: Place, like: Tensor) -> "_Moments":
        """Zeros."""
        left, right = (torch.zeros(side, side, dtype=torch.float64).to(like.device) for side in lengths(place, False))
        return cls(place, left, right, torch.zeros(0))

    def of_rows(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values

    def of_columns(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values

    def products(self, left: Tensor, right: Tensor) -> Tensor:
        """Add the moments of rows (c, a, positions) and columns (c, b, positions); no coordinates (c, 0)."""
        for total, values in ((self.left, left), (self.right, right)):
            flat = values.double().movedim(1, 0)  # (side, c, positions)
            total += (flat * self.weight.to(flat)[:, None]).flatten(1) @ flat.flatten(1).T
        return left.new_zeros(len(left), 0)

    def turned(self, block: LayerBlock, like: Tensor) -> LayerBlock:
        """The block in the eigenbases of both moments, in the precision of the network."""
        rows, columns = (torch.linalg.eigh(total).eigenvectors.T.to(like) for total in (self.left, self.right))
        return replace(block, rows=rows, columns=columns)
