"""Minibatch training of many networks at once: g training sets with r networks each, as one batched model.

For small networks most of the time is overhead between operations: a thousand side by side take little longer than
one. Parameters are (g, r, d); rows of a training set are shared by its r networks, which differ in their starts and
in the weights of the rows.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from rue.core.concepts import Inputs
from rue.core.errors import DataError, ModelError, NumericalError, SettingError
from rue.core.model import Model
from rue.core.nested import leaves, map_leaves
from rue.core.process import ignoring
from rue.core.progress import track
from rue.core.resample import generator
from rue.methods.fitting import Fitting, fitting

# The objective of one network on a batch: theta (d,), inputs (c, ...), targets (c, ...), weights (c,) -> ()
BatchObjective = Callable[[Tensor, Inputs, Any, Tensor], Tensor]


@dataclass(frozen=True)
class Settled:
    """Training stops when the mean objective of `every` passes is less than `fall` below that of the passes before.

    Means over several passes are compared because minibatches make single passes noisy.

    >>> Settled(every=2, fall=0.1)([3.0, 2.0, 1.5, 1.4]), Settled(every=2, fall=0.1)([1.5, 1.4, 1.45, 1.4])
    (False, True)
    """

    every: int = 10
    fall: float = 0.005

    def __post_init__(self) -> None:
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise SettingError(f"every must be a whole number of at least 1, got {self.every!r}")
        if not 0 <= self.fall < math.inf:
            raise SettingError(f"fall must be at least 0 and finite, got {self.fall!r}")

    def __call__(self, history: Sequence[float]) -> bool:
        """Whether to stop, given the objective of every pass so far."""
        if len(history) % self.every or len(history) < 2 * self.every:
            return False
        before, now = history[-2 * self.every : -self.every], history[-self.every :]
        return (sum(before) - sum(now)) / self.every < self.fall


@dataclass(frozen=True)
class Adam:
    """Kingma & Ba's method in shuffled minibatches; the defaults are those of the paper's section 4.1.

    With `decay` the learning rate falls linearly to zero. With `settled` training may end before the last epoch,
    decided by the mean objective of all networks that are trained side by side.
    """

    epochs: int = 500
    batch: int = 128
    learning_rate: float = 0.001
    decay: bool = False
    settled: Settled | None = None

    def __post_init__(self) -> None:
        for name, value in (("epochs", self.epochs), ("batch", self.batch)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SettingError(f"{name} must be a whole number of at least 1, got {value!r}")
        if not 0 < self.learning_rate < math.inf:
            raise SettingError(f"learning_rate must be positive and finite, got {self.learning_rate!r}")

    def __repr__(self) -> str:  # stored results are named by it: `settled` is left out where it is not used
        rule = "" if self.settled is None else f", settled={self.settled!r}"
        settings = f"epochs={self.epochs}, batch={self.batch}, learning_rate={self.learning_rate}, decay={self.decay}"
        return f"Adam({settings}{rule})"


@dataclass(frozen=True)
class TrainingSets:
    """g training sets of n rows each: inputs (g, n, ...), targets (g, n, ...), and a seed for the order of each.

    With `draws` an objective's inputs are a pair, the rows and (c, draws) numbers drawn uniformly from 0 to 1 with the
    set's own seed, so that randomness in a network does not depend on the networks beside it or on the device.
    """

    inputs: Inputs
    targets: Any
    seeds: Sequence[int]
    draws: int = 0

    @property
    def n(self) -> int:
        """Rows of each training set."""
        return int(leaves(self.inputs)[0].shape[1])


@contextmanager
def fitting_many(method: object, models: Sequence[Model], data: Sequence[Any]) -> Iterator[list[Fitting]]:
    """`fitting` for models and training sets that can be trained side by side; others are refused."""
    if len(models) != len(data) or not models:
        raise SettingError(
            f"{len(models)} models and {len(data)} training sets were given; give one training set for each model"
        )
    with ExitStack() as contexts:
        fits = [contexts.enter_context(fitting(method, *pair)) for pair in zip(models, data, strict=True)]
        _check_alike(fits)
        yield fits


def stack(fits: Sequence[Fitting], seed: int) -> tuple[TrainingSets, Tensor]:
    """Training sets of one size side by side, numbered from a seed on, and their rows' weights (g, n)."""
    read = [[(batch.inputs, batch.targets, batch.weight) for batch in fit.data.batches()] for fit in fits]
    inputs, targets, weight = (
        _together([_rows([batch[part] for batch in batches]) for batches in read]) for part in range(3)
    )
    return TrainingSets(inputs, targets, range(seed, seed + len(fits))), weight


