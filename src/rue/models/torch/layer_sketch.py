"""Jacobians of a module in few coordinates, layer by layer, so that no gradient of all parameters ever exists.

Layers that `Tapping` knows are read off during a backward pass; all other parameters have their whole gradients taken
row by row. `drawn_layers.py` draws the coordinates, `tried_layers.py` tries what is read off.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.core.concepts import Facts, Inputs
from rue.core.derivatives import derived_jacobian
from rue.core.errors import DerivativeError, RueWarning
from rue.core.memory import free_bytes
from rue.core.nested import leaves, take
from rue.core.row_by_row import LONGEST
from rue.core.stored import storable
from rue.models.torch.blocks import LayerBlock, Place, TappedBlock
from rue.models.torch.tapped_layers import TAPPED
from rue.models.torch.taps import Tapping
from rue.models.torch.uses import Network, Uses

COARSE = torch.bfloat16
PIECE_BYTES = 2**30  # of hidden layers that are held at once on a CPU
SHARE = 0.25  # of the free memory of a GPU, for the same
BATCH = 256  # rows of a batch that are looked at, all at once


@storable
@dataclass(frozen=True)
class LayerSketch:
    """Coordinates of a module's parameters, and its Jacobian in them."""

    network: Network = field(repr=False)
    blocks: dict[Place, LayerBlock] = field(repr=False)
    tapped: frozenset[Place] = field(repr=False)  # blocks that are read off; the others' gradients are taken whole
    found: Uses = field(repr=False)  # what forward passes showed
    row_bytes: int = 0  # of the hidden layers of one row
    half: bool = False  # passes through the layers are made in bfloat16
    taken: "dict[tuple[Place, ...], NetworkPart]" = field(default_factory=dict, repr=False)  # made before

    @property
    def size(self) -> int:
        """The number of coordinates, r."""
        return sum(block.size for block in self.blocks.values())

    @property
    def combined(self) -> bool:
        """Whether there are fewer than there are parameters that rows use; parameters that none uses are no loss."""
        return any(block.size < block.place.numel for block in self.blocks.values())

    @property
    def generic(self) -> int:
        """The number of parameters whose whole gradients are taken row by row."""
        return sum(place.numel for place in self.blocks if place not in self.tapped)

    def project(self, vectors: Tensor) -> Tensor:
        """The coordinates (..., r) of vectors (..., d)."""
        return torch.cat([block.project(vectors) for block in self.blocks.values()], -1)

    def parts(self, vector: Tensor) -> Iterator[tuple[Tensor, int]]:
        """The entries of a vector (d,) in each block, and the number of its coordinates."""
        for place, block in self.blocks.items():
            yield place.of(vector), block.size

    def describe(self) -> Facts:
        """How many parameters were read off layers, and how many had their gradients taken whole."""
        read = sum(place.numel for place in self.tapped)
        how = {"layers_in": "bfloat16"} if self.half else {}
        return {"projected_to": self.size, "read_off_layers": read, "whole_gradients": self.generic, **how}

    def jacobian(self, inputs: Inputs, followed: Tensor | None = None) -> Tensor:
        """∂f/∂z (c, k, r), in pieces of rows whose hidden layers fit in memory; smaller ones if they do not.

        Of the `followed` outputs of each row (c, f) alone it is (c, f, r).
        """
        self.warn_of_strangers(inputs)
        count, done, parts = len(leaves(inputs)[0]), 0, []
        size = self.rows_at_once()
        while done < count:
            try:
                part = slice(done, done + size)
                parts.append(self._of_piece(take(inputs, part), None if followed is None else followed[part]))
                done += size
            except torch.OutOfMemoryError:
                if size == 1:
                    raise
                size = max(1, min(size, count - done) // 2)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def part(self, places: tuple[Place, ...]) -> "NetworkPart":
        """The network as a function of these parameters: always the same object, whose derivatives are tried once."""
        return self.taken.setdefault(places, NetworkPart(self.network, places))

    def warn_of_strangers(self, inputs: Inputs) -> None:
        """Warn where rows use parameters that no row of training uses, which have no coordinates."""
        strange = set(self.found.unreached)
        if not strange:
            return
        rows = min(BATCH, self.rows_at_once())
        for start in range(0, len(leaves(inputs)[0]), rows):
            used = strange & self.network.reached(take(inputs, slice(start, start + rows)))
            if used:
                warnings.warn(
                    f"audited rows use {sum(place.numel for place in used):,} parameters that no training row uses: no "
                    "other rows of training would move them, so that they add nothing to these rows' std; treat the "
                    "rows as unlike those of training",
                    RueWarning,
                    stacklevel=2,
                )
                return

    def held(self, rows: int) -> int:
        """Bytes of hidden layers that are in memory at once while these many rows are read."""
        return self.row_bytes * min(rows, self.rows_at_once())

    def rows_at_once(self) -> int:
        """How many rows have hidden layers that fit in memory."""
        device = self.network.theta.device
        room = PIECE_BYTES if device.type == "cpu" else int(SHARE * free_bytes(device))
        return max(1, room // max(1, self.row_bytes))

    def _of_piece(self, inputs: Inputs, followed: Tensor | None) -> Tensor:
        parts = {**(self._read_off(inputs, followed) if self.tapped else {}), **self._whole(inputs, followed)}
        return torch.cat([parts[place] for place in self.blocks], -1)

    def _read_off(self, inputs: Inputs, followed: Tensor | None) -> dict[Place, Tensor]:
        """The coordinates (c, k, size) of tapped blocks, by one backward pass for each output that is followed."""
        with torch.enable_grad():
            predicted, coordinates = self.forward(inputs)
            values = predicted if followed is None else predicted.gather(1, followed)
            each = [self.back(values[:, j].sum(), coordinates) for j in range(values.shape[1])]
        return {place: torch.stack([one[place] for one in each], 1) for place in coordinates}

    def forward(
        self, inputs: Inputs, instead: Mapping[Place, TappedBlock] | None = None
    ) -> tuple[Tensor, dict[Place, Tensor]]:
        """Outputs (c, k) with taps, and the coordinates (c, size) that a backward pass fills.

        What is tapped are all blocks that can be, or others `instead` of them.
        """
        rows, theta = len(leaves(inputs)[0]), self.network.theta
        read: Mapping[Place, TappedBlock] = {place: self.blocks[place] for place in self.blocks if place in self.tapped}
        blocks = dict(read if instead is None else instead)
        coordinates = {
            place: torch.zeros(rows, block.size, dtype=theta.dtype, device=theta.device).requires_grad_()
            for place, block in blocks.items()
        }
        coarse = torch.autocast(theta.device.type, COARSE, enabled=self.half)
        with _told_apart(), coarse, Tapping(theta, TAPPED, blocks, self.found.axes, coordinates, rows) as taps:
            predicted = self.network.predict_once(inputs)
        if self.found.others(taps.seen, self.tapped):
            raise DerivativeError(_OTHERWISE)
        return predicted, coordinates

    def back(self, value: Tensor, coordinates: dict[Place, Tensor]) -> dict[Place, Tensor]:
        """The gradient of a sum of outputs by the coordinates of every row."""
        if not value.requires_grad:
            return {place: torch.zeros_like(part) for place, part in coordinates.items()}
        with _told_apart():
            slopes = torch.autograd.grad(
                value, list(coordinates.values()), retain_graph=True, allow_unused=True, materialize_grads=True
            )
        return dict(zip(coordinates, slopes, strict=True))

    def _whole(self, inputs: Inputs, followed: Tensor | None) -> dict[Place, Tensor]:
        """The coordinates (c, k, size) of blocks that are not tapped, from their whole gradients."""
        places = [place for place in self.blocks if place not in self.tapped]
        if not places:
            return {}
        rows = derived_jacobian(self.part(tuple(places)), inputs)
        if followed is not None:
            rows = rows.gather(1, followed[:, :, None].expand(-1, -1, rows.shape[2]))
        cut = rows.split([place.numel for place in places], -1)
        return {
            place: self.blocks[place].combine(whole.reshape(*whole.shape[:-1], *place.shape))
            for place, whole in zip(places, cut, strict=True)
        }


_OTHERWISE = (
    "the module uses its parameters otherwise for these rows than for the first ones, so that their gradients cannot "
    "be told apart layer by layer; pad every batch to one length, do not divide batches in forward, write torch.where "
    "for branches that depend on values, or use another solver: rue.solve.Dual() or Projection()"
)


@contextmanager
def _told_apart() -> Iterator[None]:
    """Say what is wrong where taps meet other rows than they were made for: torch then fails anywhere, in many ways."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, LookupError, TypeError, ValueError) as error:
        raise DerivativeError(f"{_OTHERWISE} (torch says: {' '.join(str(error).split())[:LONGEST]})") from error


@storable
@dataclass(frozen=True)
class NetworkPart:
    """A network as a function of the parameters at some places."""

    network: Network
    places: tuple[Place, ...]

    @property
    def entries(self) -> Tensor:
        """Their numbers in theta."""
        theta = self.network.theta
        every = torch.arange(len(theta), device=theta.device)
        return torch.cat([place.of(every).reshape(-1) for place in self.places])

    @property
    def theta(self) -> Tensor:
        """The parameters at these places, flat."""
        return self.network.theta[self.entries]

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (c, k) with other parameters there."""
        return self.network.predict(self.network.theta.index_copy(0, self.entries, theta), inputs)
