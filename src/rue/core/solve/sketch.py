"""A sketch: the parameters move along a few random combinations of each layer, read off in one pass over the rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from rue.core.chunks import inputs_of
from rue.core.concepts import (
    Curvature,
    ExampleLoss,
    Facts,
    Family,
    Inputs,
    Inverse,
    Objective,
    Solving,
    TrainedObjective,
    TrainingSet,
)
from rue.core.coordinates import Coordinates
from rue.core.curvature import penalty_diagonal
from rue.core.derivatives import outputs
from rue.core.errors import SettingError
from rue.core.followed import Followed
from rue.core.memory import kept, targets_of
from rue.core.nested import leaves, take
from rue.core.products import penalty_product
from rue.core.resample import generator
from rue.core.solve.dense import Cholesky
from rue.core.stored import storable

SIZES = (8192, 4096, 2048, 1024)  # coordinates; docs/large-networks-figures.md says what each of them keeps
DEFAULT = 4096
WORK = {"cpu": 2.5e11, "cuda": 3e12}  # multiplications of a pass over all rows: some tens of seconds, a few on a GPU
LARGE = 10**6  # parameters from which on a backward pass for every class is too much, or more coordinates than DEFAULT
FOLLOWED = 2  # classes of a row then: variances of trained networks rank as with all ten (Spearman .995 to .998)
MASS = 0.9  # probability of the followed classes below which a fit warns
ASKED = 256  # rows that this is looked at for
NEEDED = 10  # coordinates for each effective parameter: Spearman .80 to .85 with 5, about .92 with 10, .98 with 19
SIGNS = 64  # random vectors that a trace is estimated by
EVEN = 1e-6  # relative difference of penalties up to which they are the same


@dataclass(frozen=True)
class Sketch:
    """At most about `size` coordinates z, as many for each layer, θ̂ + Pᵀz with PᵀP the identity on average.

    The model is linear in z, with the Jacobian that every layer gives during a backward pass; the penalty is the same
    number for every coordinate of a layer. With `followed`, only so many of the likeliest classes of a row are
    followed, one backward pass for each, and the logits of the others count as fixed. This is an approximation:
    compare it with a larger `size` or another `seed`.
    """

    notices_singular: ClassVar[bool] = True
    size: int = DEFAULT
    seed: int = 0
    followed: int | None = None

    def __post_init__(self) -> None:
        if not _whole(self.size, 2):
            raise SettingError(
                f"size must be a whole number of at least 2 coordinates ({DEFAULT} by default), got {self.size!r}"
            )
        if not _whole(self.seed, 0):
            raise SettingError(f"seed must be a whole number from 0 to 2³² − 1, got {self.seed!r}")
        if self.followed is not None and not _whole(self.followed, 2):
            raise SettingError(
                f"followed must be a whole number of at least 2 classes, or None for all of them, got {self.followed!r}"
            )

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:
        """The objective as a function of z."""
        if core.sketched is None or core.family.coupled:
            raise SettingError(
                "Sketch() reads gradients off the layers of a torch module whose rows do not depend on each other, and "
                "this model has none; leave solver= away, or use Projection()"
            )
        if self.followed is not None and core.family.decision != "largest":
            raise SettingError(
                f"followed={self.followed} chooses among the classes of a softmax, and the loss of this model, "
                f"{core.loss.name}, has none; leave followed away: all outputs count"
            )
        coordinates = core.sketched(next(iter(data.batches())).inputs, self.size, self.seed, inputs_of(data))
        if coordinates.size > self.size:
            raise SettingError(
                f"size={self.size} is less than one coordinate for each of this module's tensors of parameters; give "
                f"at least {coordinates.size} ({DEFAULT} by default)"
            )
        return replace(in_coordinates(core, coordinates, "Sketch()"), followed=self.followed)

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Factor the matrix of the coordinates."""
        return Cholesky().factor(curvature, damping)


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**32


def affordable(core: TrainedObjective, rows: int, k: int) -> Sketch:
    """The largest sketch whose matrix is made of all outputs of all rows in reasonable time.

    Of a large network few classes of a row are followed: its backward passes are what a fit then takes.
    """
    d = core.theta.numel()
    few = d > LARGE and k > FOLLOWED and core.family.decision == "largest"
    size = affordable_size(rows * (FOLLOWED if few else k), d, core.theta.device)
    return Sketch(size, followed=FOLLOWED if few else None)