def objective_of(model: Model, n: int) -> BatchObjective:
    """A model's own objective over n rows, on a minibatch: mean loss and a share of the penalty."""

    def objective(theta: Tensor, inputs: Inputs, targets: Any, weights: Tensor) -> Tensor:
        return (weights * model.loss(model.predict(theta, inputs), targets)).mean() + model.penalty(theta) / n

    return objective


def train(
    objective: BatchObjective, starts: Tensor, sets: TrainingSets, weight: Tensor, recipe: Adam, *, workers: int = 1
) -> Tensor:
    """Minimise the objective from every start (g, r, d), with rows weighted by (g, r, n); the minima are (g, r, d).

    Where the objective cannot be vectorised, networks are trained one by one in `workers` processes.
    """
    starts, weight = starts.detach(), weight.to(starts)
    at_once = vmap(vmap(objective, (0, None, None, 0)))
    with ignoring("There is a performance drop"):  # still right, only slower
        if _vectorises(at_once, starts, sets, weight):
            thetas = _minimise(at_once, starts, sets, weight, recipe)
        else:
            thetas = _one_by_one(objective, starts, sets, weight, recipe, workers)
    lost = int((~torch.isfinite(thetas)).any(-1).sum())
    if lost:
        raise NumericalError(
            f"{lost} of {thetas.shape[0] * thetas.shape[1]} networks diverged to NaN or infinity; lower the learning "
            f"rate {recipe.learning_rate:g}, or standardise inputs and targets"
        )
    return thetas


def _minimise(objective: BatchObjective, starts: Tensor, sets: TrainingSets, weight: Tensor, recipe: Adam) -> Tensor:
    """Adam on the sum over all networks: each network gets its own gradient."""
    parameters = starts.clone().requires_grad_()
    optimiser = torch.optim.Adam([parameters], lr=recipe.learning_rate, fused=True)
    randoms = [generator(seed) for seed in sets.seeds]
    networks = starts.shape[0] * starts.shape[1]
    steps = recipe.epochs * math.ceil(sets.n / recipe.batch)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 1 / steps if recipe.decay else 1.0, steps)
    history: list[float] = []
    for _ in track(f"training {networks} networks", range(recipe.epochs), recipe.epochs):
        reached = torch.zeros((), device=starts.device)
        order = torch.stack([torch.randperm(sets.n, generator=random) for random in randoms]).to(starts.device)
        for rows in order.split(recipe.batch, dim=1):
            with torch.enable_grad():
                loss = objective(parameters, *_batch(sets, weight, rows, randoms)).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            reached += loss.detach() * rows.shape[1] / (networks * sets.n)
        if recipe.settled is not None:
            history.append(float(reached))
            if recipe.settled(history):
                break
    return parameters.detach()


def _one_by_one(
    objective: BatchObjective, starts: Tensor, sets: TrainingSets, weight: Tensor, recipe: Adam, workers: int
) -> Tensor:
    from joblib import Parallel, delayed

    g, r = starts.shape[:2]
    pairs = [(slice(i, i + 1), slice(j, j + 1)) for i in range(g) for j in range(r)]
    jobs = (  # clones, because a view would send its whole base tensor to the other process
        delayed(_alone)(objective, starts[i, j].clone(), _only(sets, i), weight[i, j].clone(), recipe) for i, j in pairs
    )
    trained = Parallel(n_jobs=workers if starts.device.type == "cpu" else 1, return_as="generator")(jobs)
    return torch.cat(list(track(f"training {g * r} networks", trained, g * r))).reshape(starts.shape)


def _alone(objective: BatchObjective, start: Tensor, sets: TrainingSets, weight: Tensor, recipe: Adam) -> Tensor:
    """Train one network: (1, 1, d)."""

    def single(theta: Tensor, inputs: Inputs, targets: Any, weights: Tensor) -> Tensor:
        return objective(
            theta[0, 0],
            map_leaves(lambda leaf: leaf[0], inputs),
            map_leaves(lambda leaf: leaf[0], targets),
            weights[0, 0],
        )

    return _minimise(single, start, sets, weight, recipe)


