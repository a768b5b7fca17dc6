"""Claim 1 measured: the error of the sampled score against Σ rᵢ² k(x, xᵢ), divided by the steps of the proof.

The proof takes three steps, and each leaves a relative error of the standard deviation behind. With bᵢ = gᵀH̃⁻¹∇ℓᵢ:

- Sampling: b members instead of all. About 1/√(2b) for members near to normal, whatever n.
- Linearisation: members pushed through the network instead of along its gradient. A member moves by O(1/√n), so
  this is O(1/n) for many members; with few, the chance correlation of first- and second-order terms adds O(1/√(nb)).
- Finite n: Cov[w] = I − 11ᵀ/n taken for I. The variance lacks (Σ bᵢ)²/n, exactly. It does not shrink because the
  entries −1/n do, as the paper has it (there are n² of them), but because Σ bᵢ is small: Σ bᵢ = gᵀH̃⁻¹Σ∇ℓᵢ and
  Σ∇ℓᵢ = −∇R at an optimum. So it is zero without a penalty; O(1/n²), relative, with a penalty that stays as n
  grows; it stays as it is where the penalty grows with n; and at parameters that did not see these rows, Σ bᵢ is a
  random walk and the error is O(1/n).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from rue.cli.paper_network import ALPHA, paper_network
from rue.core.arrays import Array
from rue.core.concepts import Damping
from rue.core.derivatives import jacobian, loss_gradient, member_outputs, outputs
from rue.core.influence import influence
from rue.core.progress import track
from rue.core.resample import Multinomial, variance
from rue.core.solve import NoDamping, SmallestEigenvalue
from rue.evaluate.datasets.simulated import RANGE, simulated, simulated_surface
from rue.methods import RUE
from rue.methods.ensemble import SampledMembers
from rue.plots import COLOURS
from rue_paper.figure1 import Curve, Fitted, fitted, minimise

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZES = (50, 100, 200, 400, 800, 1600)
POOL = 9_000  # members of one audit, cut into groups of b
MEMBERS = (10, 30, 100, 300, 1000, 3000, POOL)
INPUTS = 40  # inputs that are audited
NETWORKS = 3  # networks trained for each n
SPECTRUM_SIZE = 200  # training rows in the kernel matrix

# How the parameters were fitted, and the coefficient of the penalty ½‖θ‖² for n rows.
NO_PENALTY, FIXED, GROWING = "optimum, no penalty", "optimum, fixed penalty", "optimum, penalty ∝ n"
NOT_FITTED = "not fitted to these rows"
PENALTY: dict[str, Callable[[int], float]] = {
    NO_PENALTY: lambda _: 0.0,
    FIXED: lambda _: ALPHA,
    GROWING: lambda n: ALPHA * n / SIZES[0],  # the paper's at the smallest n
    NOT_FITTED: lambda _: 0.0,
}


class Row(NamedTuple):
    """Relative errors of the standard deviation in one situation, over data sets, groups of members and inputs."""

    part: str  # sampling, linearisation, finite n, or all three together
    model: str
    at: str  # how the parameters were fitted
    n: int
    b: int | None  # None where there are no members
    median: float
    rms: float
    errors: int  # the number of errors


class ModelSpectrum(NamedTuple):
    """The matrix [k(xᵢ, xⱼ)] over training inputs."""

    model: str
    n: int
    d: int
    smallest_over_largest: float
    rank: int  # eigenvalues above rounding; at most d(d + 1)/2, as k is the square of a product of d-vectors


@dataclass(frozen=True)
class Claim1:
    """All measurements."""

    rows: tuple[Row, ...] = field(repr=False)
    spectra: tuple[ModelSpectrum, ...]


@dataclass(frozen=True)
class Situation:
    """A trained model with its data, the inputs to audit, and its curvature's damping."""

    net: nn.Module
    X: Tensor
    y: Tensor
    new: Tensor
    l2: float
    damping: Damping

    def fitted(self) -> Fitted:
        """The parts of Claim 1 for this model."""
        return fitted(self.net, self.X, self.y, self.l2, self.damping)


def curve(n: int, seed: int, at: str) -> Situation:
    """The two-parameter curve of Figure 1, undamped."""
    data = simulated(n, seed)
    X, y, l2 = torch.tensor(data.X), torch.tensor(data.y), PENALTY[at](n)
    net = Curve()  # at the parameters the data were simulated with
    if at != NOT_FITTED:
        minimise(net, X, y, l2)
    new = torch.linspace(0, RANGE, INPUTS + 1, dtype=torch.float64)[1:, None]  # at 0 the curve cannot move
    return Situation(net, X, y, new, l2, NoDamping())


