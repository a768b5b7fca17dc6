"""Figure 1 of the paper: the parts of the score, on a curve with two parameters."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from rue.core.arrays import Array
from rue.core.concepts import Damping, Inverse, TrainingSet
from rue.core.curvature import Hessian
from rue.core.derivatives import jacobian, loss_gradient, outputs
from rue.core.errors import NotConvergedError
from rue.core.model import Model
from rue.core.solve import NoDamping
from rue.core.solve.choice import invert
from rue.data.opening import training_rows
from rue.evaluate.datasets.simulated import BETA_1, BETA_2, RANGE, mean, simulated
from rue.methods import LinearRUE
from rue.models import wrap
from rue.plots import COLOURS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

GRID = 201  # inputs at which curves are drawn
SHOWN = (1.0, 4.5, 9.0)  # the training points nearest to these show their basis functions
TOLERANCE = 1e-8  # largest gradient for each row that still counts as an optimum
COLOUR_MAP = "viridis"
EDGE = "#555555"  # outlines of points, so that pale ones stay visible


class Curve(nn.Module):
    """f(x; θ) = θ₁ (1 − exp(−θ₂ x)), started at the true parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor([BETA_1, BETA_2], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (m,) for inputs (m, 1)."""
        return self.theta[0] * (1 - torch.exp(-self.theta[1] * x[:, 0]))


@dataclass(frozen=True)
class Figure1:
    """The numbers behind the three panels; the first of two axes has the larger eigenvalue."""

    x: Array  # (n,)
    y: Array  # (n,)
    theta: Array  # (2,), the least-squares fit
    residual: Array  # (n,), r = f − y
    hessian: Array  # (2, 2)
    eigenvalues: Array  # (2,)
    eigenvectors: Array  # (2, 2), in columns
    gradients: Array  # (n, 2), ∇ℓᵢ along the eigenvectors
    shown: tuple[int, ...]  # training rows whose basis functions are drawn
    grid: Array  # (m,)
    truth: Array  # (m,), E[y | x]
    prediction: Array  # (m,)
    kernel: Array = field(repr=False)  # (m, n), k(x, xᵢ)
    variance: Array = field(repr=False)  # (m,), σ²(x) by LinearRUE

    @property
    def kernel_sum(self) -> Array:
        """Claim 1: Σᵢ rᵢ² k(x, xᵢ), (m,)."""
        return self.kernel @ self.residual**2

    @property
    def directions(self) -> Array:
        """The gradients at unit length, (n, 2)."""
        return self.gradients / np.linalg.norm(self.gradients, axis=1, keepdims=True)


@dataclass(frozen=True)
class Fitted:
    """A model at its parameters, its training rows, and the damped Hessian there, factored."""

    model: Model
    rows: TrainingSet
    inverse: Inverse
    hessian: Tensor  # (d, d), not damped

    def kernel(self, inputs: Tensor, others: Tensor) -> Array:
        """k(x, x') = [g(x)ᵀ H̃⁻¹ g(x')]² for one output: (m, p), (q, p) -> (m, q)."""
        solved = self.inverse.solve(jacobian(self.model, others)[:, 0]).vectors
        return (jacobian(self.model, inputs)[:, 0].double() @ solved.T).square().numpy()


def fitted(net: nn.Module, X: Tensor, y: Tensor, l2: float, damping: Damping) -> Fitted:
    """The pieces of Claim 1 with the paper's curvature, the Hessian."""
    rows, model = training_rows((X, y), wrap(net, loss="squared_error", l2=l2))
    curvature = Hessian().at(model, rows)
    return Fitted(model, rows, invert(curvature, damping, None).inverse, curvature.dense())


