"""The plan of a fit: what every way would cost, before anything long is begun."""

import time as clock
from dataclasses import replace
from math import inf
from numbers import Real
from typing import Any

import torch

from rue.core import costs
from rue.core.concepts import Solver, TrainedObjective, TrainingSet
from rue.core.curvature import penalty_diagonal
from rue.core.derivatives import outputs
from rue.core.errors import ModelError, SettingError
from rue.core.memory import free_bytes
from rue.core.model import Model
from rue.core.nested import leaves, take
from rue.core.plan import AuditSize, Plan, Rates, Streaming, Way, planned
from rue.core.probe import probe
from rue.core.resample import untouched
from rue.core.solve.choice import LARGE, NUMBERS, SMALL, largest_matrix, too_large
from rue.core.solve.dense import Cholesky
from rue.core.solve.dual import Dual
from rue.core.solve.sketch import Sketch, affordable
from rue.core.solve.streamed_dual import MULTIPLICATIONS, StreamedDual
from rue.data.opening import input_batches, training_rows
from rue.data.rows import Rows
from rue.models.admission import described, shapes


def plan(
    model: Model, data: Any, *, inputs: Any = None, memory: float | None = None, time: float | None = None
) -> Plan:
    """What every way to solve would cost, from a short probe, and which one `fit` chooses.

    `inputs` are the rows to audit, `memory` the bytes that may be used (all that are free unless it is given) and
    `time` the seconds that fit and audit may take. Costs are those of `LinearRUE`; `fit` refuses, with this table,
    what does not fit in memory.

    >>> import rue
    >>> net, X, y = torch.nn.Linear(2, 1), torch.eye(2).repeat(3, 1), torch.arange(6.0)
    >>> plan(rue.wrap(net, loss="squared_error", l2=1.0), (X, y), inputs=X).chosen.solver
    Cholesky()
    """
    if not isinstance(model, Model):
        raise ModelError('plan takes a wrapped model; use rue.wrap(net, loss="squared_error", l2=...)')
    if not (model.family.gradients and model.family.joint):
        raise ModelError(
            "a plan is for models with gradients, and this one is audited by its predictions or its trees, whose cost "
            "is that of a forest on the same rows; use rue.audit"
        )
    _check_limits(memory, time)
    room = int(free_bytes(model.theta.device) if memory is None else memory)
    with untouched(), torch.inference_mode(False):
        hopeless = costs.hopeless(model.theta.numel(), model.theta.element_size(), room)
        if hopeless is not None:
            return hopeless
        start = clock.perf_counter()
        rows, bound = training_rows(data, model)
        m = 0 if inputs is None else _counted(inputs, bound)
        size = _size(bound, rows, m)
        seen = clock.perf_counter() - start
        streamed = _streamed(bound, rows, size)
        ways = _ways(bound, rows, size, room, time, streamed)
        sketches = [way.solver for way in ways if isinstance(way.solver, Sketch)]
        solved = any(way.whole and way.refused is None for way in ways)
        rates = probe(bound.objective, rows, seen, sketches[-1 if solved else 0] if sketches else None)
        return planned(size, room, time, _ways(bound, rows, size, room, time, streamed, rates))


def _counted(inputs: Any, bound: Model) -> int:
    """The number of rows to audit; raises where the model cannot take them."""
    count = 0
    for batch in input_batches(inputs, bound):
        if count == 0:
            with described(f"the model could not take inputs of {shapes(batch)}"):
                outputs(bound, take(batch, slice(0, 2)))
        count += len(leaves(batch)[0])
    return count


def solver_for(model: Model, rows: Rows) -> Solver | None:
    """The solver that is planned for a model too large for an exact one; None for any other model."""
    family = model.family
    if family.coupled or not (family.gradients and family.joint):
        return None
    if model.theta.numel() <= SMALL and not too_large(model, rows):
        return None
    room = free_bytes(model.theta.device)
    size = _size(model, rows, 0)
    needless = not too_large(model, rows) and costs.dual(size, None, room).bytes <= room  # `Dual` comes before it
    streamed = None if needless else _streamed(model, rows, size)
    chosen = costs.solver_of(planned(size, room, None, _ways(model, rows, size, room, None, streamed)))
    return None if isinstance(chosen, Cholesky | Dual) else chosen


