"""`rue demo`: the paper's network on 442 diabetes patients, audited by every method."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from rue import plots
from rue.cli.demo_report import demo_report
from rue.cli.paper_network import ALPHA, paper_network, train
from rue.core.arrays import Array
from rue.core.errors import RueWarning
from rue.core.files import write_whole
from rue.data.features import Standardiser
from rue.evaluate import metrics as evaluate
from rue.methods import METHODS
from rue.models import wrap

FOLDS = 5
SHOWN = 4  # so many patients are shown at each end of the ranking
LEVEL = 0.9  # of the intervals
HEADLINE = "CalibratedRUE"  # the method that rue.audit uses


@dataclass(frozen=True)
class CrossAudited:
    """The audits by every method of patients that the network was not trained on, in the units of the target."""

    patient: Array  # (m,) row numbers
    target: Array
    prediction: Array
    std: Array  # of the headline method
    total_std: Array
    lower: Array  # of its 90 % intervals
    upper: Array
    axes: dict[str, Array]  # causes: standard deviations whose squares add up to that of the total
    score: dict[str, Array]  # by method, in the standardised units of each network
    wandered: dict[str, int]  # by method, how many audits warned that members moved away from the prediction

    @property
    def error(self) -> Array:
        """Signed error of each prediction."""
        return self.prediction - self.target


def run(out: Path, seed: int = 0) -> CrossAudited:
    """Train, audit, print and draw."""
    start = time.perf_counter()
    console = Console(highlight=False)
    console.print(
        "\n[bold]Would these predictions have come out the same with a little other training data?[/]\n"
        "442 diabetes patients; predicted is disease progression after one year (25 to 346).\n"
        f"{FOLDS} networks, each trained without a fifth of the patients and audited on those.\n"
    )
    held_out = cross_audit(seed, console)
    for part in (_patients(held_out), _comparison(held_out), _summary(held_out)):
        console.print(part)
    console.print("Figures:")
    for path in _draw(held_out, out):
        console.print(f"  {path}")
    console.print("\nThe same for one network, as a report that a person can act on ...")
    written = demo_report(seed)
    page, data = written.save(out / "report.html")
    console.print(f"  {written.verdict}")
    console.print(f"  [bold]{page.resolve()}[/]: open it in a browser; a click on a prediction opens its card")
    console.print(f"  {data}: the same for programs")
    console.print(f"\nDone in {time.perf_counter() - start:.0f} seconds. README.md shows how to audit your own model.")
    return held_out


def cross_audit(seed: int, console: Console) -> CrossAudited:
    """Every patient audited once, by a network trained on the others."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import KFold

    X, y = load_diabetes(return_X_y=True, scaled=False)
    folds = KFold(FOLDS, shuffle=True, random_state=seed).split(X)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=FOLDS * (1 + len(METHODS)))
        parts = []
        for fold, (rows, test) in enumerate(folds, start=1):

            def say(what: str, fold: int = fold) -> None:
                bar.update(task, description=f"network {fold} of {FOLDS}: {what}", advance=1)

            parts.append(audit_fold(X, y, rows, test, seed + fold, say))
    return CrossAudited(
        patient=np.concatenate([part.patient for part in parts]),
        target=np.concatenate([part.target for part in parts]),
        prediction=np.concatenate([part.prediction for part in parts]),
        std=np.concatenate([part.std for part in parts]),
        total_std=np.concatenate([part.total_std for part in parts]),
        lower=np.concatenate([part.lower for part in parts]),
        upper=np.concatenate([part.upper for part in parts]),
        axes={name: np.concatenate([part.axes[name] for part in parts]) for name in parts[0].axes},
        score={name: np.concatenate([part.score[name] for part in parts]) for name in METHODS},
        wandered={name: sum(part.wandered[name] for part in parts) for name in METHODS},
    )


def audit_fold(X: Array, y: Array, rows: Array, test: Array, seed: int, say: Callable[[str], None]) -> CrossAudited:
    """Train on some patients and audit the others with every method."""
    of_x, of_y = Standardiser.of(X[rows]), Standardiser.of(y[rows])
    inputs, targets, new = (
        torch.tensor(part, dtype=torch.float32) for part in (of_x(X[rows]), of_y(y[rows]), of_x(X[test]))
    )
    net = paper_network(X.shape[1], seed)
    say("training")
    train(net, inputs, targets, seed)
    model = wrap(net, loss="squared_error", l2=ALPHA)
    audits = {}
    for name, method in METHODS.items():
        say(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RueWarning)  # they are in the audit's facts, and noted below the table
            audits[name] = method().fit(model, (inputs, targets)).audit(new)
    best = audits[HEADLINE]
    interval = best.interval(LEVEL)
    return CrossAudited(
        patient=test,
        target=y[test],
        prediction=best.prediction * of_y.scale + of_y.mean,
        std=np.asarray(best.std) * of_y.scale,
        total_std=np.asarray(best.total_std) * of_y.scale,
        lower=interval.lower * of_y.scale + of_y.mean,
        upper=interval.upper * of_y.scale + of_y.mean,
        axes={name: part * of_y.scale for name, part in (best.axes or {}).items()},
        score={name: audit.score for name, audit in audits.items()},
        wandered={name: len(audit.facts["warnings"]) for name, audit in audits.items()},
    )


