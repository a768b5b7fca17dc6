"""A short probe: what a few rows and a few products cost on this machine."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rue.core.chunks import rows_of
from rue.core.concepts import Inputs, TrainedObjective, TrainingSet
from rue.core.derivatives import derived_jacobian, outputs
from rue.core.nested import leaves, take
from rue.core.plan import Rates, SketchRates
from rue.core.row_by_row import noticed
from rue.core.solve.sketch import Sketch

ENOUGH = 0.2  # seconds after which nothing is repeated
ROWS = {"cpu": 64, "cuda": 512}  # that are looked at: a GPU is slow with few
BACKWARD = 3  # forward passes that a gradient takes, where it is not measured
WIDE = 1024  # rows of the matrices whose product is timed
FRESH = 2**23  # numbers that are written to new memory
HELD = 0.6  # of the memory that is set aside for hidden layers, so much is used; a GPU tells how much it was
NUMBERS = 2**27  # of gradients that a probe may hold


def probe(core: TrainedObjective, data: TrainingSet, bound: float, sketch: Sketch | None) -> Rates:
    """Time forward passes, gradients and products, and this sketch unless it is None.

    `bound` are the seconds of what was done before.
    """
    batch = next(iter(data.batches()))
    few = take(batch.inputs, slice(0, ROWS[core.theta.device.type]))
    count = len(leaves(few)[0])
    device = core.theta.device
    forward = _seconds(lambda: outputs(core, few), device) / count
    rows = len(leaves(batch.inputs)[0])
    passing = _most(lambda: outputs(core, few), device) * rows // count
    k = outputs(core, take(few, slice(0, 2))).shape[1]
    fewer = max(1, min(count, NUMBERS // (k * core.theta.numel())))
    gradient = BACKWARD * k * forward
    with noticed() as loops:
        if k * core.theta.numel() <= NUMBERS:
            gradient = _seconds(lambda: _exact(core, take(few, slice(0, fewer))), device) / fewer
    sketched = (
        None if sketch is None else _sketch_rates(core, few, rows if device.type == "cuda" else data.n, k, sketch)
    )
    matrix = torch.randn(WIDE, WIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(device)
    product = _seconds(lambda: matrix @ matrix, device) / WIDE**3
    number = _seconds(lambda: torch.ones(FRESH, dtype=torch.float64, device=device).add_(1), device) / FRESH
    return Rates(bound, forward, gradient, loops.gradients > 0, product, number, passing, sketched)


def _exact(core: TrainedObjective, inputs: Inputs) -> Tensor:
    return derived_jacobian(core, inputs) if core.jacobian is None else core.jacobian(inputs)


def _sketch_rates(core: TrainedObjective, few: Inputs, rows: int, k: int, sketch: Sketch) -> SketchRates:
    """`rows` are the most that are read at once."""
    assert core.sketched is not None  # a sketch is given for such cores alone
    start = time.perf_counter()
    coordinates = core.sketched(few, sketch.size, sketch.seed)
    drawn = time.perf_counter() - start
    likeliest = None if sketch.followed is None else outputs(core, few).topk(sketch.followed, dim=1).indices
    count, device = len(leaves(few)[0]), core.theta.device
    with noticed() as loops:
        row = _seconds(lambda: coordinates.jacobian(few, likeliest), device) / count
    held = coordinates.held(min(rows, rows_of((sketch.followed or k) * coordinates.size, device)))
    used = HELD
    if device.type == "cuda":
        used = _most(lambda: coordinates.jacobian(few, likeliest), device) / coordinates.held(count)
    return SketchRates(sketch.size, drawn, row, loops.gradients > 0, int(used * held))


def _most(do: Callable[[], Any], device: torch.device) -> int:
    """Bytes that a call holds at the most on a GPU; 0 on a CPU, which does not count them."""
    if device.type != "cuda":
        return 0
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    do()
    return int(torch.cuda.max_memory_allocated(device)) - before


def _seconds(do: Callable[[], Any], device: torch.device) -> float:
    """Seconds of one call, the least of a few: the first may prepare something."""
    least, spent = float("inf"), 0.0
    for run in range(4):
        start = time.perf_counter()
        do()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        took = time.perf_counter() - start
        least, spent = min(least, took), spent + took
        if run and spent > ENOUGH:
            break
    return least