def affordable_size(count: int, d: int, device: torch.device) -> int:
    """The most coordinates for so many outputs of rows and so many parameters.

    >>> affordable_size(50_000, 40_000, torch.device("cpu")), affordable_size(50_000, 40_000, torch.device("cuda"))
    (2048, 4096)
    """
    work, most = WORK.get(device.type, WORK["cpu"]), DEFAULT if d > LARGE else SIZES[0]
    return next((size for size in SIZES if size <= most and max(count, size) * size**2 <= work), SIZES[-1])


def down_from(largest: Sketch) -> list[Sketch]:
    """A sketch and smaller ones, the largest first."""
    return [largest, *(replace(largest, size=size) for size in SIZES if size < largest.size)]


def coarse(objective: Objective, inverse: Solving, damping: float) -> str | None:
    """A warning where the rows tell more than so few coordinates keep; None for models that are not sketched.

    Effective parameters are r − tr H̃⁻¹(∇²R + damping), here by random signs.
    """
    r = objective.theta.numel()
    if not (objective.family.straight and objective.family.projected):
        return None
    signs = torch.randint(0, 2, (SIGNS, r), generator=generator(0)).double().mul_(2).sub_(1).to(objective.theta.device)
    held = penalty_product(objective, signs) + damping * signs
    effective = r - float((inverse.solve(signs).vectors * held).sum()) / SIGNS
    if effective * NEEDED <= r:
        return None
    return (
        f"the rows tell about {effective:.0f} effective parameters, and the sketch keeps {r} coordinates: with fewer "
        f"than {NEEDED} for each, resampling spreads are too large and rank rows with a correlation below .9 to the "
        f"exact ones; give solver=Sketch({int(2 * NEEDED * effective)})"
    )


def unfollowed(objective: Objective, data: TrainingSet) -> str | None:
    """A warning where classes that are not followed are likely; None where none are left out."""
    if objective.few_outputs is None:
        return None
    first = next(iter(data.batches())).inputs
    count = len(leaves(first)[0])
    some = take(first, torch.linspace(0, count - 1, min(count, ASKED)).round().long().to(leaves(first)[0].device))
    shares = outputs(objective, some).double().softmax(1)
    at = objective.few_outputs(some).at
    share = 1.0 if at is None else float(shares.gather(1, at).sum(1).mean())
    if share >= MASS:
        return None
    return (
        f"the classes that are followed hold {share:.0%} of the probability of some training rows, and the others "
        "count as fixed: resampling spreads rank rows less well than with all; give solver=Sketch(followed=...) a "
        "larger number, or None for all classes"
    )


def likeliest(logits: Tensor, count: int, targets: Any = None) -> Tensor:
    """The likeliest classes (c, count) of every row, the last of them replaced by its label where that is missing.

    Gradients of rows that a network gets wrong are those of their labels.

    >>> likeliest(torch.tensor([[0.0, 3.0, 2.0, 1.0]] * 2), 2, torch.tensor([3, 1]))
    tensor([[1, 3],
            [1, 2]])
    """
    at = logits.topk(min(count, logits.shape[1]), dim=1).indices
    if targets is None:
        return at
    first: Tensor = leaves(targets)[0]  # weights may follow the labels
    label = first.argmax(-1) if first.dim() == 2 else first.long()
    missing = (at != label[:, None]).all(1)
    return torch.cat([at[:, :-1], torch.where(missing, label, at[:, -1])[:, None]], 1)


def in_coordinates(core: TrainedObjective, coordinates: Coordinates, solver: str) -> "SketchedObjective":
    """The objective as a function of coordinates, which are zero where it stands; `solver` is named in errors."""
    return SketchedObjective(
        core,
        torch.zeros(coordinates.size, dtype=core.theta.dtype, device=core.theta.device),
        coordinates,
        _strength(core, coordinates, solver),
        coordinates.project(core.centre - core.theta),
    )


