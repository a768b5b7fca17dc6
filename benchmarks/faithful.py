"""How faithful audits in a sketch are: against the exact solve of the same Gauss–Newton matrix, case by case.

`python benchmarks/faithful.py [DATA ...] [--network NAME] [--audit NAME] [--out FILE]` measures all cases of
`faithful_cases.CASES` or some of them, on a GPU where there is one, and replaces their lines in
`docs/scale/faithful.csv`. Two audits are compared: `LinearRUE` under a stated l2, and the default (`CalibratedRUE`,
`ClassifierRUE`), which calibrates itself by left-out rows and knows no l2.
"""

import argparse
import csv
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import faithful_cases
import fidelity
import numpy as np
import torch
from faithful_cases import CASES, Case
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

import rue
from rue.core.plan import Plan
from rue.core.solve.choice import beyond
from rue.core.solve.sketch import Sketch, affordable_size

PAGE = Path(__file__).parent.parent / "docs" / "scale" / "faithful.csv"
L2 = 1.0  # of the audits under a stated penalty
NEAR = 1.3  # factor within which the scale should be
SIGNS = 64  # random vectors that effective parameters are counted by
AUDITS = {"l2 stated": True, "default": False}
SAID = ("the sketch keeps", "no l2 is stated")  # by a fit that may be far from an exact one
LARGEST = 60_000  # parameters or outputs of rows that are still solved exactly here
COLUMNS = (
    "data",
    "network",
    "parameters",
    "rows",
    "outputs",
    "audit",  # "l2 stated" or "default"
    "effective",  # effective parameters of the exact audit
    "size",  # of the sketch
    "planned",  # the kinds of machine on which `rue.plan` chooses this solver
    "coordinates",
    "warned",  # whether the fit said that its coordinates are too few, or weigh parameters otherwise
    "spearman",  # of standard deviations, for classes of the margin between the two likeliest
    "std_ratio",  # median of sketched over exact
    "score_ratio",  # the same of the calibrated score: total_std, or the probability of a mistake
    "score_near",  # share of rows whose score is within a factor 1.3
    "auc",  # of finding mistakes, or the largest fifth of errors, by the exact score
    "auc_change",
)


class Measured(NamedTuple):
    """What one audit says about new rows."""

    std: NDArray[np.float64]
    score: NDArray[np.float64]
    auc: float
    facts: dict[str, Any]
    effective: float


@contextmanager
def exactly() -> Iterator[None]:
    """Inside, whatever is chosen unasked is an exact solve, however long it takes."""
    with (
        mock.patch("rue.core.solve.choice.LARGE", LARGEST),
        mock.patch("rue.core.solve.choice.ON_GPU", LARGEST),
        mock.patch("rue.core.solve.choice.NUMBERS", 2**40),
    ):
        yield


def audited(case: Case, stated: bool, solver: object = None) -> Measured:
    """One audit of the new rows of a case."""
    default = rue.ClassifierRUE if case.classes else rue.CalibratedRUE
    method = (rue.LinearRUE if stated else default)(solver=solver)
    model = rue.wrap(case.network, loss=case.loss, l2=L2 if stated else None)
    auditor = method.fit(model, case.train)
    audit = auditor.audit(case.new[0])
    std = np.sqrt(fidelity.margin_variance(audit)) if case.classes else audit.std
    return Measured(std, audit.score, auc(case, audit), dict(audit.facts), effective(auditor))


def auc(case: Case, audit: rue.Audit) -> float:
    """How well the score finds mistakes, or the largest fifth of the errors."""
    y = case.new[1].cpu().numpy()
    if case.classes:
        wrong = audit.prediction.argmax(1) != y
    else:
        missed = np.abs(audit.prediction - y[:, 0])
        wrong = missed > np.quantile(missed, 0.8)
    return float(roc_auc_score(wrong, audit.score))


def effective(auditor: rue.Auditor) -> float:
    """Effective parameters; under a stated penalty d − l2·tr H⁻¹, by random signs."""
    if "effective_parameters" in auditor.facts:
        return float(auditor.facts["effective_parameters"])
    solved = auditor.trained.solved
    theta, source = solved.objective.theta, torch.Generator().manual_seed(0)
    signs = (torch.randint(0, 2, (SIGNS, theta.numel()), generator=source).double() * 2 - 1).to(theta.device)
    return theta.numel() - L2 * float((solved.inverted.inverse.solve(signs).vectors * signs).sum()) / SIGNS