def _check_limits(memory: float | None, time: float | None) -> None:
    for name, value, unit in (("memory", memory, "bytes"), ("time", time, "seconds")):
        if value is not None and (isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < inf):
            raise SettingError(f"{name} must be a finite number of {unit} above 0, or None, got {value!r}")


def _size(model: Model, rows: TrainingSet, m: int) -> AuditSize:
    k = outputs(model, take(next(iter(rows.batches())).inputs, slice(0, 2))).shape[1]
    theta = model.theta
    return AuditSize(rows.n, rows.units, theta.numel(), k, m, theta.element_size(), largest_matrix(theta.device))


def _ways(
    model: Model,
    rows: Rows,
    size: AuditSize,
    room: int,
    time: float | None,
    streamed: Streaming | None,
    rates: Rates | None = None,
) -> list[Way]:
    """Exact ways first, those that are too slow unasked marked so; then approximations, the most faithful first."""
    core: TrainedObjective = model.objective
    couples = _penalty_couples(core)
    largest = None if couples or core.sketched is None else affordable(core, size.n, size.k)
    every = costs.every(size, room, rates, largest, streamed)
    ways = [replace(costs.limited(way, room, time), row_by_row=_looped(way, rates)) for way in every]
    if couples:
        ways = [replace(way, refused="the penalty couples parameters") if way.solver == Dual() else way for way in ways]
    if time is not None:
        return ways
    if streamed is not None and not core.stated:
        reason = "not unasked: a penalty is searched where no l2 is stated, and this one weighs all parameters alike"
        ways = [_unasked(way, reason) if way.solver == StreamedDual() else way for way in ways]
    if streamed is not None:
        work = (size.n * size.k) ** 2 * streamed.numbers
        limit = MULTIPLICATIONS[core.theta.device.type]
        reason = f"not unasked: {work:.1e} multiplications, more than {limit:.0e}"
        ways = [_unasked(way, reason) if way.solver == StreamedDual() and work > limit else way for way in ways]
        if size.n * size.k > LARGE and not streamed.kept:
            reason = "not unasked: the training rows would be read again for every audited batch"
            ways = [_unasked(way, reason) if way.solver == StreamedDual() else way for way in ways]
    if not too_large(model, rows):
        return ways
    most = largest_matrix(core.theta.device)
    reason = f"not unasked: beyond {most:,} rows of a matrix, or {NUMBERS:,} numbers of gradients"
    return [_unasked(way, reason) if way.whole else way for way in ways]


def _penalty_couples(core: TrainedObjective) -> bool:
    """Whether the penalty's curvature is not diagonal, which dual forms and sketches ask for."""
    return core.stated and core.ridge is None and penalty_diagonal(core) is None


def _looped(way: Way, rates: Rates | None) -> bool:
    """Whether a probe saw gradients taken row by row."""
    if rates is None:
        return False
    return rates.looped if way.whole or rates.sketch is None else rates.sketch.looped


def _unasked(way: Way, reason: str) -> Way:
    return way if way.refused else replace(way, refused=reason)


def _streamed(model: Model, rows: Rows, size: AuditSize) -> Streaming | None:
    """What it takes to multiply gradients layer by layer; None where that cannot be, or the matrix is too large."""
    count, core = size.n * size.k, model.objective
    most = largest_matrix(core.theta.device)
    if (
        core.gradient_products is None
        or core.family.coupled
        or size.d <= most
        or count > most
        or _penalty_couples(core)
    ):
        return None
    start = clock.perf_counter()
    one = torch.ones((), dtype=torch.float64, device=core.theta.device).expand_as(core.theta)
    products = core.gradient_products(rows, one, core.theta)
    return Streaming(products.numbers, clock.perf_counter() - start, products.keepable)