def _only(sets: TrainingSets, i: slice) -> TrainingSets:
    inputs, targets = (map_leaves(lambda leaf: leaf[i].clone(), tree) for tree in (sets.inputs, sets.targets))
    return replace(sets, inputs=inputs, targets=targets, seeds=sets.seeds[i])


def _vectorises(at_once: BatchObjective, starts: Tensor, sets: TrainingSets, weight: Tensor) -> bool:
    """Whether the objective can be vectorised: try one batch of two rows."""
    rows = torch.arange(min(2, sets.n), device=starts.device).expand(len(starts), -1)
    batch = _batch(sets, weight, rows, [generator(seed) for seed in sets.seeds])
    try:
        with torch.enable_grad():
            at_once(starts.clone().requires_grad_(), *batch).sum().backward()
    except (RuntimeError, NotImplementedError, ValueError):
        return False
    return True


def _batch(
    sets: TrainingSets, weight: Tensor, rows: Tensor, randoms: Sequence[torch.Generator]
) -> tuple[Inputs, Any, Tensor]:
    """Rows (g, c) of inputs, targets and weights; with `draws`, inputs are paired with random numbers of each set."""
    of_set = torch.arange(len(rows), device=rows.device)[:, None]

    def pick(leaf: Tensor) -> Tensor:
        return leaf[of_set, rows]

    inputs, targets = map_leaves(pick, sets.inputs), map_leaves(pick, sets.targets)
    if sets.draws:
        drawn = [torch.rand(rows.shape[1], sets.draws, generator=random) for random in randoms]
        inputs = (inputs, torch.stack(drawn).to(weight))
    return inputs, targets, weight.gather(2, rows[:, None].expand(-1, weight.shape[1], -1))


def _check_alike(fits: Sequence[Fitting]) -> None:
    """Refuse training sets of several sizes, and models that differ in more than their audited parameters."""
    sizes = sorted({fit.data.n for fit in fits})
    if len(sizes) > 1:
        raise DataError(f"the training sets have {sizes} rows; fit_many needs one size: fit these apart")
    first = fits[0]
    inputs, targets, *_ = next(iter(first.data.batches()))
    wanted = _behaviour(first.model, first.model.theta, inputs, targets)
    for i, fit in enumerate(fits[1:], start=1):
        behaviour = _behaviour(fit.model, first.model.theta, inputs, targets)
        differs = [name for name in wanted if not _close(behaviour[name], wanted[name])]
        if differs:
            raise ModelError(
                f"model {i} has another {' and '.join(differs)} than the first at the same parameters; fit_many needs "
                "one architecture, with one loss, penalty and total weight, and the same fixed layers: fit these apart"
            )


def _behaviour(model: Model, theta: Tensor, inputs: Inputs, targets: Any) -> dict[str, Tensor | None]:
    """Output, loss and penalty of a model at given parameters; None where these do not fit it."""
    behaviour: dict[str, Tensor | None] = {"output": None, "loss": None, "penalty": None}
    if model.theta.shape == theta.shape:
        try:
            with torch.no_grad():
                behaviour["output"] = outputs = model.predict(theta.to(model.theta), inputs)
                behaviour["loss"] = model.loss(outputs, targets)
                behaviour["penalty"] = model.penalty(theta.to(model.theta))
        except RuntimeError:  # it has other layers
            pass
    return behaviour


def _close(a: Tensor | None, b: Tensor | None) -> bool:
    same_kind = a is not None and b is not None and (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
    return same_kind and torch.allclose(a, b)  # type: ignore[arg-type]  # neither is None


def _rows(trees: Sequence[Any]) -> Any:
    return _merged(trees, torch.cat)


def _together(trees: Sequence[Any]) -> Any:
    return _merged(trees, torch.stack)


def _merged(trees: Sequence[Any], join: Callable[[list[Tensor]], Tensor]) -> Any:
    """One nested structure, whose leaves are the joined leaves of all."""
    columns = iter(list(column) for column in zip(*(leaves(tree) for tree in trees), strict=True))
    return map_leaves(lambda _: join(next(columns)), trees[0])
