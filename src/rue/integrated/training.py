"""Minibatch training of many networks at once: g training sets with r networks each, as one batched model.

Networks this small spend their time between operations, not in them: a thousand side by side take little longer
than one. Parameters are (g, r, d); rows of a training set are shared by its r networks, which differ in their
starts and in the weights of the rows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from rue.concepts import Inputs, Model, TrainingSet
from rue.errors import NumericalError, SettingError
from rue.progress import track
from rue.randomness import generator
from rue.trees import leaves, map_leaves

# of one network on a batch: theta (d,), inputs (c, ...), targets (c, ...), weights (c,) -> ()
Objective = Callable[[Tensor, Inputs, Any, Tensor], Tensor]


@dataclass(frozen=True)
class Adam:
    """Kingma & Ba's method in shuffled minibatches; the defaults are those of the paper's section 4.1.

    With `decay` the learning rate falls linearly to zero.
    """

    epochs: int = 500
    batch: int = 128
    learning_rate: float = 0.001
    decay: bool = False

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1 or not 0 < self.learning_rate < math.inf:
            raise SettingError(f"epochs, batch and learning_rate must be positive, got {self}")


@dataclass(frozen=True)
class TrainingSets:
    """g training sets of n rows each: inputs (g, n, ...), targets (g, n, ...), and a seed for each one's order."""

    inputs: Inputs
    targets: Any
    seeds: Sequence[int]

    @property
    def n(self) -> int:
        """Rows of each training set."""
        return int(leaves(self.inputs)[0].shape[1])


def stack(sets: Sequence[TrainingSet], seed: int) -> tuple[TrainingSets, Tensor]:
    """Training sets of one size side by side, numbered from a seed on, and their rows' weights (g, n)."""
    sizes = sorted({data.n for data in sets})
    if len(sizes) > 1:
        raise SettingError(f"training sets have {sizes} rows; only sets of one size can be trained together")
    read = [[(batch.inputs, batch.targets, batch.weight) for batch in data.batches()] for data in sets]
    inputs, targets, weight = (
        _together([_rows([batch[part] for batch in batches]) for batches in read]) for part in range(3)
    )
    return TrainingSets(inputs, targets, range(seed, seed + len(sets))), weight


def objective_of(model: Model, n: int) -> Objective:
    """A model's own objective over n rows, on a minibatch: mean loss and a share of the penalty."""

    def objective(theta: Tensor, inputs: Inputs, targets: Any, weights: Tensor) -> Tensor:
        return (weights * model.loss(model.predict(theta, inputs), targets)).mean() + model.penalty(theta) / n

    return objective


def train(
    objective: Objective, starts: Tensor, sets: TrainingSets, weight: Tensor, recipe: Adam, *, workers: int = 1
) -> Tensor:
    """Minimise the objective from every start (g, r, d), rows weighted by (g, r, n): the parameters found (g, r, d).

    Where the objective cannot be vectorised, networks are trained one by one in `workers` processes.
    """
    starts, weight = starts.detach(), weight.to(starts)
    at_once = vmap(vmap(objective, (0, None, None, 0), randomness="different"), randomness="different")
    if _vectorises(at_once, starts, sets, weight):
        found = _minimise(at_once, starts, sets, weight, recipe)
    else:
        found = _one_by_one(objective, starts, sets, weight, recipe, workers)
    lost = int((~torch.isfinite(found)).any(-1).sum())
    if lost:
        raise NumericalError(
            f"{lost} of {found.shape[0] * found.shape[1]} networks diverged to NaN or infinity; lower the learning "
            f"rate {recipe.learning_rate:g}, or standardise inputs and targets"
        )
    return found


def _minimise(objective: Objective, starts: Tensor, sets: TrainingSets, weight: Tensor, recipe: Adam) -> Tensor:
    """Adam on the sum over all networks, whose gradients are those of each one."""
    parameters = starts.clone().requires_grad_()
    optimiser = torch.optim.Adam([parameters], lr=recipe.learning_rate, fused=True)
    orders = [generator(seed) for seed in sets.seeds]
    networks = starts.shape[0] * starts.shape[1]
    steps = recipe.epochs * math.ceil(sets.n / recipe.batch)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 1 / steps if recipe.decay else 1.0, steps)
    for _ in track(f"training {networks} networks", range(recipe.epochs), recipe.epochs):
        order = torch.stack([torch.randperm(sets.n, generator=order) for order in orders]).to(starts.device)
        for rows in order.split(recipe.batch, dim=1):
            with torch.enable_grad():
                loss = objective(parameters, *_batch(sets, weight, rows)).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return parameters.detach()


def _one_by_one(
    objective: Objective, starts: Tensor, sets: TrainingSets, weight: Tensor, recipe: Adam, workers: int
) -> Tensor:
    from joblib import Parallel, delayed

    def alone(i: int, j: int) -> Tensor:
        own = TrainingSets(*_of_set(sets, i), [sets.seeds[i]])
        start, rows = starts[i : i + 1, j : j + 1], weight[i : i + 1, j : j + 1]

        def single(theta: Tensor, inputs: Inputs, targets: Any, weights: Tensor) -> Tensor:
            return objective(
                theta[0, 0], map_leaves(lambda a: a[0], inputs), map_leaves(lambda a: a[0], targets), weights[0, 0]
            )

        return _minimise(single, start, own, rows, recipe)

    g, r = starts.shape[:2]
    jobs = (delayed(alone)(i, j) for i in range(g) for j in range(r))
    found = Parallel(n_jobs=workers if starts.device.type == "cpu" else 1, return_as="generator")(jobs)
    return torch.cat(list(track(f"training {g * r} networks", found, g * r))).reshape(starts.shape)


def _vectorises(at_once: Objective, starts: Tensor, sets: TrainingSets, weight: Tensor) -> bool:
    """Try one batch of two rows."""
    state = torch.get_rng_state()
    rows = torch.arange(2, device=starts.device).expand(len(starts), 2)
    try:
        with torch.enable_grad():
            at_once(starts.clone().requires_grad_(), *_batch(sets, weight, rows)).sum().backward()
    except (RuntimeError, NotImplementedError, ValueError):
        return False
    finally:
        torch.set_rng_state(state)
    return True


def _batch(sets: TrainingSets, weight: Tensor, rows: Tensor) -> tuple[Inputs, Any, Tensor]:
    """The same rows (g, c) of inputs, targets and weights."""
    of_set = torch.arange(len(rows), device=rows.device)[:, None]

    def pick(leaf: Tensor) -> Tensor:
        return leaf[of_set, rows]

    picked = weight.gather(2, rows[:, None].expand(-1, weight.shape[1], -1))
    return map_leaves(pick, sets.inputs), map_leaves(pick, sets.targets), picked


def _of_set(sets: TrainingSets, i: int) -> tuple[Inputs, Any]:
    return tuple(map_leaves(lambda leaf: leaf[i : i + 1], tree) for tree in (sets.inputs, sets.targets))


def _rows(trees: Sequence[Any]) -> Any:
    return _merged(trees, torch.cat)


def _together(trees: Sequence[Any]) -> Any:
    return _merged(trees, torch.stack)


def _merged(trees: Sequence[Any], join: Callable[[list[Tensor]], Tensor]) -> Any:
    """One tree of the leaves joined."""
    columns = iter(list(column) for column in zip(*(leaves(tree) for tree in trees), strict=True))
    return map_leaves(lambda _: join(next(columns)), trees[0])
