"""`rue paper`: compute what is missing, write tables and figures, and compare them with the paper."""

import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

import torch
from rich.console import Console

from rue.core.errors import SettingError
from rue.core.files import write_whole
from rue_paper import beyond, claim1, coverage, fidelity, figure1, figure2, page, shift, table1
from rue_paper.parts import AUDIT_SEED, PARTS
from rue_paper.protocol import REGIONS, Protocol, how_many_lack, nine_tenths, protocols
from rue_paper.results import Results, gather
from rue_paper.work import Piece, Plan, compute, seconds

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

INTEGRATED = ("pbp", "dropout", "ensembles")
Scope = Protocol | Literal["nine tenths"]  # "nine tenths" is one protocol for small data sets, another for large ones
READS: dict[str, dict[Scope, tuple[str, ...]]] = {  # the parts that each output reads, by protocol
    "figure1": {},
    "claim1": {},
    "figure2": {"paper": ("networks", "refits", "audits", "calibrated")},
    "fidelity": {"paper": ("networks", "refits", "audits", "calibrated")},
    "table1": {
        "paper": ("networks", "refits", "audits", "calibrated", *INTEGRATED),
        "standard": ("networks", "likelihoods", *INTEGRATED),
    },
    "coverage": {"paper": ("networks", "retrained", "conformal", "intervals")},
    "beyond": {
        "nine tenths": ("beyond", "ensembles"),
        "paper": ("networks", "calibrated"),
        "gap": ("shifted",),
        "tail": ("shifted",),
    },
}


@dataclass(frozen=True)
class Output:
    """Where results go: CSV, PNG, SVG in a folder, and pieces of a Markdown page."""

    plan: Plan
    console: Console

    def table(self, name: str, frame: "pd.DataFrame") -> None:
        """Write a CSV."""
        self.text(f"{name}.csv", frame.to_csv(index=False, float_format="%.6g"))

    def text(self, name: str, content: str) -> None:
        """Write a file of text."""
        write_whole({self.plan.out / name: content.encode()})

    def figure(self, name: str, figure: "Figure") -> None:
        """Write a picture, for pages and for print."""
        png, svg = BytesIO(), BytesIO()
        figure.savefig(png, dpi=150, format="png")
        figure.savefig(svg, metadata={"Date": None}, format="svg")
        write_whole({self.plan.out / f"{name}.png": png.getvalue(), self.plan.out / f"{name}.svg": svg.getvalue()})
        self.console.print(f"wrote {self.plan.out / name}.png")


def run(what: str, plan: Plan, console: Console) -> None:
    """Make one of the paper's figures or tables, or `all`."""
    chosen = tuple(READS) if what == "all" else (what,)
    if what != "all" and what not in READS:
        raise SettingError(f"there is no {what!r} in the paper's experiments; choose from {', '.join(READS)} or all")
    plan.out.mkdir(parents=True, exist_ok=True)
    _say_what_is_replaced(plan, console)
    start = time.perf_counter()
    wanted = needed(plan, chosen)
    fresh = compute(plan, wanted, console)
    results = gather(plan, wanted)
    output = Output(plan, console)
    for name in chosen:
        MAKERS[name](output, results)
    facts = _facts(plan, wanted, time.perf_counter() - start, fresh)
    output.text("facts.json", json.dumps(facts, indent=2) + "\n")
    output.text("page.md", page.write(plan.out, chosen))
    page.show(plan.out, chosen, console)
    console.print(f"\nTables, figures and [bold]page.md[/] are in {plan.out} after {facts['wall_seconds']:.0f} s.")


def needed(plan: Plan, outputs: Sequence[str]) -> list[Piece]:
    """Every piece of work behind some outputs, once."""
    pieces = [
        Piece(nine_tenths(name) if scope == "nine tenths" else scope, name, part)
        for output in outputs
        for scope, parts in READS[output].items()
        for part in parts
        for name in plan.names
    ]
    return [piece for piece in dict.fromkeys(pieces) if piece.protocol in protocols(piece.name)]


def _figure1(output: Output, _: Sequence[Results]) -> None:
    result = figure1.compute()
    output.table("figure1", figure1.table(result))
    output.figure("figure1", figure1.draw(result))


