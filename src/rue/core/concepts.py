"""The protocols that everything else is built on: read this first.

The same letters are used everywhere: n training examples, d parameters, m audited inputs, k outputs, b ensemble
members, and u resampling units (u = n unless rows are grouped). The batch axis comes first. Settings such as
`GaussNewton()`, `Cholesky()` and `RUE(...)` are frozen; applied to a model and data they return another type.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from rue.core.coordinates import Coordinates, CurvedRows, GradientProducts
from rue.core.family import Decision as Decision
from rue.core.family import Family as Family
from rue.core.family import Link as Link
from rue.core.followed import Followed
from rue.core.stored import storable

Inputs = Any  # a tensor, or a tuple, list or dict of tensors
Facts = dict[str, Any]
POINTS = "rue.points"  # key in a dict of inputs: the part that distances between inputs are measured on
Reader = Callable[[], Iterator[Inputs]]  # reads rows from the first to the last, in the same parts every time
LEVELS = "rue.levels"  # key beside it: categories as codes, whose order and distance mean nothing


class Coupling(NamedTuple):
    """A loss of coupled rows at outputs (n,) and weights w: one block for the whole training set."""

    objective: Tensor  # a scalar, to differentiate
    slope: Tensor  # (n, n), w ∂²J/∂w∂f: how the weight of each row changes the gradient at every output
    curvature: Tensor  # (n, n), ∂²J/∂f²


class ExampleLoss(Protocol):
    """The loss of each example, with its second derivative where there is a closed form."""

    @property
    def name(self) -> str:
        """Its name, the same for two losses only if they are the same function."""
        ...

    def __call__(self, outputs: Tensor, targets: Any) -> Tensor:
        """Loss (n,) from outputs (n, k)."""
        ...

    @property
    def hessian(self) -> Callable[[Tensor, Any], Tensor] | None:
        """∂²ℓ/∂f² (n, k, k) from outputs and targets; None leaves it to autodiff."""
        ...

    @property
    def coupling(self) -> Callable[[Tensor, Any, Tensor], Coupling] | None:
        """The loss of all rows together, from outputs, targets and weights; None unless the family is coupled."""
        ...


class Parametrised(Protocol):
    """A function from parameters and inputs to outputs."""

    @property
    def theta(self) -> Tensor:
        """The audited parameters, flat: (d,)."""
        ...

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (m, k) at these parameters."""
        ...


class Predictor(Parametrised, Protocol):
    """A function from parameters and inputs to outputs, and the loss of these outputs."""

    @property
    def loss(self) -> ExampleLoss:
        """The loss of an example."""
        ...

    @property
    def family(self) -> Family:
        """What the outputs mean."""
        ...


class Objective(Predictor, Protocol):
    """1a. The function that derivatives are taken of: J(θ) = Σᵢ ℓᵢ + R, a sum over examples plus a penalty.

    Every derivative in `rue.core.derivatives` is a function of these members.
    """

    def penalty(self, theta: Tensor) -> Tensor:
        """The penalty R, a scalar."""
        ...

    @property
    def jacobian(self) -> Callable[[Inputs], Tensor] | None:
        """∂f/∂θ at theta (m, k, d) from inputs, where it is known in closed form; None leaves it to autodiff."""
        ...

    @property
    def few_outputs(self) -> Callable[[Inputs], Followed] | None:
        """The same for the outputs that are followed alone; None where all of them are."""
        ...

    @property
    def eigenbases(self) -> Callable[[Reader, Iterable[CurvedRows]], Coordinates] | None:
        """Makes coordinates in eigenbases of every layer from all rows; None without such layers."""
        ...


class Core(Predictor, Protocol):
    """The numerical part of a trained model, as an adapter reads it: it predicts and can be described and compared."""

    def describe(self) -> Facts:
        """Entries for an audit's facts."""
        ...

    def contents(self) -> Iterator[str | Tensor]:
        """The names and numbers that define it, in a fixed order: models with equal contents are the same."""
        ...


class Sketches(Protocol):
    """Makes coordinates of the parameters from some rows, a size and a seed."""

    def __call__(self, inputs: Inputs, size: int, seed: int, read: Reader | None = None) -> Coordinates:
        """Parameters that no row uses have none; `read` gives all rows, where those of `inputs` are not all."""
        ...


class TrainedObjective(Core, Objective, Protocol):
    """A core that minimises an objective."""

    @property
    def sketched(self) -> Sketches | None:
        """Makes coordinates from rows, a size and a seed; None where gradients have no layers to be read off."""
        ...

    @property
    def by_layer(self) -> "Callable[[], TrainedObjective] | None":
        """Makes the same objective whose layers are the blocks of its family; None where it has no layers."""
        ...

    @property
    def gradient_products(self) -> "Callable[[TrainingSet, Tensor, Tensor], GradientProducts] | None":
        """Makes products with the gradients of training rows, from a metric (d,) and a direction (d,).

        It is None where `sketched` is.
        """
        ...

    @property
    def centre(self) -> Tensor:
        """The parameters (d,) that the penalty shrinks towards."""
        ...

    @property
    def ridge(self) -> Tensor | None:
        """The coefficients (d,) of ½(θ − centre)² where the penalty is nothing else; None where that is not known."""
        ...

    @property
    def stated(self) -> bool:
        """Whether the user gave the penalty; if not, the objective has none and it must be estimated."""
        ...


class Batch(NamedTuple):
    """Consecutive training rows, read by the model."""

    inputs: Inputs
    targets: Any
    weight: Tensor  # (c,) float64
    rows: slice