def network(n: int, seed: int, at: str) -> Situation:
    """The paper's network at an optimum, with the paper's damping."""
    data, other = simulated_surface(n, seed), simulated_surface(INPUTS, seed + 1)
    X, y, l2 = torch.tensor(data.X), torch.tensor(data.y), PENALTY[at](n)
    net = paper_network(X.shape[1], seed).double()
    minimise(net, X, y, l2)
    return Situation(net, X, y, torch.tensor(other.X), l2, SmallestEigenvalue())


class ClaimCase(NamedTuple):
    """A family of situations, and the number of data sets over which errors are collected."""

    model: str
    build: Callable[[int, int, str], Situation]
    at: str
    data_sets: int


SAMPLED = (
    ClaimCase("curve", curve, NO_PENALTY, 5),
    ClaimCase("network", network, FIXED, NETWORKS),
    ClaimCase("network", network, GROWING, NETWORKS),
)
CLOSED = tuple(ClaimCase("curve", curve, at, 20) for at in (FIXED, GROWING, NOT_FITTED))  # no members: cheap


def compute(seed: int = 0) -> Claim1:
    """Measure every part for the curve of Figure 1 and for the paper's network."""
    rows: list[Row] = []
    jobs = [(case, n, member_errors) for n in SIZES for case in SAMPLED]
    jobs += [(case, n, finite_n_errors) for n in SIZES for case in CLOSED]
    for case, n, measure in track("Claim 1", jobs, total=len(jobs)):
        measured = [measure(case.build(n, seed + i, case.at), seed + i) for i in range(case.data_sets)]
        for part, b in measured[0]:
            errors = np.concatenate([each[part, b] for each in measured])
            median, rms = float(np.median(np.abs(errors))), float(np.sqrt(np.mean(errors**2)))
            rows.append(Row(part, case.model, case.at, n, b, median, rms, errors.size))
    shown = (spectrum(case.model, case.build(SPECTRUM_SIZE, seed, case.at)) for case in SAMPLED[:2])
    return Claim1(tuple(rows), tuple(shown))


Errors = dict[tuple[str, int | None], Array]


def member_errors(situation: Situation, seed: int) -> Errors:
    """Every part for every b. The parts multiply: 1 + together = (1 + sampling)(1 + linearisation)/(1 + finite n)."""
    fit = situation.fitted()
    exact, claim = closed_forms(fit, situation)
    through, straight = members(fit, situation, seed)
    errors: Errors = {("finite n", None): claim / exact - 1}
    for b in MEMBERS:
        sampled, linear = deviations(through, b), deviations(straight, b)
        errors["sampling", b] = linear / exact - 1
        errors["linearisation", b] = sampled / linear - 1
        errors["together", b] = sampled / claim - 1
    return errors


def finite_n_errors(situation: Situation, seed: int) -> Errors:  # noqa: ARG001  the signature of `member_errors`
    """The errors of the part that needs no members."""
    exact, claim = closed_forms(situation.fitted(), situation)
    return {("finite n", None): claim / exact - 1}


def closed_forms(fit: Fitted, situation: Situation) -> tuple[Array, Array]:
    """σ(x) by B(I − 11ᵀ/n)Bᵀ, exact for linearised members, and by Claim 1's Σ rᵢ² k(x, xᵢ): both (m,)."""
    pulls, _ = influence(fit.model, fit.rows, fit.inverse, jacobian(fit.model, situation.new))
    exact = variance(Multinomial(), pulls)[:, 0]
    residual = loss_gradient(fit.model, outputs(fit.model, situation.X), situation.y[:, None])[:, 0]
    claim = fit.kernel(situation.new, situation.X) @ residual.square().numpy()
    return exact.sqrt().numpy(), np.sqrt(claim)


def members(fit: Fitted, situation: Situation, seed: int) -> tuple[Array, Array]:
    """Predictions of the same members of `RUE` through the network and along its gradient: both (POOL, m)."""
    auditor = RUE(members=POOL, seed=seed, damping=situation.damping).fit(fit.model, (situation.X, situation.y))
    thetas = cast(SampledMembers, auditor.assess).thetas
    through = member_outputs(fit.model, thetas, situation.new)[..., 0]
    moved = (thetas - fit.model.theta) @ jacobian(fit.model, situation.new)[:, 0].T
    return through.numpy(), (outputs(fit.model, situation.new)[:, 0] + moved).numpy()


