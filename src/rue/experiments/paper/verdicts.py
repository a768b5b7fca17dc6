"""What the results say of the paper's claims, each a sentence with its numbers, made from the files alone."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rue.experiments.paper.page import read
from rue.experiments.paper.protocol import LARGE, TITLES
from rue.experiments.paper.table1 import AFTER, INTEGRATED

if TYPE_CHECKING:
    import pandas as pd


def verdicts(folder: Path) -> list[str]:
    """Claim by claim."""
    nll, auc, fidelity, costs = (read(folder, name) for name in ("table1", "figure2", "fidelity", "costs"))
    paper = nll[nll["protocol"] == "paper"].pivot_table(index="data", columns="method", values="nll", sort=False)
    means = auc[auc["percentile"] == "mean"].pivot_table(index="data", columns="method", values="auc", sort=False)
    ranks = fidelity.pivot_table(index="data", columns="method", values="spearman", sort=False)
    return [
        *_near_the_paper(nll),
        _count("RUE has a lower NLL than sampled Laplace", paper, lambda r: r["RUE"] < r["Laplace"]),
        _count(
            "RUE has a lower NLL than Laplace and Bootstrap SGD (the paper: all but two)",
            paper,
            lambda r: r["RUE"] < min(r["Laplace"], r["Bootstrap SGD"]),
        ),
        _count(
            "RUE has a higher mean AUC than Laplace and kernel density",
            means,
            lambda r: r["RUE"] > max(r["Laplace"], r["Kernel density"]),
        ),
        _count(
            "RUE has the highest mean AUC of the paper's four",
            means,
            lambda r: r["RUE"] > max(r["Laplace"], r["Kernel density"], r["Bootstrap SGD"]),
        ),
        _count(
            "the mean squared residual of the ten nearest neighbours, which the paper did not run, has a higher mean "
            "AUC than RUE",
            means,
            lambda r: r["Nearest neighbours, residual"] > r["RUE"],
        ),
        _count(
            "closed-form Gauss–Newton RUE has a Spearman correlation of at least .9 with real refits",
            ranks,
            lambda r: r["LinearRUE"] >= 0.9,
        ),
        _count("it is nearer to real refits than Algorithm 1 is", ranks, lambda r: r["LinearRUE"] > r["RUE"]),
        f"Closed form against 50 refits one after another: {costs['ratio_one_by_one'].min():,.0f} to "
        f"{costs['ratio_one_by_one'].max():,.0f} times cheaper; against the same refits batched "
        f"{costs['ratio_batched'].min():,.0f} to {costs['ratio_batched'].max():,.0f} times.",
        *(_integrated(nll, method) for method in INTEGRATED),
    ]


def _near_the_paper(nll: "pd.DataFrame") -> list[str]:
    """How far our after-learning numbers lie from the paper's own."""
    said = []
    for method, near in zip(AFTER, (0.15, 0.35, 0.35), strict=True):
        own = nll[(nll["protocol"] == "paper") & (nll["method"] == method)]
        gap = (own["nll"] - own["published"]).to_numpy()
        far = [
            f"{TITLES[str(name)]} {a:.2f} against {b:.2f}"
            for name, a, b, g in zip(own["data"], own["nll"], own["published"], gap, strict=True)
            if abs(g) > near
        ]
        said.append(
            f"{method}: NLL within {near:g} of the paper's on {len(own) - len(far)} of {len(own)} sets"
            + (f" (not on {', '.join(far)})." if far else ".")
        )
    return said


def _integrated(nll: "pd.DataFrame", method: str) -> str:
    """Trained here on nine tenths, against the published number and twice its standard error."""
    own = nll[(nll["method"] == method) & ((nll["protocol"] == "standard") | ~nll["data"].isin(LARGE))]
    short = [
        f"{TITLES[str(name)]} {a:.2f} against {b:.2f}"
        for name, a, b, e in zip(own["data"], own["nll"], own["published"], own["published_error"], strict=True)
        if a > b + 2 * e
    ]
    return (
        f"{method}, trained here: within two published standard errors of the published NLL, or better, on "
        f"{len(own) - len(short)} of {len(own)} sets" + (f" (not on {', '.join(short)})." if short else ".")
    )


def _count(claim: str, frame: "pd.DataFrame", holds: "Callable[[pd.Series], bool]") -> str:
    """On how many data sets a claim holds, and where it does not."""
    failing = [TITLES[str(name)] for name, row in frame.iterrows() if not holds(row)]
    said = f"{claim[0].upper()}{claim[1:]}: on {len(frame) - len(failing)} of {len(frame)} sets"
    return said + (f" (not on {', '.join(failing)})." if failing else ".")
