"""Time and memory of fit and audit beside laplace-torch, literal loops and real refits, in one run.

`make bench` calls it. Every contender runs in its own process, one after the other, so that its peak memory
is its own; this process stays free of torch, because a child's peak starts at what its parent held.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
THREADS = 2
MOST_SECONDS = 900  # for one contender; then it is stopped and that is its result
MOST_GIB = 16
TOLERANCE = 1e-5  # agreement with laplace-torch in float64

HIDDEN = {"A": 50, "B": 1000}
LAPLACE_TORCH = tuple(f"laplace-torch, batches of {rows}" for rows in (512, 256, 128, 64))
FORWARD = ("forward passes, plain loop", "forward passes, member_outputs")
OURS = ("LinearRUE", "RUE, Gauss–Newton", "Laplace, linearised")
PLAN = {
    "A": (*OURS, "RUE, as in the paper", *LAPLACE_TORCH, "literal Algorithm 1", "real refits", *FORWARD),
    "B": (
        *OURS,
        LAPLACE_TORCH[0],
        "laplace-torch, fit 64, predict 512",
        "literal Algorithm 1",
        "real refits",
        *FORWARD,
    ),
}
CLOSED_FORM = "LinearRUE / laplace-torch in batches of 512"
CLOSED_FORM_BEST = "LinearRUE / laplace-torch in its fastest batches"
MEMBERS = "200 members / (LinearRUE + 200 forward passes)"
ROUNDS = {"A": 3, "B": 1}  # interleaved, so that a busy minute of the machine falls on every contender
COPIES = (1, 10, 40)  # of the audited rows, for the memory table
ALLOCATORS = {"as installed": {}, "returning freed blocks at once": {"MALLOC_MMAP_THRESHOLD_": "65536"}}

Results = dict[str, Any]
Rows = list[tuple[str, ...]]
Titled = tuple[str, tuple[str, ...], Rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="problem A only, one round, no files written")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder), quick)
    for title, header, rows in tables(results):
        show(title, header, rows)
    if not quick:
        (HERE / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        (HERE.parent / "docs" / "benchmarks.md").write_text(page(results))
    difference = results["agreement"]["laplace_float64"]
    if difference > TOLERANCE:
        print(f"linearised Laplace differs from laplace-torch by {difference:.1e}, more than {TOLERANCE:.0e}")
        return 1
    return 0


# Measuring


def measure(folder: Path, quick: bool) -> Results:
    problems = {}
    for letter in ("A",) if quick else ("A", "B"):
        file = str(folder / f"{letter}.pt")
        facts = needed({"job": "prepare", "path": file, "hidden": HIDDEN[letter]}, folder)
        contenders = compare(letter, file, folder, 1 if quick else ROUNDS[letter])
        problems[letter] = {**facts, "contenders": contenders}
    file = str(folder / "A.pt")
    memory = {
        name: [needed({"job": "memory", "problem": file, "copies": copies}, folder, extra) for copies in COPIES]
        for name, extra in ALLOCATORS.items()
    }
    return {
        "versions": {"python": sys.version.split()[0], **{p: version(p) for p in ("torch", "laplace-torch", "rue")}},
        "threads": THREADS,
        "problems": problems,
        "ratios": {
            letter: {
                "median": ratios(found["contenders"], median),
                "fastest": ratios(found["contenders"], min),
                "cpu": ratios(found["contenders"], median, "_cpu"),
            }
            for letter, found in problems.items()
        },
        "memory": memory,
        "agreement": needed({"job": "agreement", "problem": file}, folder),
    }


def compare(letter: str, file: str, folder: Path, rounds: int) -> Results:
    """Run every contender once a round; its runs are pooled, and its peak memory is the largest."""
    pooled: Results = {}
    for number in range(rounds):
        for name in PLAN[letter]:
            print(f"problem {letter}, round {number + 1} of {rounds}: {name}", flush=True)
            if "failed" in pooled.get(name, {}):
                continue
            found = alone({"job": "time", "problem": file, "name": name, "patience": 4.0}, folder)
            so_far = pooled.get(name)
            if so_far is None or "failed" in found:
                pooled[name] = found
            else:
                for key in ("fit", "audit", "fit_cpu", "audit_cpu"):
                    so_far[key] += found[key]
                so_far["peak_mib"] = max(so_far["peak_mib"], found["peak_mib"])
    return pooled


def alone(request: Results, folder: Path, extra: dict[str, str] | None = None) -> Results:
    """Have a fresh process do one job, within limits; what went wrong is an answer too."""
    reply, said = folder / "reply.json", folder / "said.txt"
    reply.unlink(missing_ok=True)
    threads = {"OMP_NUM_THREADS": str(THREADS), "MKL_NUM_THREADS": str(THREADS)}
    environment = {**os.environ, **threads, "RUE_PROGRESS": "0", **(extra or {})}
    command = [sys.executable, str(HERE / "contenders.py"), json.dumps(request), str(reply)]
    with said.open("w") as sink:
        process = subprocess.Popen(command, env=environment, stdout=sink, stderr=sink)
        stopped = watch(process)
    if stopped:
        return {"failed": stopped}
    if process.returncode:
        return {"failed": (said.read_text().strip().splitlines() or ["no message"])[-1][:160]}
    return json.loads(reply.read_text())


def watch(process: subprocess.Popen[bytes]) -> str | None:
    """Wait for the end, or stop what takes too long or too much memory."""
    start = time.monotonic()
    while process.poll() is None:
        time.sleep(0.05)
        reason = None
        if time.monotonic() - start > MOST_SECONDS:
            reason = f"stopped after {MOST_SECONDS} s"
        elif resident_gib(process.pid) > MOST_GIB:
            reason = f"stopped at {MOST_GIB} GiB of memory"
        if reason:
            process.kill()
            process.wait()
            return reason
    return None


def resident_gib(pid: int) -> float:
    try:
        return psutil.Process(pid).memory_info().rss / 2**30
    except psutil.NoSuchProcess:
        return 0.0


def needed(request: Results, folder: Path, extra: dict[str, str] | None = None) -> Results:
    """A job without which there is nothing to report."""
    print(", ".join(f"{key} {value}" for key, value in request.items() if key in ("job", "hidden", "copies")))
    found = alone(request, folder, extra)
    if "failed" in found:
        raise SystemExit(f"{request['job']} failed: {found['failed']}")
    return found


# Ratios


def ratios(contenders: Results, pick: Any, clock: str = "") -> dict[str, float]:
    """Of fit plus audit, by the median or the fastest run; a contender that did not finish has none."""
    total = {name: pick(totals(found, clock)) for name, found in contenders.items() if "failed" not in found}
    closed = total["LinearRUE"]
    forward = min(pick(contenders[way]["audit" + clock]) for way in FORWARD)
    theirs = min((seconds for name, seconds in total.items() if name.startswith("laplace-torch")), default=None)
    compared = {
        CLOSED_FORM: (closed, total.get(LAPLACE_TORCH[0])),
        CLOSED_FORM_BEST: (closed, theirs),
        "Laplace, linearised / laplace-torch in its fastest batches": (total["Laplace, linearised"], theirs),
        MEMBERS: (total["RUE, Gauss–Newton"], closed + forward),
        "LinearRUE / literal Algorithm 1": (closed, total.get("literal Algorithm 1")),
        "LinearRUE / 200 real refits": (closed, total.get("real refits")),
    }
    return {name: above / below for name, (above, below) in compared.items() if below is not None}


def totals(contender: Results, clock: str = "") -> list[float]:
    """Fit plus audit of every run, in seconds."""
    both = zip(contender["fit" + clock], contender["audit" + clock], strict=True)
    return [fit + audit for fit, audit in both]


# Tables


def tables(results: Results) -> list[Titled]:
    problems = [problem_table(letter, found) for letter, found in results["problems"].items()]
    return [*problems, ratio_table(results["ratios"]), memory_table(results["memory"])]


def problem_table(letter: str, problem: Results) -> Titled:
    title = f"Problem {letter}: d = {problem['d']:,}, n = {problem['n']:,}, m = {problem['m']:,}"
    header = ("contender", "fit, s", "audit, s", "total, s", "lowest – highest", "runs", "memory, MiB", "median std")
    rows = [contender_row(name, found) for name, found in problem["contenders"].items()]
    return title, header, rows


def contender_row(name: str, found: Results) -> tuple[str, ...]:
    label = f"200 real refits (2 timed, × {found['times']})" if found.get("times", 1) > 1 else name
    if "failed" in found:
        return (label, "–", "–", found["failed"], "–", "–", "–", "–")
    runs = str(len(found["fit"])) + ("" if found["warmed_up"] else ", no warm-up")
    memory = f"{found['peak_mib'] - found['before_mib']:,.0f}"
    spread = f"{found['median_std']:.4f}"
    if name in FORWARD:  # its fit is that of RUE, which is timed elsewhere
        span = (min(found["audit"]), max(found["audit"]))
        return (label, "–", seconds(median(found["audit"])), "–", " – ".join(map(seconds, span)), runs, memory, spread)
    total = totals(found)
    span = " – ".join(map(seconds, (min(total), max(total))))
    parts = (median(found["fit"]), median(found["audit"]), median(total))
    return (label, *map(seconds, parts), span, runs, memory, spread)


def ratio_table(found: Results) -> Titled:
    targets = {CLOSED_FORM: "at most 0.3", MEMBERS: "at most 2"}
    rows = [
        (
            letter,
            name,
            *(number(by[way][name]) for way in ("median", "fastest", "cpu")),
            targets.get(name, "–") if letter == "A" else "–",
        )
        for letter, by in found.items()
        for name in by["median"]
    ]
    header = ("problem", "ratio", "by medians", "by fastest runs", "by processor time", "target")
    return "Ratios of fit plus audit", header, rows


def memory_table(found: Results) -> Titled:
    rows = [
        (f"{run['m']:,}", allocator, *(f"{run[key]:,.1f}" for key in ("inputs_mib", "results_mib", "beyond_mib")))
        for allocator, runs in found.items()
        for run in runs
    ]
    header = ("audited rows m", "memory allocator", "inputs, MiB", "results, MiB", "beyond both, MiB")
    return "Memory of LinearRUE on problem A", header, rows


def seconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else number(value)


def number(value: float) -> str:
    """Three significant digits, never as a power of ten."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.001 else f"{value:.2g}"


