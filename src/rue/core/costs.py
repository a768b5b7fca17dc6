"""Memory and seconds of every solver, from the numbers of rows, parameters and outputs and from measured rates.

The counts follow what `LinearRUE` does: gradients of all rows, their products, a factorisation, a solve for the
resampled gradients; for every audited row a product with those. What a calibrated method does beyond is not counted.
"""

from dataclasses import replace

from rue.core.chunks import CHUNK_BYTES, REREAD_SHARE
from rue.core.concepts import Solver
from rue.core.errors import ResourceError
from rue.core.memory import MOST, OF_SKETCH, SHARE
from rue.core.plan import AuditSize, Plan, Rates, Streaming, Way, duration, in_words, planned
from rue.core.solve.choice import prefers_dual
from rue.core.solve.conjugate_gradient import ConjugateGradient
from rue.core.solve.dense import Cholesky
from rue.core.solve.dual import BLOCKS, Dual
from rue.core.solve.dual import SHARE as OF_DUAL
from rue.core.solve.projection import Projection
from rue.core.solve.sketch import Sketch, down_from
from rue.core.solve.streamed_dual import StreamedDual

FLOAT = 8  # bytes of a float64
LEAN = 7  # vectors of all parameters that are in memory at once while a network is admitted and sketched
WORKING = 2**25  # bytes of pieces that are being worked on
EIGEN = 5  # multiplications of an eigendecomposition, in units of p³
COPIES = 30  # times that gradients are written while they are weighed, gathered and solved for
FIXED = 0.15  # seconds
HANDED = 5  # times that what is held of gradients is written: kept, divided, turned into float64 to be multiplied
STEPS = 60  # of conjugate gradients; a product with the curvature takes two passes for one output
SMALLEST = 1024  # coordinates of the leanest sketch
KEPT = {8192: ".92 to .98", 4096: ".82 to 1.00", 2048: ".68 to 1.00", 1024: ".68 to .98"}  # docs/scale, l2 stated
KEPT_OF_FEW = ".67 to .99"  # where few classes are followed


def every(
    size: AuditSize, memory: int, rates: Rates | None, largest: Sketch | None, streamed: Streaming | None = None
) -> list[Way]:
    """Every way with its cost, exact ones first; sketches up to the `largest`, or a projection where it is None.

    `streamed` says what it takes to multiply gradients layer by layer, if they can be.
    """
    exact = [dense(size, rates, memory), dual(size, rates, memory)]
    if prefers_dual(size.d, size.n * size.k, size.largest):
        exact.reverse()
    ways = [
        *exact,
        *([] if streamed is None else [streamed_dual(size, rates, memory, streamed)]),
        iterated(size, rates),
    ]
    if largest is None:
        ways.append(projection(size, rates, memory, Projection()))
    else:
        ways += [sketch(size, rates, memory, each) for each in down_from(largest)]
    return [limited(way, memory, None) for way in ways]


def hopeless(d: int, itemsize: int, memory: int) -> Plan | None:
    """A plan without a possible way where the parameters alone are too many; None for any other model."""
    if LEAN * itemsize * d <= memory:
        return None
    size = AuditSize(0, 0, d, 1, 0, itemsize, 0)
    return planned(size, memory, None, every(size, memory, None, Sketch(SMALLEST)))


def solver_of(plan: Plan) -> Solver:
    """The solver of a plan, or a ResourceError."""
    if plan.chosen is None:
        raise ResourceError(f"this audit does not fit in memory.\n{plan}")
    return plan.chosen.solver


def dense(size: AuditSize, rates: Rates | None, memory: int) -> Way:
    """The whole matrix of the parameters."""
    jacobians, kept = _derivatives(size, memory)
    passes = 1.0 if jacobians else 3.0
    used = _of_matrix(size, size.d) + kept + WORKING + LEAN * size.itemsize * size.d
    if rates is None:
        return _exact(Cholesky(), used, passes, None, None)
    row = rates.gradient
    fit = rates.bound + size.n * (passes * row + 3 * rates.forward) + _solving(size, size.d) * rates.multiplication
    fit += _written(size, rates)
    return _exact(Cholesky(), used, passes, fit, _audit(size, size.d, row, rates))