def minimise(net: nn.Module, X: Tensor, y: Tensor, l2: float = 0.0) -> None:
    """Minimise Σ ½(y − f)² + ½ l2 ‖θ‖²."""
    optimiser = torch.optim.LBFGS(
        net.parameters(),
        max_iter=5000,
        history_size=100,  # twice as fast here as the default of 10
        tolerance_grad=TOLERANCE * len(y),
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def objective() -> float:
        optimiser.zero_grad()
        penalty = 0.5 * l2 * torch.stack([p.square().sum() for p in net.parameters()]).sum()
        loss = 0.5 * (y - net(X).reshape(len(y))).square().sum() + penalty
        loss.backward()
        return float(loss.detach())

    optimiser.step(objective)
    objective()
    slope = max(float(p.grad.abs().max()) for p in net.parameters() if p.grad is not None) / len(y)
    optimiser.zero_grad()
    if slope > TOLERANCE:
        raise NotConvergedError(
            f"the largest gradient for each row is {slope:.1e}, above {TOLERANCE:.0e}; start from another seed"
        )


def compute(seed: int = 0) -> Figure1:
    """Fit the curve to simulated data and audit it with the paper's curvature, undamped."""
    data = simulated(seed=seed)
    X, y = torch.tensor(data.X), torch.tensor(data.y)
    net = Curve()
    minimise(net, X, y)
    fit = fitted(net, X, y, 0.0, NoDamping())
    values, vectors = torch.linalg.eigh(fit.hessian)
    axes = vectors.flip(1) * vectors.flip(1).sum(0).sign()  # the larger eigenvalue first; the sign is arbitrary
    residual = loss_gradient(fit.model, outputs(fit.model, X), y[:, None])[:, 0]
    grid = torch.linspace(0, RANGE, GRID, dtype=torch.float64)
    audit = LinearRUE(curvature=Hessian(), damping=NoDamping()).fit(fit.model, (X, y)).audit(grid[:, None])
    return Figure1(
        x=data.X[:, 0],
        y=data.y,
        theta=fit.model.theta.numpy(),
        residual=residual.numpy(),
        hessian=fit.hessian.numpy(),
        eigenvalues=values.flip(0).numpy(),
        eigenvectors=axes.numpy(),
        gradients=(residual[:, None] * jacobian(fit.model, X)[:, 0] @ axes).numpy(),
        shown=tuple(int(np.abs(data.X[:, 0] - place).argmin()) for place in SHOWN),
        grid=grid.numpy(),
        truth=mean(grid.numpy()),
        prediction=audit.prediction,
        kernel=fit.kernel(grid[:, None], X),
        variance=np.asarray(audit.std) ** 2,
    )


def table(numbers: Figure1) -> "pd.DataFrame":
    """The curves of panels (a) and (c) on the grid, and σ²(x) both ways."""
    import pandas as pd

    basis = {f"k(x, {numbers.x[i]:.2f})": numbers.kernel[:, i] for i in numbers.shown}
    return pd.DataFrame(
        {
            "x": numbers.grid,
            "mean": numbers.truth,
            "prediction": numbers.prediction,
            "variance_closed_form": numbers.variance,
            "variance_kernel_sum": numbers.kernel_sum,
            **basis,
        }
    )


def ellipse(numbers: Figure1, level: float) -> Array:
    """Points (c, 2) of the rotated space at which zᵀΛz, the Hessian's quadratic, has this value."""
    angle = np.linspace(0, 2 * np.pi, 181)
    return np.sqrt(level / numbers.eigenvalues) * np.column_stack([np.cos(angle), np.sin(angle)])


def draw(numbers: Figure1) -> "Figure":
    """Data, gradients and basis functions side by side."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 3.9), layout="constrained")
    panels = figure.subplots(1, 3)
    colour = ScalarMappable(Normalize(0, RANGE), COLOUR_MAP)
    titles = ("(a) Data: dense left, sparse right", "(b) Directions of loss gradients", "(c) Basis functions and score")
    for axes, title, fill in zip(panels, titles, (_draw_data, _draw_gradients, _draw_kernel), strict=True):
        axes.set_title(title, fontsize=10, loc="left")
        fill(axes, numbers, colour)
        axes.tick_params(labelsize=8)
    bar = figure.colorbar(colour, ax=list(panels), location="bottom", aspect=70, shrink=0.6, pad=0.03)
    bar.set_label("x of the training point: one colour code for all panels", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return figure


def _draw_data(axes: "Axes", numbers: Figure1, colour: "ScalarMappable") -> None:
    axes.plot(numbers.grid, numbers.truth, color="#999999", linewidth=2.5, label="mean E[y | x]")
    axes.plot(
        numbers.grid, numbers.prediction, color=COLOURS[6], linewidth=1, linestyle="--", label="least-squares fit"
    )
    axes.scatter(
        numbers.x,
        numbers.y,
        c=colour.to_rgba(numbers.x),
        s=20,
        zorder=3,
        label="training point",
        edgecolors=EDGE,
        linewidths=0.4,
    )
    axes.set_xlabel("x", fontsize=9)
    axes.set_ylabel("y", fontsize=9)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_gradients(axes: "Axes", numbers: Figure1, colour: "ScalarMappable") -> None:
    """Gradients at unit length over contours of the Hessian's quadratic."""
    for width in np.geomspace(0.03, 1.1, 10):
        axes.plot(*ellipse(numbers, numbers.eigenvalues[0] * width**2).T, color="#C4C4C4", linewidth=0.8, zorder=1)
    for tip, shade in zip(numbers.directions, colour.to_rgba(numbers.x), strict=True):
        axes.plot((0, tip[0]), (0, tip[1]), color=shade, linewidth=0.9, zorder=2)
    axes.scatter(
        numbers.directions[:, 0],
        numbers.directions[:, 1],
        c=colour.to_rgba(numbers.x),
        s=16,
        zorder=3,
        edgecolors=EDGE,
        linewidths=0.4,
    )
    axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
    axes.set_xlabel(f"along the high curvature (λ = {numbers.eigenvalues[0]:.0f})", fontsize=9)
    axes.set_ylabel(f"along the low curvature (λ = {numbers.eigenvalues[1]:.1f})", fontsize=9)


def _draw_kernel(axes: "Axes", numbers: Figure1, colour: "ScalarMappable") -> None:
    """The basis functions on the left axis, with a tick at the top for each; the score on the right axis."""
    drawn = []
    for i in numbers.shown:
        shade, name = colour.to_rgba(numbers.x[i]), f"$k(x, x_i)$ at $x_i$ = {numbers.x[i]:.1f}"
        drawn += axes.plot(numbers.grid, 1000 * numbers.kernel[:, i], color=shade, linewidth=1.8, label=name)
        axes.axvline(numbers.x[i], ymin=0.96, color=shade, linewidth=3)
    other = axes.twinx()
    drawn += other.plot(
        numbers.grid, 1000 * numbers.variance, color=COLOURS[6], linestyle=":", linewidth=1.8, label="σ²(x), right axis"
    )
    axes.set_xlabel("x", fontsize=9)
    axes.set_ylabel("$k(x, x_i)$ × 1000", fontsize=9)
    other.set_ylabel("σ²(x) × 1000, in units of y²", fontsize=9)
    other.tick_params(labelsize=8)
    axes.set_ylim(0, 1400 * numbers.kernel[:, list(numbers.shown)].max())  # room for the legend
    other.set_ylim(0, 1400 * numbers.variance.max())
    other.legend(handles=drawn, frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0.0, 0.95))
