"""Sums over training rows: block by block, merged in one order, so that any number of workers gives the same bits."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from torch import Tensor

from rue.core.concepts import TrainingSet
from rue.core.progress import quiet, track

BLOCKS = 64  # at most; so many workers can share a sum
BYTES = 2**31  # of the sums of all blocks: a large sum has fewer blocks, because several are in memory while they merge

Sums = tuple[Tensor, ...]
Part = Callable[[TrainingSet], Sums]
"""Adds up some training rows, of which it reads nothing but their batches. The sums are new tensors."""


class Workers(Protocol):
    """Processes that share the blocks of a sum."""

    @property
    def count(self) -> int:
        """The number of workers."""
        ...

    def sums(self, part: Part, blocks: Sequence[TrainingSet], nodes: Sequence[range]) -> list[Sums]:
        """`added` of every node, a range of blocks, whichever worker adds it: each ends with all of them."""
        ...


@contextmanager
def shared_by(workers: Workers) -> Iterator[None]:
    """Share the sums of all fits inside this block."""
    token = _open.set(workers)
    try:
        yield
    finally:
        _open.reset(token)


def summed(data: TrainingSet, part: Part, numbers: int) -> Sums:
    """The sums over all rows; `numbers` says how many float64 numbers they have."""
    blocks = data.blocks(max(1, min(BLOCKS, BYTES // (8 * max(1, numbers)))))
    if len(blocks) == 1:
        return part(blocks[0])
    whole, workers = range(len(blocks)), _open.get()
    if workers is None:
        return added(part, blocks, whole)
    nodes = _nodes(whole, len(blocks), workers.count)
    return _merged(dict(zip(nodes, workers.sums(part, blocks, nodes), strict=True)), whole)


def added(part: Part, blocks: Sequence[TrainingSet], node: range) -> Sums:
    """The sums of a range of blocks: of its halves, one after the other, so that few are in memory at once."""
    numbers = track("training rows", node, len(node))

    def of(node: range) -> Sums:
        if len(node) > 1:
            return _plus(*map(of, _halves(node)))
        with quiet():
            return part(blocks[next(numbers)])

    found = of(node)
    next(numbers, None)  # ends the bar
    return found


def owner(node: range, blocks: int, count: int) -> int:
    """The worker that a node belongs to."""
    return node.start * count // blocks


def _nodes(node: range, blocks: int, count: int) -> list[range]:
    """The largest nodes of the tree that belong to one worker each."""
    first, last = (at * count // blocks for at in (node.start, node.stop - 1))
    return [node] if first == last else [each for half in _halves(node) for each in _nodes(half, blocks, count)]


def _merged(found: dict[range, Sums], node: range) -> Sums:
    return found[node] if node in found else _plus(*(_merged(found, half) for half in _halves(node)))


def _halves(node: range) -> tuple[range, range]:
    """The first power of two that is at least half of the blocks, and the rest.

    >>> _halves(range(5))
    (range(0, 4), range(4, 5))
    """
    first = 1 << (len(node) - 1).bit_length() - 1
    return node[:first], node[first:]


def _plus(one: Sums, other: Sums) -> Sums:
    return tuple(a.add_(b) for a, b in zip(one, other, strict=True))


_open: ContextVar[Workers | None] = ContextVar("rue_workers", default=None)