def _strength(core: TrainedObjective, coordinates: Coordinates, solver: str) -> Tensor:
    """The penalty's curvature for every coordinate (r,)."""
    if not core.stated:
        return torch.zeros(coordinates.size, dtype=torch.float64, device=core.theta.device)
    diagonal = penalty_diagonal(core) if core.ridge is None else core.ridge
    if diagonal is None:
        raise SettingError(f"{solver} needs a penalty that couples no parameters; use Projection()")
    values = []
    for part, size in coordinates.parts(diagonal):
        low, high = float(part.min()), float(part.max())
        if high - low > EVEN * high:
            raise SettingError(
                f"{solver} needs one penalty for all numbers of a parameter, found {low:.3g} to {high:.3g}; use "
                "Projection()"
            )
        values.append(torch.full((size,), high, dtype=torch.float64, device=core.theta.device))
    return torch.cat(values)


@storable
@dataclass(frozen=True)
class SketchedObjective:
    """An objective in coordinates of its layers: z (r,) instead of theta (d,)."""

    sketched: ClassVar[None] = None
    ridge: ClassVar[None] = None
    eigenbases: ClassVar[None] = None
    gradient_products: ClassVar[None] = None
    by_layer: ClassVar[None] = None

    inner: TrainedObjective
    theta: Tensor = field(repr=False)  # zeros (r,)
    coordinates: Coordinates = field(repr=False)
    strength: Tensor = field(repr=False)  # (r,), the penalty's curvature
    centre: Tensor = field(repr=False)  # (r,)
    followed: int | None = None  # classes of every row that are followed
    diagonal: bool = False  # coordinates count as independent
    turned: bool = False  # coordinates are axes of gradients, not of layers, and keep all products

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (m, k) on the tangent at z."""
        here = kept("output", self, inputs, lambda: outputs(self.inner, inputs))
        if theta is self.theta:
            return here
        rows = self._followed(inputs)
        return here + rows.placed(rows.values.to(theta) @ theta)

    def jacobian(self, inputs: Inputs) -> Tensor:
        """∂f/∂z (m, k, r)."""
        return self._followed(inputs).whole()

    @property
    def few_outputs(self) -> Callable[[Inputs], Followed] | None:
        """∂f/∂z of the classes that are followed; None where all outputs are."""
        return None if self.followed is None else self._followed

    def _followed(self, inputs: Inputs) -> Followed:
        if self.followed is None:
            rows = kept("Jacobian", self, inputs, lambda: self.coordinates.jacobian(inputs))
            return Followed(rows, None, rows.shape[1])
        predicted = self.predict(self.theta, inputs)
        at = likeliest(predicted, self.followed, targets_of(inputs))
        rows = kept("Jacobian", self, inputs, lambda: self.coordinates.jacobian(inputs, at))
        return Followed(rows, at, predicted.shape[1])

    def penalty(self, theta: Tensor) -> Tensor:
        """½ Σ strength·(z − centre)²."""
        return 0.5 * (self.strength.to(theta) * (theta - self.centre.to(theta)).square()).sum()

    @property
    def stated(self) -> bool:
        """Delegates to the inner objective."""
        return self.inner.stated

    @property
    def family(self) -> Family:
        """The family of the inner objective, marked as straight, and as projected where parameters are combined."""
        own = replace(self.inner.family, projected=self.coordinates.combined, straight=True)
        return replace(own, diagonal=self.diagonal, turned=self.turned)

    @property
    def loss(self) -> ExampleLoss:
        """The loss of an example."""
        return self.inner.loss

    def identity(self) -> Iterator[str | Tensor]:
        """The contents, and what tells these coordinates from others."""
        yield from self.contents()
        yield f"{self.followed} {self.theta.dtype}"
        yield self.coordinates.project(self.inner.theta)

    def contents(self) -> Iterator[str | Tensor]:
        """The contents of the inner objective."""
        return self.inner.contents()

    def describe(self) -> Facts:
        """The facts of the inner objective, and of the coordinates."""
        few = {} if self.followed is None else {"followed_classes": self.followed}
        return {**self.inner.describe(), "d": self.inner.theta.numel(), **self.coordinates.describe(), **few}
