"""Processes of `torch.distributed` that share the sums of a fit."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist

from rue.core.concepts import TrainingSet
from rue.core.errors import SettingError, WorkerLostError
from rue.core.sums import Part, Sums, Workers, added, owner, shared_by


@contextmanager
def workers(by: Workers | None = None) -> Iterator[None]:
    """Share the sums over training rows that the fits inside this block make, between several processes.

    Without `by` these are the processes of `torch.distributed`, started by torchrun: each runs the same lines with
    the same model and the same rows (arrays that are memory-mapped, or a dataset, of which it reads its part), and
    ends with the same auditor, to the bit, on a CPU, as one process alone. `by` is another driver, as for Ray or Spark.

    >>> from rue.core.sums import added
    >>> class Alone:
    ...     count = 1
    ...     def sums(self, part, blocks, nodes):
    ...         return [added(part, blocks, node) for node in nodes]
    >>> with workers(Alone()):
    ...     pass  # auditor = rue.CalibratedRUE().fit(model, (X, y))
    """
    with shared_by(TorchWorkers.here() if by is None else by):
        yield


@dataclass(frozen=True)
class TorchWorkers:
    """The processes of the default group."""

    rank: int
    count: int

    @classmethod
    def here(cls) -> "TorchWorkers":
        """This process among them."""
        if not (dist.is_available() and dist.is_initialized()):
            raise SettingError(
                "rue.workers() shares sums between the processes of torch.distributed, and there is no group of them; "
                'start the script with torchrun and call torch.distributed.init_process_group("gloo") first'
            )
        return cls(dist.get_rank(), dist.get_world_size())

    def sums(self, part: Part, blocks: Sequence[TrainingSet], nodes: Sequence[range]) -> list[Sums]:
        """Add up the nodes of this process, then hand all of them round."""
        owners = [owner(node, len(blocks), self.count) for node in nodes]
        own = {node: added(part, blocks, node) for node, at in zip(nodes, owners, strict=True) if at == self.rank}
        try:
            return [self._handed(own.get(node), at) for node, at in zip(nodes, owners, strict=True)]
        except RuntimeError as error:
            raise WorkerLostError(
                f"worker {self.rank} of {self.count} lost another while sums were handed round ({error}); see what the "
                "other ended with, and start the job again"
            ) from error

    def _handed(self, sums: Sums | None, source: int) -> Sums:
        shapes = [None if sums is None else [(part.shape, part.dtype, part.device.type) for part in sums]]
        dist.broadcast_object_list(shapes, src=source)
        if sums is None:
            sums = tuple(torch.empty(shape, dtype=dtype, device=kind) for shape, dtype, kind in shapes[0] or ())
        for part in sums:
            dist.broadcast(part, src=source)
        return sums