def deviations(predictions: Array, b: int) -> Array:
    """The score from b members, for as many groups as (POOL, m) predictions make: (POOL // b, m)."""
    groups = len(predictions) // b
    return predictions[: groups * b].reshape(groups, b, -1).std(axis=1, ddof=1)


def spectrum(model: str, situation: Situation) -> ModelSpectrum:
    """Eigenvalues of the kernel matrix over the training inputs: an elementwise square, so none is negative (Schur)."""
    fit = situation.fitted()
    values = np.linalg.eigvalsh(fit.kernel(situation.X, situation.X))
    rounding = len(values) * np.finfo(float).eps * values[-1]
    ratio, rank = float(values[0] / values[-1]), int((values > rounding).sum())
    return ModelSpectrum(model, len(values), fit.model.theta.numel(), ratio, rank)


def table(claim: Claim1) -> "pd.DataFrame":
    """One line for each part, model, n and b."""
    import pandas as pd

    return pd.DataFrame(claim.rows, columns=list(Row._fields)).astype({"b": "Int64"})


def chosen(claim: Claim1, part: str, model: str, at: str, **where: int) -> list[Row]:
    """The rows of one part of one case, for one `n` or one `b`."""
    wanted = {"part": part, "model": model, "at": at, **where}
    return [row for row in claim.rows if all(getattr(row, name) == value for name, value in wanted.items())]


def slope(rows: list[Row], against: str) -> float:
    """The exponent p in median error ∝ nᵖ or bᵖ, by least squares on logarithms."""
    size, error = (np.log([getattr(row, name) for row in rows]) for name in (against, "median"))
    return float(np.polyfit(size, error, 1)[0])


def findings(claim: Claim1) -> list[str]:
    """The results in sentences."""
    return [_sampling_finding(claim), _linearisation_finding(claim), _finite_n_finding(claim)] + [
        f"The kernel matrix of {each.n} training inputs is positive semi-definite to rounding for the {each.model} "
        f"({each.d} parameters): smallest eigenvalue over the largest {each.smallest_over_largest:.0e}, numerical rank "
        f"{each.rank} (at most {min(each.n, each.d * (each.d + 1) // 2)})."
        for each in claim.spectra
    ]


def _sampling_finding(claim: Claim1) -> str:
    cases = (("curve", NO_PENALTY), ("network", FIXED))
    rows = [[row for b in MEMBERS[:-1] for row in chosen(claim, "sampling", *case, b=b)] for case in cases]
    falls = [f"b^{slope(some, 'b'):.2f}" for some in rows]
    few = [
        row.rms * (2 * b) ** 0.5 for case in cases for b in MEMBERS[:4] for row in chosen(claim, "sampling", *case, b=b)
    ]
    return (
        f"Sampling: from {MEMBERS[0]} to {MEMBERS[-2]} members the median error falls as {falls[0]} for the curve and "
        f"{falls[1]} for the network, all n taken together; up to {MEMBERS[3]} members its root mean square is "
        f"{min(few):.2f} to {max(few):.2f} times the 1/√(2b) of theory."
    )


def _linearisation_finding(claim: Claim1) -> str:
    of_curve, fixed, growing = (chosen(claim, "linearisation", *case, b=POOL) for case in LINEARISED)
    return (
        f"Linearisation, with {POOL} members, at n = {', '.join(map(str, SIZES))}: the median error of the curve is "
        f"{_medians(of_curve)}, as n^{slope(of_curve, 'n'):.2f}; of the network with the paper's penalty "
        f"{_medians(fixed)} (n^{slope(fixed, 'n'):.2f}); with a penalty in proportion to n {_medians(growing)} "
        f"(n^{slope(growing, 'n'):.2f}). {NETWORKS} networks for each n, so these scatter."
    )


def _medians(rows: list[Row]) -> str:
    return ", ".join(f"{100 * row.median:.2g}" for row in rows) + " %"


def _finite_n_finding(claim: Claim1) -> str:
    none, fixed, growing, away = (chosen(claim, "finite n", "curve", at) for at in PENALTY)
    ends = [f"{rows[i].median:.1e}" for rows in (growing, chosen(claim, "finite n", "network", FIXED)) for i in (0, -1)]
    return (
        f"Finite n, on the curve: at an optimum without penalty {max(row.rms for row in none):.0e}, that is rounding; "
        f"with a fixed penalty it falls as n^{slope(fixed[-3:], 'n'):.2f} (from n = {fixed[-3].n} on); with one in "
        f"proportion to n it is {ends[0]} at n = {SIZES[0]} and {ends[1]} at {SIZES[-1]}; at parameters that were "
        f"not fitted to these rows it falls as n^{slope(away, 'n'):.2f}. For the network with the paper's penalty it "
        f"is {ends[2]} and {ends[3]}."
    )