def show(title: str, header: tuple[str, ...], rows: Rows) -> None:
    table = Table(title=title)
    for column in header:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    Console(width=150).print(table)


def markdown(header: tuple[str, ...], rows: Rows) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# The page


def page(results: Results) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    *problems, ratio, memory = tables(results)
    shown = "\n\n".join(f"### {title}\n\n{markdown(header, rows)}" for title, header, rows in problems)
    return PAGE.format(
        versions=versions,
        threads=results["threads"],
        problems=shown,
        ratios=markdown(*ratio[1:]),
        verdict=verdict(results["ratios"]["A"]["median"]),
        memory=markdown(*memory[1:]),
        growth=growth(results["memory"]),
        tolerance=f"{TOLERANCE:.0e}",
        **agreement_words(results["agreement"]),
        most_seconds=MOST_SECONDS,
        most_gib=MOST_GIB,
        gpu=gpu_words(),
        note=results.get("note", ""),
    )


def gpu_words() -> str:
    """The last run of gpu.py, wherever that was."""
    found = json.loads((HERE / "gpu.json").read_text())
    header = ("n", "d", "m", "contender", "fit, s", "audit, s", "memory, MiB", "solver")
    keys = ("n", "d", "m", "contender", "fit", "audit", "peak_mib", "solver")
    rows = [
        tuple(f"{row[key]:,}" if isinstance(row[key], int) else str(row[key]) for key in keys) for row in found["rows"]
    ]
    said = (
        f"`benchmarks/gpu.py` on one {found['device']}, torch {found['torch']}, float32 networks with random weights."
    )
    return f"{said}\n\n{markdown(header, rows)}"