def compared(case: Case, stated: bool, solvers: list[Sketch]) -> Iterator[dict[str, Any]]:
    """The lines of some sketches beside the exact audit."""
    with exactly():
        exact = audited(case, stated)
    assert "projected_to" not in exact.facts
    for solver in solvers:
        found = audited(case, stated, solver)
        ratio = found.score / exact.score
        yield {
            "audit": next(name for name, is_stated in AUDITS.items() if is_stated == stated),
            "effective": round(exact.effective),
            "size": solver.size,
            "coordinates": found.facts["projected_to"],
            "warned": "yes" if any(said in text for text in found.facts["warnings"] for said in SAID) else "no",
            "spearman": f"{spearmanr(exact.std, found.std)[0]:.4f}",
            "std_ratio": f"{np.median(found.std / exact.std):.3f}",
            "score_ratio": "" if stated else f"{np.median(ratio):.3f}",
            "score_near": "" if stated else f"{np.mean((ratio < NEAR) & (ratio > 1 / NEAR)):.3f}",
            "auc": "" if stated else f"{exact.auc:.4f}",
            "auc_change": "" if stated else f"{found.auc - exact.auc:+.4f}",
        }


def measured(case: Case, audits: tuple[bool, ...]) -> Iterator[dict[str, Any]]:
    """The lines of a case for audits under a stated penalty, by default, or both."""
    plan = rue.plan(rue.wrap(case.network, loss=case.loss, l2=L2), case.train)
    size, chosen = plan.size, sizes_chosen(plan)
    solvers = [Sketch(each) for each in sorted({*case.sizes, *chosen.values()}, reverse=True)]
    for stated in audits:
        for line in compared(case, stated, solvers):
            where = " ".join(device for device, each in chosen.items() if each == line["size"])
            yield {"parameters": size.d, "rows": size.n, "outputs": size.k, "planned": where, **line}


def sizes_chosen(plan: Plan) -> dict[str, int]:
    """The size that is chosen on a CPU and on a GPU; neither where the solve is exact there."""
    count, d = plan.size.n * plan.size.k, plan.size.d
    devices = [each for each in (torch.device("cpu"), torch.device("cuda")) if beyond(count, d, each)]
    return {each.type: affordable_size(count, d, each) for each in devices}


def main() -> None:
    """Measure the cases that are asked for, and put their lines in place of older ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", default=list({data: None for data, _ in CASES}), help="in this order")
    parser.add_argument("--network", help="of this name alone")
    parser.add_argument("--audit", choices=AUDITS, help="this one alone; the exact default audit takes long")
    parser.add_argument("--out", type=Path, default=PAGE)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    known = list(csv.DictReader(asked.out.open())) if asked.out.exists() else []
    audits = (AUDITS[asked.audit],) if asked.audit else (True, False)
    replaced = [name for name, stated in AUDITS.items() if stated in audits]
    wanted = [key for data in asked.data for key in CASES if key[0] == data and asked.network in (None, key[1])]
    for data, network in wanted:
        started = time.perf_counter()
        try:
            lines = [{"data": data, "network": network, **line} for line in measured(CASES[data, network](), audits)]
        except (rue.errors.RueError, RuntimeError) as error:  # what one machine cannot do, another may
            print(f"{data}, {network}: {error}", flush=True)
            continue
        kept = [line for line in known if (line["data"], line["network"]) != (data, network)]
        known = kept + [line for line in known if line not in kept and line["audit"] not in replaced] + lines
        order = list(CASES)
        write(asked.out, sorted(known, key=lambda line: order.index((line["data"], line["network"]))))
        for line in lines:
            print(*line.values(), sep=", ")
        print(f"{time.perf_counter() - started:.0f} s on {faithful_cases.DEVICE}", flush=True)


def write(page: Path, lines: list[dict[str, Any]]) -> None:
    """The lines as a table."""
    with page.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(lines)


if __name__ == "__main__":
    main()