def dual(size: AuditSize, rates: Rates | None, memory: int) -> Way:
    """The matrix of all outputs of all rows."""
    rows, root = size.n * size.k, min(size.units, 2 * size.d)
    held, solved = FLOAT * rows * size.d, FLOAT * 4.25 * root * size.d
    room = OF_DUAL * memory
    jacobians, kept = _derivatives(size, memory)
    if held <= room:
        passes, used = 2.0, (1.75 if jacobians else 1.0) * held + solved
    else:
        block = room / BLOCKS
        passes, used = 5.5 + held / (2 * block), max(5 * block, 2 * block + solved)
    used += FLOAT * 2 * rows**2 + kept + WORKING + LEAN * size.itemsize * size.d
    if rates is None:
        return _exact(Dual(), used, passes, None, None)
    work = rows**2 * size.d + rows**3 / 3 + root * (2 * size.d * rows + rows**2)
    fit = rates.bound + size.n * (passes * rates.gradient + 3 * rates.forward) + work * rates.multiplication
    fit += _written(size, rates) * passes / 2
    return _exact(Dual(), used, passes, fit, _audit(size, size.d, rates.gradient, rates))


def streamed_dual(size: AuditSize, rates: Rates | None, memory: int, streamed: Streaming) -> Way:
    """The matrix of all outputs of all rows, in as many turns as memory asks for."""
    rows, numbers = size.n * size.k, streamed.numbers
    held = size.itemsize * rows * numbers
    passes = max(1.0, 4 * held / memory)
    layers = 0 if rates is None or rates.sketch is None else rates.sketch.held
    used = max(min(held, memory // 4) + layers + FLOAT * 2 * rows**2, FLOAT * 6 * rows**2) + streamed.kept * held
    used += 4 * WORKING + LEAN * size.itemsize * size.d
    if rates is None:
        return replace(_exact(StreamedDual(), used, passes, None, None), whole=False)
    row = rates.forward * (1 + 2 * size.k) + HANDED * size.k * numbers * rates.number
    product = numbers * rates.multiplication
    work = EIGEN * rows**3 * rates.multiplication + rows**2 * product / 2 + _solving(size, rows) * rates.multiplication
    fit = rates.bound + streamed.drawn + size.n * (passes * row + 3 * rates.forward) + work
    chunk = max(CHUNK_BYTES, int(REREAD_SHARE * memory))
    again = 0 if streamed.kept else -(-size.m * FLOAT * size.k * rows // chunk)  # times that training rows are read
    audit = passes * (again * size.n + size.m) * row + size.m * size.k * rows * product
    audit += _audit(size, rows, 0.0, rates)
    return replace(_exact(StreamedDual(), used, passes, fit, audit), whole=False)


def sketch(size: AuditSize, rates: Rates | None, memory: int, solver: Sketch) -> Way:
    """The matrix of a few coordinates."""
    p, size = min(solver.size, size.d), size._replace(k=solver.followed or size.k)
    kept = _kept(size, p, int(OF_SKETCH * memory))
    passes = 1.0 if kept else 4.0
    layers = 0 if rates is None or rates.sketch is None else max(rates.sketch.held, rates.passing)
    rows = size.n * size.k
    few_rows = FLOAT * (1.75 * rows * p + 2 * rows**2 + 4.25 * size.units * p)  # the dual form in the coordinates
    matrix = int(few_rows) if prefers_dual(p, rows, size.largest) else _of_matrix(size, p)
    used = kept + WORKING + max(matrix, layers) + LEAN * size.itemsize * size.d
    few = "" if solver.followed is None else f", followed={solver.followed}"
    name = f"Sketch({solver.size}{few})"
    kept_by_all = next((words for known, words in KEPT.items() if solver.size >= known), "below .9")
    keeps = kept_by_all if solver.followed is None else KEPT_OF_FEW
    nothing_combined = solver.size >= size.d and solver.followed is None
    answer = "exact: nothing is combined" if nothing_combined else f"correlation {keeps} with exact ranks"
    if rates is None or rates.sketch is None:
        return Way(name, solver, answer, used, passes, None, None)
    share = p / min(rates.sketch.size, size.d)
    row, drawn = share * rates.sketch.row, share * rates.sketch.drawn
    fit = rates.bound + drawn + size.n * (passes * row + 3 * rates.forward) + _solving(size, p) * rates.multiplication
    return Way(name, solver, answer, used, passes, fit, _audit(size, p, row, rates))


def projection(size: AuditSize, rates: Rates | None, memory: int, solver: Projection) -> Way:
    """Directions of the gradients, for models without layers that can be read off."""
    p = min(solver.size, size.d)
    used = _of_matrix(size, p) + 3 * FLOAT * p * size.d + _kept(size, p, int(OF_SKETCH * memory)) + WORKING
    answer = f"along {p} directions of the gradients"
    if rates is None:
        return Way(f"Projection({solver.size})", solver, answer, used, 3.0, None, None)
    row = rates.gradient + size.k * p * size.d * rates.multiplication / 2
    fit = rates.bound + size.n * (3 * row + 3 * rates.forward) + _solving(size, p) * rates.multiplication
    return Way(f"Projection({solver.size})", solver, answer, used, 3.0, fit, _audit(size, p, row, rates))


def iterated(size: AuditSize, rates: Rates | None) -> Way:
    """Products with the curvature alone, for every resampled gradient."""
    root = min(size.units, 2 * size.d)
    passes = 2.0 * STEPS * root / size.k
    used = int(FLOAT * root * size.d * 6 + WORKING + LEAN * size.itemsize * size.d)
    if rates is None:
        return _exact(ConjugateGradient(), used, passes, None, None)
    fit = rates.bound + size.n * passes * rates.gradient
    return _exact(ConjugateGradient(), used, passes, fit, _audit(size, size.d, rates.gradient, rates))


def limited(way: Way, memory: int, time: float | None) -> Way:
    """The way with the reason why it is not possible, if there is one."""
    if way.bytes > memory:
        return replace(way, refused=f"needs {in_words(way.bytes)}, there are {in_words(memory)}")
    if time is not None and way.seconds is not None and way.seconds > time:
        return replace(way, refused=f"takes {duration(way.seconds)}, {duration(time)} are given")
    return way


def _exact(solver: Solver, used: float, passes: float, fit: float | None, audit: float | None) -> Way:
    return Way(f"{type(solver).__name__}()", solver, "exact", int(used), passes, fit, audit, whole=True)


def _kept(size: AuditSize, p: int, room: int) -> int:
    """Bytes of the gradients of all rows, or 0 where they do not fit and are computed again."""
    needed = size.itemsize * size.n * size.k * p
    return needed if needed <= room else 0


def _derivatives(size: AuditSize, memory: int) -> tuple[int, int]:
    """Bytes of the Jacobians of all rows that are kept, and of all derivatives: gradients are where room is left."""
    room = min(MOST, int(SHARE * memory))
    jacobians = _kept(size, size.d, room)
    return jacobians, jacobians + _kept(size._replace(k=1), size.d, room - jacobians)


def _of_matrix(size: AuditSize, p: int) -> int:
    """Bytes of a matrix of p parameters, its factor, and of the resampled gradients while they are solved for."""
    return FLOAT * (max(4 * p**2, 2 * p**2 + 5 * size.units * p) if size.units <= 2 * p else 10 * p**2)


def _solving(size: AuditSize, p: int) -> float:
    """Multiplications: the matrix, its factor, the resampled gradients."""
    work = size.n * size.k * p**2 + p**3 / 3
    return work + (size.units * p**2 if size.units <= 2 * p else size.n * p**2 + (1 + EIGEN) * p**3)


def _written(size: AuditSize, rates: Rates) -> float:
    """Seconds of copies of the gradients of all rows, and of what a fit does for any number of rows."""
    return FIXED + COPIES * size.n * size.k * size.d * rates.number


def _audit(size: AuditSize, p: int, row: float, rates: Rates) -> float:
    root = size.units if size.units <= 2 * p else p
    return size.m * (row + rates.forward + size.k * p * root * rates.multiplication)