def verdict(found: dict[str, float]) -> str:
    closed, best, members = (found.get(name) for name in (CLOSED_FORM, CLOSED_FORM_BEST, MEMBERS))
    if closed is None or best is None or members is None:
        return "Not every contender of problem A finished, so the targets could not be checked."
    return (
        f"On problem A the closed form took {number(closed)} of laplace-torch's time in batches of 512, so the target "
        f"of 0.3 was {met(closed <= 0.3)}. In the batches that suited laplace-torch best it took {number(best)}: by "
        f"that stricter measure the target was {met(best <= 0.3)}. Algorithm 1 with 200 members took "
        f"{number(members)} times the closed form plus its forward passes: the target of 2 was {met(members <= 2)}."
    )


def met(reached: bool) -> str:
    return "met" if reached else "missed"


def growth(memory: Results) -> str:
    said = []
    for allocator, runs in memory.items():
        first, last = runs[0], runs[-1]
        more, times = last["beyond_mib"] - first["beyond_mib"], last["m"] / first["m"]
        said.append(
            f"With the allocator {allocator}, {times:.0f} times the rows made a difference of {more:+.0f} MiB "
            "beyond inputs and results."
        )
    return " ".join(said)


def agreement_words(found: Results) -> dict[str, str]:
    return {
        "double": f"{found['laplace_float64']:.1e}",
        "single": f"{found['laplace_float32']:.1e}",
        "ratio": f"{found['members_median_ratio']:.3f}",
        "typical": f"{found['members_typical_difference']:.1%}",
        "extreme": f"{found['members_95th_difference']:.1%}",
        "linear_typical": f"{found['linearised_typical_difference']:.1%}",
        "linear_extreme": f"{found['linearised_95th_difference']:.1%}",
    }