LINEARISED = (("curve", NO_PENALTY), ("network", FIXED), ("network", GROWING))
DASH = {"curve": "-", "network": "--"}
PART_COLOUR = {"sampling": COLOURS[3], "linearisation": COLOURS[1], "together": COLOURS[5]}
AT_COLOUR = {NO_PENALTY: COLOURS[6], FIXED: COLOURS[0], GROWING: COLOURS[4], NOT_FITTED: COLOURS[2]}


def draw(claim: Claim1) -> "Figure":
    """A figure of the three parts: one against b, two against n."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.4), layout="constrained")
    panels = figure.subplots(1, 3)
    titles = (
        f"(a) All parts against members, n = {SPECTRUM_SIZE}",
        f"(b) Linearisation, {POOL} members",
        "(c) Finite n: Cov[w] taken for I",
    )
    for axes, title, fill in zip(panels, titles, (_draw_members, _draw_linearisation, _draw_finite_n), strict=True):
        fill(axes, claim)
        axes.set(xscale="log", yscale="log")
        axes.set_title(title, fontsize=10, loc="left")
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        columns = 2 if fill is _draw_members else 1
        axes.legend(frameon=False, fontsize=8, ncols=columns, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    panels[0].set_ylabel("median relative error of σ(x)", fontsize=9)
    return figure


def _draw_members(axes: "Axes", claim: Claim1) -> None:
    for model, at in LINEARISED[:2]:
        for part, colour in PART_COLOUR.items():
            rows = chosen(claim, part, model, at, n=SPECTRUM_SIZE)[: len(MEMBERS)]
            _line(axes, rows, "b", colour, DASH[model], f"{model}: {part}")
    b = np.array(MEMBERS, dtype=float)
    normal = 0.6745  # the median of |z| for a standard normal z
    axes.plot(b, normal / np.sqrt(2 * b), color="#999999", linestyle=":", label="theory: 0.67/√(2b)")
    axes.set_xlabel("members b", fontsize=9)


def _draw_linearisation(axes: "Axes", claim: Claim1) -> None:
    for model, at in LINEARISED:
        rows = chosen(claim, "linearisation", model, at, b=POOL)
        _line(axes, rows, "n", AT_COLOUR[at], DASH[model], f"{model}, {at}")
    _reference(axes, chosen(claim, "linearisation", *LINEARISED[0], b=POOL), -1, "∝ 1/n")
    axes.set_xlabel("training rows n", fontsize=9)


def _draw_finite_n(axes: "Axes", claim: Claim1) -> None:
    cases = [("curve", FIXED), ("curve", GROWING), ("curve", NOT_FITTED), ("network", FIXED), ("network", GROWING)]
    for model, at in cases:
        _line(axes, chosen(claim, "finite n", model, at), "n", AT_COLOUR[at], DASH[model], f"{model}, {at}")
    axes.plot([], [], " ", label=f"curve, {NO_PENALTY}: zero, not drawn")
    for case, power, name in ((cases[0], -2, "∝ 1/n²"), (cases[2], -1, "∝ 1/n")):
        _reference(axes, chosen(claim, "finite n", *case), power, name)
    axes.set_xlabel("training rows n", fontsize=9)


def _line(axes: "Axes", rows: list[Row], against: str, colour: str, dash: str, label: str) -> None:
    size = [getattr(row, against) for row in rows]
    axes.plot(size, [row.median for row in rows], dash, color=colour, marker="o", markersize=3, label=label)


def _reference(axes: "Axes", rows: list[Row], power: int, name: str) -> None:
    """A grey line of known slope, a little below a curve's last point, named in its middle."""
    n = np.array([row.n for row in rows], dtype=float)
    values = 0.5 * rows[-1].median * (n / n[-1]) ** power
    axes.plot(n, values, color="#999999", linestyle=":")
    middle = len(n) // 2
    place = (n[middle], values[middle])
    axes.annotate(
        name, place, xytext=(-3, -3), textcoords="offset points", ha="right", va="top", fontsize=8, color="#666666"
    )
