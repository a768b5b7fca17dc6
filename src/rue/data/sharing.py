"""Drivers of engines that share the sums of a fit: a sum as it is sent to another process, which reads the rows itself.

`rue.workers(driver)` takes an object with a `count` and `sums(part, blocks, nodes)`; `examples/engines` has two.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rue.core.concepts import TrainingSet
from rue.core.sums import Part as Part
from rue.core.sums import Sums as Sums
from rue.core.sums import Workers as Workers
from rue.core.sums import added as added
from rue.data.opening import opened
from rue.data.rows import Rows


@dataclass(frozen=True)
class Sent:
    """A sum without the values of its rows, as an engine sends it to its workers."""

    part: Part = field(repr=False)
    rows: Rows
    count: int  # blocks

    @classmethod
    def of(cls, part: Part, blocks: Sequence[TrainingSet]) -> "Sent":
        """The sum of these blocks of training rows."""
        whole = blocks[0].whole
        assert isinstance(whole, Rows)  # nothing else has several blocks
        return cls(part, whole.elsewhere(), len(blocks))

    def added(self, data: Any, node: range) -> Sums:
        """The sums of a node, of the very data (X, y) that the fit was given."""
        return added(self.part, opened(self.rows, data).blocks(self.count), node)