PAGE = """\
# Benchmarks

This page is written by `make bench`; do not edit it by hand. The numbers behind it are in `benchmarks/results.json`.

## What was measured

A network with one hidden layer of softplus units and 8 inputs was trained on 600 rows of synthetic data (the
distance of a jointed arm's hand from a point, with noise, the shape of the Kin8nm data) by L-BFGS on
Σ ½(y − f)² + ½‖θ‖², in float32. Then 7,592 other rows were audited. Problem A has 50 hidden units, problem B 1,000.

- Every contender ran in a process of its own, one after the other, with {threads} threads on a CPU. After one
  warm-up it was repeated for a few seconds; the table has medians. On problem A all contenders were run in three
  rounds and their runs pooled. A contender whose warm-up took over a minute was not repeated.
- Seconds depend on the machine and on what else it is doing: read the ratios, and the range beside each median. A
  second set of ratios compares processor time, which suffers less from other work on the machine.
- *Fit* is everything before the audited rows are seen, wrapping the network included; *audit* is the rest.
  laplace-torch factors its matrix at the first prediction, so only its total compares with ours.
- *Memory* is the peak resident memory after one fit and audit, less the peak before it, with the libraries loaded.
- A contender was stopped after {most_seconds} s or at {most_gib} GiB.

| contender | what it does |
| --- | --- |
| LinearRUE | `rue.LinearRUE()`: the closed form, Gauss–Newton curvature, no damping beside the penalty |
| RUE, Gauss–Newton | `rue.RUE(members=200, curvature=GaussNewton(), damping=None)`: Algorithm 1, same curvature |
| RUE, as in the paper | `rue.RUE()`: Algorithm 1 with the Hessian and the paper's damping |
| Laplace, linearised | `rue.Laplace(linearised=True, curvature=GaussNewton(), damping=None)` |
| laplace-torch | `Laplace(net, "regression", subset_of_weights="all", hessian_structure="full", prior_precision=1.0, \
sigma_noise=1.0)` with its default backend, which is Gauss–Newton, and its default prediction, `pred_type="glm"` |
| literal Algorithm 1 | gradients row by row with autograd, the inverse written out, one member after another |
| real refits | training from scratch on resampled rows, Adam, 500 epochs of batches of 128; two were timed and the \
seconds multiplied by 100, so this line is an extrapolation |
| forward passes | only the 200 members' predictions, in a plain loop and by the library's own function |

laplace-torch and `Laplace, linearised` compute the same number. The others compute another one: the spread over
resampled training sets, not that of the posterior. The last column, the median standard deviation over the audited
rows, shows which contenders mean the same; sampled ones differ by their random numbers, and by the curve of the
network that the closed form leaves out.

laplace-torch differentiates a whole batch at once and forms the covariance of all parameters anew for every batch it
predicts, so the size of the batches matters to it, and at problem B the memory of its fit grows with that size.
Several sizes are shown.

## Time and memory

{problems}

## Ratios

{ratios}

{verdict}

The forward passes in that ratio are those of the faster of the two ways. A contender that was stopped has no ratio.

## Does memory grow with the number of audited rows?

{memory}

Peak resident memory of one fit and audit in a fresh process, less the peak before the fit and the bytes of the results.
{growth}

The second allocator setting is `MALLOC_MMAP_THRESHOLD_=65536`, which makes glibc give large blocks back to the system
when they are freed. What differs between the two settings is memory that was freed and not given back.

## Agreement

Linearised `Laplace` against laplace-torch's functional variance on the audited rows of problem A: largest relative
difference {double} in float64 (`make bench` fails above {tolerance}) and {single} in float32.

For information, the standard deviation of `RUE` with 2,000 members against that of `LinearRUE`: median ratio {ratio},
median difference {typical}, 95th percentile {extreme}. The same members through the linearised network differ by
{linear_typical} and {linear_extreme}: that much is sampling, and the rest is the network not being linear in its
parameters over the distance that members move.

## On a GPU

{gpu}

{note}

Versions: {versions}.
"""

if __name__ == "__main__":
    sys.exit(main())