class TrainingSet(Protocol):
    """The training rows, as derivatives read them."""

    @property
    def n(self) -> int:
        """Number of rows."""
        ...

    @property
    def weight(self) -> Tensor:
        """The weight of each row's loss: (n,) float64."""
        ...

    @property
    def units(self) -> int:
        """Number of resampling units, u."""
        ...

    @property
    def unit(self) -> Tensor:
        """The unit of each row: (n,) integers below u."""
        ...

    @property
    def whole(self) -> "TrainingSet":
        """The training set that rows are numbered in: itself, but for a block."""
        ...

    def batches(self) -> Iterator[Batch]:
        """Every row once, in the same order on every pass."""
        ...

    def blocks(self, most: int) -> "Sequence[TrainingSet]":
        """At most so many parts of the rows, always the same ones, whose sums are added up."""
        ...


class Curvature(Protocol):
    """2. A symmetric d×d operator that includes the penalty. It need not be stored as a matrix."""

    @property
    def model(self) -> Objective:
        """What it is the curvature of."""
        ...

    @property
    def data(self) -> TrainingSet:
        """The rows it is summed over."""
        ...

    @property
    def size(self) -> int:
        """Number of parameters, d."""
        ...

    @property
    def rank(self) -> int:
        """An upper bound of the rank of the part that comes from the data."""
        ...

    @property
    def logits(self) -> int:
        """The number of logits where only their differences matter, as with softmax; 0 for all other models."""
        ...

    @property
    def device(self) -> torch.device:
        """The device of its vectors."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the derivatives behind its products."""
        ...

    def on(self, data: TrainingSet) -> "Curvature":
        """The same curvature, summed over other rows."""
        ...

    def product(self, vectors: Tensor) -> Tensor:
        """Multiply every row of (r, d)."""
        ...

    def dense(self) -> Tensor:
        """The whole matrix, (d, d) in float64."""
        ...

    def trace(self) -> float:
        """The sum of the eigenvalues."""
        ...

    def penalty_diagonal(self) -> Tensor | None:
        """The penalty's part (d,) where it is diagonal, else None."""
        ...

    def root(self) -> Iterator[Tensor] | None:
        """Rows S (r, d), in blocks, such that SᵀS is the part that comes from the data; None where there are none."""
        ...


class CurvatureRule(Protocol):
    """Which curvature: `Hessian()`, `GaussNewton()`."""

    def at(self, model: Objective, data: TrainingSet) -> Curvature:
        """The curvature of the objective at the model's theta."""
        ...


class Solution(NamedTuple):
    """Solved rows (r, d), and the largest relative residual among the rows that were checked."""

    vectors: Tensor
    residual: float


class Solving(Protocol):
    """Anything that solves linear systems with the curvature."""

    def solve(self, vectors: Tensor) -> Solution:
        """Solve for every row of (r, d)."""
        ...


class Inverse(Solving, Protocol):
    """The damped curvature, factored once, ready for many right-hand sides."""

    @property
    def iterative(self) -> bool:
        """Whether every right-hand side needs its own iterations, so that thousands of them take long."""
        ...

    def reach(self, steps: Tensor) -> "Reach":
        """What it makes of new gradients, beside resampling with the covariance FᵀF for `steps` F (r, d)."""
        ...

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw (count, d) from the normal distribution whose covariance is this inverse."""
        ...

    def describe(self) -> Facts:
        """Entries about the solve for an audit's facts."""
        ...


class Reached(NamedTuple):
    """What inverse curvature and resampling make of some rows' gradients J (c, k, d)."""

    rows: Tensor  # (c, k, r), J in coordinates in which `Reach.steps` has parameter steps
    leverage: Tensor  # JH̃⁻¹Jᵀ (c, k, k) in float64
    resampling: Tensor  # JCJᵀ (c, k, k)
    residual: float  # of the solves, or of what stands for them


class Reach(Protocol):
    """Products of new rows' gradients with matrices that were made once."""

    def __call__(self, jacobian: Tensor) -> Reached:
        """Both covariances for rows (c, k, d)."""
        ...

    def steps(self, vectors: Tensor) -> Tensor:
        """Parameter steps (..., d), such as H̃⁻¹J of training rows, in the coordinates of `Reached.rows`: (..., r)."""
        ...


class Solver(Protocol):
    """3. The way a curvature is inverted: dense, dual or matrix-free."""

    @property
    def notices_singular(self) -> bool:
        """Whether `factor` itself raises for a singular curvature, rather than a later solve."""
        ...

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:
        """The objective in the coordinates the solver works in; only projections change it."""
        ...

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Factor the damped curvature."""
        ...


@storable
class Damped(NamedTuple):
    """A damping, the reason for it, and a warning for the user if there is one."""

    value: float
    reason: str
    warning: str | None = None


class Damping(Protocol):
    """A rule that chooses a damping for a curvature."""

    def __call__(self, curvature: Curvature) -> Damped:
        """The number to add to the diagonal, and why."""
        ...


@storable
class WeightCovariance(NamedTuple):
    """Cov[w] = scale · (I − shared · 11ᵀ/u)."""

    scale: float
    shared: float


class Resampler(Protocol):
    """4. Random weights of the units, with mean one: they stand for other training sets that might have been drawn."""

    def draw(self, units: int, members: int, generator: torch.Generator) -> Tensor:
        """Weights (b, u) in float64."""
        ...

    def covariance(self, units: int) -> WeightCovariance:
        """The covariance of the weights, scaled so that the variance of a statistic is estimated correctly."""
        ...

    def member_factor(self, units: int) -> float:
        """The factor that corrects the variance over members."""
        ...
