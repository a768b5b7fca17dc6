"""Least squares to convergence, by Levenberg–Marquardt steps.

A step costs one pass over the rows and a d × d factorisation. A few dozen reach what minibatch Adam does not in
thousands of epochs, which matters here: leave-one-out by influence is about a minimum.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.func import grad, vmap

from rue.core.model import Model
from rue.core.resample import generator
from rue.methods.integrated.training import Settled

CHUNK = 2_048  # rows whose gradients are held at a time
ROWS_FOR_EACH = 4  # rows per parameter from which the curvature of a step is computed; the slope uses all rows
TRIALS = 20  # at most so many dampings are tried for one step
EASIER, HARDER = 1 / 3, 4.0  # factors of the damping after a good step, and after a bad one
GOOD, POOR = 0.5, 0.1  # shares of the predicted decrease that make a step good or poor


@dataclass(frozen=True)
class LevenbergMarquardt:
    """Damped Gauss–Newton steps on Σ½(y − f)² + ½l2‖θ‖², at most `passes` of them.

    It has settled by the objective as nats a row, ½ log of its mean: the negative log likelihood of residuals under
    the constant noise that suits them best, so that one rule serves this and networks that predict their noise.
    """

    settled: Settled
    passes: int = 300


@dataclass(frozen=True)
class Point:
    """Parameters (d,) in float64, the objective there, and the passes that led there."""

    theta: Tensor = field(repr=False)
    objective: float
    passes: int


@dataclass(frozen=True)
class LeastSquares:
    """Σ½(y − f)² + ½l2‖θ‖² over rows (n, p) and targets (n,), for a model with one output."""

    model: Model
    X: Tensor = field(repr=False)
    y: Tensor = field(repr=False)
    l2: float

    def minimise(self, start: Tensor, recipe: LevenbergMarquardt) -> Point:
        """Step from a start (d,) until settled."""
        point = Point(start.double(), self.objective(start.double()), 0)
        damping = 1.0
        history: list[float] = []
        while point.passes < recipe.passes and not recipe.settled(history):
            point, damping = self._step(point, damping)
            history.append(0.5 * torch.tensor(2 * point.objective / len(self.y)).log().item())
        return point

    def objective(self, theta: Tensor) -> float:
        """The objective at parameters (d,)."""
        errors = (self._outputs(theta, self.X) - self.y).double()
        return 0.5 * float(errors.square().sum() + self.l2 * theta.square().sum())

    def _step(self, at: Point, damping: float) -> tuple[Point, float]:
        """One step; the damping grows until it helps. If none does, this is a minimum up to rounding."""
        gram, slope = self._gram(at.theta, at.passes), self._slope(at.theta)
        for _ in range(TRIALS):
            factor, failed = torch.linalg.cholesky_ex(gram + damping * torch.eye(len(gram)).to(gram))
            move = torch.cholesky_solve(slope[:, None], factor)[:, 0]
            reached = self.objective(at.theta - move)
            if not failed and reached < at.objective:
                foretold = 0.5 * float(move @ (slope + damping * move))
                share = (at.objective - reached) / foretold
                factor_of = EASIER if share > GOOD else 1 / EASIER if share < POOR else 1.0
                return Point(at.theta - move, reached, at.passes + 1), damping * factor_of
            damping *= HARDER
        return Point(at.theta, at.objective, at.passes + 1), damping

    def _slope(self, theta: Tensor) -> Tensor:
        """Jᵀ(f − y) + l2 θ (d,), from all rows."""
        near = theta.to(self.X.dtype)

        def loss(own: Tensor) -> Tensor:
            return 0.5 * (self._outputs(own, self.X) - self.y).square().sum()

        slope: Tensor = grad(loss)(near).double() + self.l2 * theta
        return slope

    def _gram(self, theta: Tensor, seed: int) -> Tensor:
        """JᵀJ + l2 (d, d): gradients in the rows' precision, sums in double; from some of many rows, as if from all."""
        near, n = theta.to(self.X.dtype), len(self.y)
        count = min(n, ROWS_FOR_EACH * len(theta))
        drawn = torch.randperm(n, generator=generator(seed))[:count].to(self.X.device)
        gram = self.l2 * torch.eye(len(theta)).to(theta)
        for rows in self.X[drawn].split(CHUNK):
            jacobian = vmap(grad(self._output), (None, 0))(near, rows)
            gram = gram + n / count * (jacobian.T @ jacobian).double()
        return gram

    def _outputs(self, theta: Tensor, rows: Tensor) -> Tensor:
        return self.model.predict(theta.to(rows.dtype), rows)[:, 0]

    def _output(self, theta: Tensor, row: Tensor) -> Tensor:
        return self.model.predict(theta, row[None])[0, 0]