def _claim1(output: Output, _: Sequence[Results]) -> None:
    result = claim1.compute()
    output.table("claim1", claim1.table(result))
    output.figure("claim1", claim1.draw(result))
    output.text("claim1.txt", "\n".join(claim1.findings(result)) + "\n")


def _figure2(output: Output, results: Sequence[Results]) -> None:
    audited = [result for result in results if result.protocol == "paper"]
    frame = figure2.table(audited, figure2.METHODS)
    output.table("figure2", frame)
    output.figure("figure2", figure2.draw(frame, figure2.PAPER))
    output.figure("figure2_more", figure2.draw(frame, figure2.MORE))


def _fidelity(output: Output, results: Sequence[Results]) -> None:
    audited = [result for result in results if result.protocol == "paper"]
    frame = fidelity.table(audited)
    output.table("fidelity", frame)
    output.table("costs", fidelity.costs(audited))
    output.figure("fidelity", fidelity.draw(frame))


def _table1(output: Output, results: Sequence[Results]) -> None:
    output.table("table1", table1.table([result for result in results if result.protocol not in REGIONS]))


def _coverage(output: Output, results: Sequence[Results]) -> None:
    frame = coverage.table([result for result in results if result.protocol == "paper"])
    output.table("coverage", frame)
    output.figure("coverage", coverage.draw(frame))


def _beyond(output: Output, results: Sequence[Results]) -> None:
    plan = output.plan
    trained = [result for result in results if result.protocol == nine_tenths(result.name)]
    frame, costs = beyond.table(trained), beyond.costs(trained)
    output.table("beyond", frame)
    output.table("beyond_costs", costs)
    output.figure("beyond", beyond.draw(frame, costs))
    features = shift.table([result for result in results if result.protocol in REGIONS])
    lacking = {(region, name): how_many_lack(name, region, plan.folder) for region in REGIONS for name in plan.names}
    medians = shift.summary(features, [result for result in results if result.protocol == "paper"], lacking)
    output.table("shift_features", features)
    output.table("shift", medians)
    output.figure("shift", shift.draw(medians))


MAKERS: dict[str, Callable[[Output, Sequence[Results]], None]] = {
    "figure1": _figure1,
    "claim1": _claim1,
    "figure2": _figure2,
    "fidelity": _fidelity,
    "table1": _table1,
    "coverage": _coverage,
    "beyond": _beyond,
}


def _say_what_is_replaced(plan: Plan, console: Console) -> None:
    """Warn that tables of another run in the same folder are overwritten; its finished splits are kept."""
    before = plan.out / "facts.json"
    if not before.exists():
        return
    facts = json.loads(before.read_text())
    own = (list(plan.names), plan.splits, plan.split_seed)
    if (facts["data"], facts["splits"], facts["split_seed"]) != own:
        console.print(
            f"[yellow]Tables in {plan.out} were made with {facts['splits']} splits (seed {facts['split_seed']}) of "
            f"{', '.join(facts['data'])} and are replaced; use --out to keep them.[/]"
        )


def _facts(plan: Plan, wanted: Sequence[Piece], wall: float, fresh: int) -> dict[str, Any]:
    """The facts needed to repeat the run: versions, seeds, device and times."""
    import numpy as np
    import scipy
    import sklearn

    used = dict.fromkeys(piece.part for piece in wanted)
    return {
        "data": list(plan.names),
        "splits": plan.splits,
        "split_seed": plan.split_seed,
        "seeds": f"split i: networks, refits and integrated methods have the seed i, audits {AUDIT_SEED} + i",
        "device": torch.cuda.get_device_name() if plan.device.startswith("cuda") else "cpu",
        "processes": plan.workers,
        "wall_seconds": round(wall, 1),
        "resumed": fresh < sum(piece.splits(plan) for piece in wanted),
        "seconds_by_part": {part: round(value, 1) for part, value in seconds(plan, wanted).items()},
        "settings": {part: PARTS[part].settings for part in used},
        "versions": {
            "rue": version("rue"),
            "python": platform.python_version(),
            **{m.__name__: m.__version__ for m in (torch, np, scipy, sklearn)},
        },
    }