def _patients(held_out: CrossAudited) -> Table:
    """A table of both ends of the ranking."""
    table = Table(title="The least and the most reliable predictions", title_justify="left", caption_justify="left")
    table.caption = (
        "'Expected error': one standard deviation, by leave-one-out on the patients that trained the network. "
        "'Would change by about': one standard deviation over training sets that might have been."
    )
    for name in ("patient", "predicted", "90 % interval", "expected error", "would change by about", "actual", "error"):
        table.add_column(name, justify="right")
    order = np.argsort(-held_out.total_std)
    for end, style in ((order[:SHOWN], "red"), (order[-SHOWN:], "green")):
        for i in end:
            table.add_row(
                str(int(held_out.patient[i])),
                f"{held_out.prediction[i]:.0f}",
                f"{held_out.lower[i]:.0f} to {held_out.upper[i]:.0f}",
                f"± {held_out.total_std[i]:.0f}",
                f"± {held_out.std[i]:.0f}",
                f"{held_out.target[i]:.0f}",
                f"{held_out.error[i]:+.0f}",
                style=style,
            )
        table.add_section()
    return table


def _comparison(held_out: CrossAudited) -> Table:
    """A table of all methods and the quality of their rankings."""
    table = Table(title="What each score is worth", title_justify="left", caption_justify="left")
    table.caption = (
        f"Mean absolute error of those kept, of {len(held_out.target)} patients, when the highest scores go to "
        "a person instead. AUC: how often a large error has a higher score than a small one; 0.5 is a coin."
        + (" ⚠: sampled members moved too far from the prediction." if any(held_out.wandered.values()) else "")
    )
    for name in ("score", "all", "10 % deferred", "20 % deferred", "AUC"):
        table.add_column(name, justify="left" if name == "score" else "right")
    size = np.abs(held_out.error)
    for name, score in held_out.score.items():
        kept = [evaluate.deferral(score, size, fraction) for fraction in (0.0, 0.1, 0.2)]
        table.add_row(
            f"{name} [yellow]⚠[/]" if held_out.wandered[name] else name,
            *(f"{value:.1f}" for value in kept),
            f"{evaluate.mean_auc(score, held_out.error):.3f}",
            style="bold" if name == HEADLINE else None,
        )
    return table


def _summary(held_out: CrossAudited) -> str:
    """A summary in words and numbers."""
    share = resampling_share(held_out)
    whole = float((held_out.total_std**2).mean())
    axes = ", ".join(f"{name} {float((part**2).mean()) / whole:.0%}" for name, part in held_out.axes.items())
    inside = evaluate.coverage(held_out.target, held_out.lower, held_out.upper)
    return (
        f"\nThe error variance that {HEADLINE} expects, by cause: {axes}. The choice of training patients alone would "
        f"account for {share:.0%} of it: where that is little, a score of resampling alone finds few of the large "
        "errors; compare the AUCs.\n"
        f"Of the 90 % intervals, made without held-out patients, {inside.value:.0%} hold their patient "
        f"(n = {inside.n}; 95 % confidence: {inside.low:.0%} to {inside.high:.0%}).\n"
    )


def resampling_share(held_out: CrossAudited) -> float:
    """The share of resampling in the expected error variance."""
    return float((held_out.std**2).mean() / (held_out.total_std**2).mean())


def _draw(held_out: CrossAudited, out: Path) -> list[Path]:
    size = np.abs(held_out.error)
    figures = {
        "auc_against_tolerance.png": plots.auc_against_tolerance(held_out.score, held_out.error),
        "error_after_deferral.png": plots.error_after_deferral(held_out.score, size),
        "spread_and_error.png": plots.spread_and_error(held_out.total_std, held_out.error),
    }
    for name, figure in figures.items():
        drawn = BytesIO()
        figure.savefig(drawn, dpi=130, format="png")
        write_whole({out / name: drawn.getvalue()})
    return [out / name for name in figures]
