"""The six concepts everything else is made of: read this first.

Letters, everywhere: n training examples, d parameters, m audited inputs, k outputs, b ensemble
members; u resampling units (n, unless rows are grouped). The batch axis comes first. Settings
(`GaussNewton()`, `Cholesky()`, `RUE(...)`) are frozen; what they make of a model and data is
another type.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Inputs = Any  # a tensor, or a tuple, list or dict of tensors
Facts = dict[str, Any]
POINTS = "rue.points"  # in a dict of inputs, the part that distances are measured on, where others are read off it
LEVELS = "rue.levels"  # beside it, categories as numbers that mean nothing but themselves


Decision = Literal["largest", "signs", "ordered", "shares"]
"""How logits decide: the largest of k, each by its sign, the number of ordered ones above zero; or shares that sum to
one, the largest of k."""


Link = Literal["identity", "log"]
"""What a prediction is to its output: the same number, or the output is its logarithm."""


@dataclass(frozen=True)
class Family:
    """What the outputs under a loss mean."""

    gaussian: bool = False  # the residuals are the noise of the predictive distribution
    decision: Decision | None = None  # the outputs are logits, or shares of classes
    likelihood: bool = True  # of a decision: the loss is that of the classes' probabilities, not of a margin
    coupled: bool = False  # the loss of a row depends on the other rows: all are read together
    joint: bool = True  # the parameters minimise one objective; else the model is a mean of such, each alone
    gradients: bool = True  # outputs move with parameters that are known; else only predictions are
    stationary: bool = True  # where the gradient of loss and penalty is zero; else grown in steps, or held at corners
    grown: bool = False  # in steps, each part for what those before it missed: other rows would have grown other parts
    projected: bool = False  # the parameters are seen along random directions: an approximation
    held_fixed: str = ""  # what other training rows would have changed and no re-weighting moves, in words
    link: Link | None = None  # of the libraries that train this loss for numbers; None: none does, or no numbers

    @property
    def same_scale(self) -> bool:
        """Whether outputs can be subtracted from the targets."""
        return self.gaussian or self.link == "identity"

    @property
    def outside(self) -> bool:
        """Whether predictions tell more of the model than its parameters do."""
        return self.grown or not self.gradients


class Coupling(NamedTuple):
    """A loss of coupled rows at outputs (n,) and weights w: one block for the whole training set."""

    objective: Tensor  # a scalar, to differentiate
    slope: Tensor  # (n, n), w ∂²J/∂w∂f: what a row's weight does to the pull on every output
    curvature: Tensor  # (n, n), ∂²J/∂f²


class Response(Protocol):
    """From outputs to the numbers a user's own estimator predicts, output by output."""

    def value(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predictions (m, k) from outputs (m, k), rising in each."""
        ...

    def slope(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Its derivative (m, k)."""
        ...


class ExampleLoss(Protocol):
    """The loss of each example from its outputs, and what is known of it in closed form."""

    def __call__(self, outputs: Tensor, targets: Any) -> Tensor:
        """Loss (n,) from outputs (n, k)."""
        ...

    @property
    def hessian(self) -> Callable[[Tensor, Any], Tensor] | None:
        """∂²ℓ/∂f² (n, k, k) from outputs and targets; None leaves it to autodiff."""
        ...

    @property
    def coupling(self) -> Callable[[Tensor, Any, Tensor], Coupling] | None:
        """All rows together, from outputs, targets and weights; None unless the family is coupled."""
        ...


class Predictor(Protocol):
    """What gives outputs, and the loss they are judged by."""

    @property
    def theta(self) -> Tensor:
        """The parameters that are known, flat: (d,)."""
        ...

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (m, k) at these parameters."""
        ...

    @property
    def loss(self) -> ExampleLoss:
        """The loss of an example."""
        ...

    @property
    def family(self) -> Family:
        """What the outputs mean."""
        ...


class Objective(Predictor, Protocol):
    """1a. What is differentiated: J(θ) = Σᵢ ℓᵢ + R, a sum over examples and a penalty.

    Every derivative is a free function over these members.
    """

    def penalty(self, theta: Tensor) -> Tensor:
        """The penalty R, a scalar."""
        ...

    @property
    def jacobian(self) -> Callable[[Inputs], Tensor] | None:
        """∂f/∂θ at theta (m, k, d) from inputs, where it is known in closed form; None leaves it to autodiff."""
        ...


class Core(Predictor, Protocol):
    """What an adapter reads off a trained model: a predictor that can be described and told from others."""

    def describe(self) -> Facts:
        """What to say of it in an audit's facts."""
        ...

    def contents(self) -> Iterator[str | Tensor]:
        """Names and numbers it is made of, always in the same order: equal contents are the same model."""
        ...


class TrainedObjective(Core, Objective, Protocol):
    """A core that minimises an objective."""

    @property
    def centre(self) -> Tensor:
        """What the penalty shrinks towards, in the coordinates of theta: (d,)."""
        ...

    @property
    def stated(self) -> bool:
        """Whether the penalty is known; else it is left out of the objective and has to be estimated."""
        ...


class Boundary(Protocol):
    """1b. What stands between raw tables and a core: reading, and the answers a user's own model gives."""

    def read(self, core: Any, inputs: Any) -> Inputs:
        """Turn raw inputs into tensors that the core takes."""
        ...

    def read_targets(self, core: Any, targets: Any) -> Any:
        """Turn raw targets into what the core's loss takes."""
        ...

    @property
    def answer(self) -> Callable[[Any], NDArray[Any]] | None:
        """What the user's own estimator predicts for raw inputs; None where the outputs are the prediction."""
        ...

    @property
    def response(self) -> Response | None:
        """What turns outputs into predictions; None where they are the predictions."""
        ...

    @property
    def classes(self) -> NDArray[Any] | None:
        """The labels of the classes, where a user's own classifier predicts labels."""
        ...


class Batch(NamedTuple):
    """Consecutive training rows, read by the model."""

    inputs: Inputs
    targets: Any
    weight: Tensor  # (c,) float64
    rows: slice


class TrainingSet(Protocol):
    """The training rows as every derivative reads them."""

    @property
    def n(self) -> int:
        """Number of rows."""
        ...

    @property
    def weight(self) -> Tensor:
        """What each row's loss is multiplied by: (n,) float64."""
        ...

    @property
    def units(self) -> int:
        """Number of resampling units, u."""
        ...

    @property
    def unit(self) -> Tensor:
        """The unit of each row: (n,) integers below u."""
        ...

    def batches(self) -> Iterator[Batch]:
        """Every row once, in the same order on every pass."""
        ...


class Curvature(Protocol):
    """2. A symmetric d×d operator, never a promise to be dense. The penalty is part of it."""

    @property
    def size(self) -> int:
        """Number of parameters, d."""
        ...

    @property
    def rank(self) -> int:
        """The largest rank the part that comes from the data can have."""
        ...

    @property
    def logits(self) -> int:
        """The number of outputs of which only differences matter, as under softmax; 0 where every output counts."""
        ...

    @property
    def device(self) -> torch.device:
        """Where its vectors live."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the derivatives behind its products."""
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
        """Rows S (r, d), in blocks, with SᵀS the data's part; None where there is no such root."""
        ...


class CurvatureRule(Protocol):
    """Which curvature: `Hessian()`, `GaussNewton()`."""

    def at(self, model: Objective, data: TrainingSet) -> Curvature:
        """The curvature of the objective at the model's theta."""
        ...


class Solution(NamedTuple):
    """Solved rows (r, d), and the largest relative residual among those that were checked."""

    vectors: Tensor
    residual: float


class Solving(Protocol):
    """A curvature that can be solved for."""

    def solve(self, vectors: Tensor) -> Solution:
        """Solve for every row of (r, d)."""
        ...


class Inverse(Solving, Protocol):
    """The damped curvature, factored once, ready for many right-hand sides."""

    @property
    def iterative(self) -> bool:
        """Whether every right-hand side takes iterations of its own, so that thousands of them take long."""
        ...

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw (count, d) from the normal distribution whose covariance is the inverse."""
        ...

    def describe(self) -> Facts:
        """What to say of the solve in an audit's facts."""
        ...


class Solver(Protocol):
    """3. Solver → Inverse: dense, dual, matrix-free."""

    @property
    def notices_singular(self) -> bool:
        """Whether `factor` raises for a curvature that cannot be inverted, rather than a later solve."""
        ...

    def view(self, core: TrainedObjective, data: TrainingSet) -> TrainedObjective:
        """The objective in the coordinates that are solved for: itself, but for projections."""
        ...

    def factor(self, curvature: Curvature, damping: float) -> Inverse:
        """Factor once."""
        ...


class Damped(NamedTuple):
    """A damping, the reason for it, and what the user should hear about it."""

    value: float
    reason: str
    warning: str | None = None


class Damping(Protocol):
    """A function from curvature to a number."""

    def __call__(self, curvature: Curvature) -> Damped:
        """The number to add to the diagonal, and why."""
        ...


class WeightCovariance(NamedTuple):
    """Cov[w] = scale · (I − shared · 11ᵀ/u)."""

    scale: float
    shared: float


class Resampler(Protocol):
    """4. Which training sets might have been: random weights of the units, with mean one."""

    def draw(self, units: int, members: int, generator: torch.Generator) -> Tensor:
        """Weights (b, u) in float64."""
        ...

    def covariance(self, units: int) -> WeightCovariance:
        """The exact covariance of the weights, in the resampler's own scale of variance."""
        ...

    def member_factor(self, units: int) -> float:
        """What the members' variance must be multiplied by."""
        ...
