"""The parts of the paper's experiments that compute: each a function over some splits of a data set at once."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from rue.auditing.result import Audit
from rue.cli.paper_network import ALPHA, HIDDEN, RECIPE, paper_network, train, train_many
from rue.core.arrays import Array
from rue.core.errors import RueWarning
from rue.core.model import Model
from rue.core.resample import untouched
from rue.methods import METHODS, CalibratedRUE, Homoscedastic
from rue.methods.integrated import PBP, DeepEnsemble, MCDropout, RefitBootstrap
from rue.methods.integrated.architecture import flat
from rue.methods.integrated.training import Adam
from rue.models import wrap
from rue_paper.chosen_network import CROWDED, PENALTIES, RULE, TRAINING, chosen, tried
from rue_paper.intervals import HELD_OUT, LEVELS, MOST, hold_out, with_held_out, without_held_out
from rue_paper.protocol import SMALL_SAMPLE, SplitProblem

Arrays = dict[str, Array]  # the results of a part for one split, by name
Run = Callable[[Sequence[SplitProblem], Sequence[Mapping[str, Array]]], list[Arrays]]

REFITS = 50
AUDIT_SEED = 1000  # added to the split's number, so that audits do not draw the same weights as the refits
LITTLE = 1e-3  # the penalty of networks that are regularised in another way
AUDITS = (  # a method joins the experiments here, not by being listed in METHODS
    "CalibratedRUE",
    "RUE",
    "LinearRUE",
    "Laplace",
    "Laplace, linearised",
    "Bootstrap SGD",
    "Kernel density",
    "Nearest neighbours, distance",
    "Nearest neighbours, residual",
    "Error model",
    "Homoscedastic",
)
CALIBRATED = ("CalibratedRUE", "Error model")  # the methods that leave rows out: a separate part
ONE, ONE_CONSTANT, BESIDE = "One network, calibrated", "One network, constant noise", "DeepEnsemble, same rule"
SHIFTED = ("CalibratedRUE", "RUE", "LinearRUE", "Homoscedastic")  # the methods that audit regions without training rows
PLAIN = tuple(name for name in AUDITS if name not in CALIBRATED)
WITH_NLL = tuple(name for name in PLAIN if name not in ("Kernel density", "Nearest neighbours, distance"))


@dataclass(frozen=True)
class Part:
    """A computation over splits, its settings, the number of splits at once, and the parts whose results it reads."""

    run: Run
    settings: str
    at_once: int  # on a CPU; a GPU takes all splits at once
    needs: str | None = None


def networks(problems: Sequence[SplitProblem], _: Sequence[Mapping[str, Array]]) -> list[Arrays]:
    """The paper's network of every split, trained as one batched model: theta (d,)."""
    nets = train_many([(p.X, p.y) for p in problems], [p.split for p in problems])
    return [{"theta": flat(net).cpu().numpy()} for net in nets]


def audits(names: Sequence[str]) -> Run:
    """The paper's network audited by these methods."""

    def run(problems: Sequence[SplitProblem], trained: Sequence[Mapping[str, Array]]) -> list[Arrays]:
        return [_audit(problem, own["theta"], names) for problem, own in zip(problems, trained, strict=True)]

    return run


def refits(problems: Sequence[SplitProblem], trained: Sequence[Mapping[str, Array]]) -> list[Arrays]:
    """The paper's network really trained on resampled rows, and how long one takes when trained alone."""
    method = RefitBootstrap(members=REFITS, seed=problems[0].split, training=RECIPE)
    models = [_trained(problem, own["theta"]) for problem, own in zip(problems, trained, strict=True)]
    start = time.perf_counter()
    auditors = method.fit_many(models, [(p.X, p.y) for p in problems])
    seconds = (time.perf_counter() - start) / len(problems)
    alone = _seconds_of_one(problems[0]) if problems[0].split == 0 else np.nan
    results = []
    for problem, auditor in zip(problems, auditors, strict=True):
        arrays = _in_units(problem, auditor.audit(problem.X_new), "Refit bootstrap")
        results.append({**arrays, "seconds_refits": np.array(seconds), "seconds_alone": np.array(alone)})
    return results


def retrained(problems: Sequence[SplitProblem], _: Sequence[Mapping[str, Array]]) -> list[Arrays]:
    """The paper's network of every split, trained without the rows that conformal intervals hold out."""
    return [{"retrained": own["theta"]} for own in networks([hold_out(problem).kept for problem in problems], ())]


def conformal(problems: Sequence[SplitProblem], trained: Sequence[Mapping[str, Array]]) -> list[Arrays]:
    """The coverage of split conformal intervals, around the networks trained without the held-out rows."""
    results = []
    for problem, own in zip(problems, trained, strict=True):
        parted = hold_out(problem)
        model = _trained(parted.kept, own["retrained"])
        results.append(with_held_out(parted, model, CalibratedRUE(seed=AUDIT_SEED + problem.split)))
    return results


def intervals(problems: Sequence[SplitProblem], trained: Sequence[Mapping[str, Array]]) -> list[Arrays]:
    """The coverage of intervals without held-out rows, around the paper's networks."""
    return [
        without_held_out(problem, _trained(problem, own["theta"]), CalibratedRUE(seed=AUDIT_SEED + problem.split))
        for problem, own in zip(problems, trained, strict=True)
    ]


def integrated(method: Callable[[int], Any]) -> Run:
    """A method that trains networks, on the architecture of its publication: 50 rectified units."""

    def run(problems: Sequence[SplitProblem], _: Sequence[Mapping[str, Array]]) -> list[Arrays]:
        models = [wrap(_rectified(p), loss="squared_error", l2=LITTLE) for p in problems]
        start = time.perf_counter()
        settings = replace(method(len(problems[0].y)), seed=problems[0].split)  # the i-th split has the seed i
        auditors = settings.fit_many(models, [(p.X, p.y) for p in problems])
        seconds = np.array((time.perf_counter() - start) / len(problems))
        name = type(settings).__name__
        return [
            {**_in_units(problem, auditor.audit(problem.X_new), name), f"{name}/seconds": seconds}
            for problem, auditor in zip(problems, auditors, strict=True)
        ]

    return run


def beyond(problems: Sequence[SplitProblem], _: Sequence[Mapping[str, Array]]) -> list[Arrays]:
    """One network with the penalty that leave-one-out prefers, audited, and a deep ensemble under the same rule."""
    return [_one_network(problem) | _beside(problem) for problem in problems]


def shifted(problems: Sequence[SplitProblem], _: Sequence[Mapping[str, Array]]) -> list[Arrays]:
    """The paper's network, trained without a region of a feature, audited there."""
    results = []
    for problem in problems:
        (own,) = networks([problem], ())
        results.append(_audit(problem, own["theta"], SHIFTED) | {"feature": np.array(problem.feature)})
    return results


def _one_network(problem: SplitProblem) -> Arrays:
    start = time.perf_counter()
    trials = tried(problem.X, problem.y, problem.split)
    best = chosen(trials)
    trained = time.perf_counter()
    method = CalibratedRUE(seed=AUDIT_SEED + problem.split)
    audit = method.fit(best.model, (problem.X, problem.y)).audit(problem.X_new)
    audited = time.perf_counter()
    constant = Homoscedastic().fit(best.model, (problem.X, problem.y)).audit(problem.X_new)
    return {
        **_in_units(problem, audit, ONE),
        **_in_units(problem, constant, ONE_CONSTANT),
        f"{ONE}/l2": np.array(best.l2),
        f"{ONE}/seconds": np.array(audited - start),
        f"{ONE}/seconds_audit": np.array(audited - trained),
        f"{ONE}/trials": np.array([[t.l2, t.left_out, t.effective_share, t.passes] for t in trials]),
    }


def _beside(problem: SplitProblem) -> Arrays:
    """The ensemble as published, but with another end of training; the time is that of training alone."""
    model = wrap(_rectified(problem), loss="squared_error", l2=LITTLE)
    start = time.perf_counter()
    auditor = replace(SAME_RULE, seed=problem.split).fit(model, (problem.X, problem.y))
    seconds = time.perf_counter() - start
    return {**_in_units(problem, auditor.audit(problem.X_new), BESIDE), f"{BESIDE}/seconds": np.array(seconds)}


def _audit(problem: SplitProblem, theta: Array, names: Sequence[str]) -> Arrays:
    model = _trained(problem, theta)
    arrays: Arrays = {}
    for name in names:
        method = METHODS[name]()
        if hasattr(method, "seed"):
            method = replace(method, seed=AUDIT_SEED + problem.split)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RueWarning)  # on sampled members that drift: counted below
            audit = method.fit(model, (problem.X, problem.y)).audit(problem.X_new)
        seconds = audit.facts["seconds_fit"] + audit.facts["seconds_audit"]
        arrays |= _in_units(problem, audit, name)
        arrays |= {f"{name}/seconds": np.array(seconds), f"{name}/warnings": np.array(len(audit.facts["warnings"]))}
    return arrays


def _in_units(problem: SplitProblem, audit: Audit, name: str) -> Arrays:
    """Prediction and spread in the units of the target; the score too, where it is in them."""
    scale = float(problem.units.scale)
    in_units = audit.std is not None or audit.noise_std is not None
    arrays = {
        f"{name}/prediction": audit.prediction * scale + problem.units.mean,
        f"{name}/score": audit.score * scale if in_units else audit.score,
    }
    if audit.std is not None:
        arrays[f"{name}/std"] = audit.std * scale
    if audit.total_std is not None:
        arrays[f"{name}/total_std"] = audit.total_std * scale
        arrays[f"{name}/degrees"] = np.array(audit.degrees)
    if audit.scarce is not None:
        arrays[f"{name}/scarce"] = audit.scarce.astype(np.float64)
    return arrays


def _trained(problem: SplitProblem, theta: Array) -> Model:
    net = paper_network(problem.X.shape[1], problem.split).to(problem.X.device)
    nn.utils.vector_to_parameters(torch.tensor(theta).to(problem.X), net.parameters())
    return wrap(net, loss="squared_error", l2=ALPHA)


def _rectified(problem: SplitProblem) -> nn.Module:
    with untouched():
        net = nn.Sequential(nn.Linear(problem.X.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
    return net.to(problem.X.device)


def _seconds_of_one(problem: SplitProblem) -> float:
    """One training alone, as 50 refits one after another would need each."""
    net = paper_network(problem.X.shape[1], problem.split).to(problem.X.device)
    start = time.perf_counter()
    train(net, problem.X, problem.y, problem.split, RECIPE.epochs)
    return time.perf_counter() - start


def _epochs(n: int, steps: int, batch: int) -> int:
    """The epochs that make about as many steps for every size of the training set."""
    return max(1, round(steps * batch / n))


# The recipes of the next two were picked from about a dozen by looking at the test rows of these data sets.
def _dropout(n: int) -> MCDropout:
    return MCDropout(training=Adam(_epochs(n, 2_000, 128), 128, 0.02, decay=True))


def _ensemble(n: int) -> DeepEnsemble:  # 40 epochs, batches of 100 and the adversarial step are the publication's
    return DeepEnsemble(training=Adam(max(40, _epochs(n, 2_000, 100)), 100, 0.01), adversarial=0.01)


# 2 000 epochs are a bound that no training should reach
SAME_RULE = DeepEnsemble(training=Adam(2_000, 100, 0.01, settled=RULE), adversarial=0.01)


def _pbp(n: int) -> PBP:  # noqa: ARG001  one recipe for every size, as published
    return PBP()


def _at_sizes(method: Callable[[int], Any]) -> str:
    """A method's settings in words, at a small, a medium and a large training set."""
    return "; ".join(f"n = {n}: {method(n)!r}, l2 {LITTLE:g}" for n in (300, 600, 10_000))


def _listed(names: Sequence[str]) -> str:
    return "; ".join(repr(METHODS[name]()) for name in names)


_NETWORK = f"{HIDDEN} hidden units, l2 {ALPHA:g}, {RECIPE!r}, {SMALL_SAMPLE} rows of large sets"
_BEYOND = f"penalties {PENALTIES}, {TRAINING!r}, at most {CROWDED} effective parameters a row, {CalibratedRUE()!r}"
_INTERVALS = f"{CalibratedRUE()!r}, levels {LEVELS}, {MOST} test rows"

PARTS: dict[str, Part] = {
    "networks": Part(networks, _NETWORK, at_once=20),
    "pbp": Part(integrated(_pbp), _at_sizes(_pbp), at_once=20),
    "dropout": Part(integrated(_dropout), _at_sizes(_dropout), at_once=10),
    "ensembles": Part(integrated(_ensemble), _at_sizes(_ensemble), at_once=10),
    "beyond": Part(beyond, f"{_BEYOND}; {SAME_RULE!r}", at_once=1),
    "shifted": Part(shifted, f"{_NETWORK}; {_listed(SHIFTED)}", at_once=1),
    "likelihoods": Part(audits(WITH_NLL), _listed(WITH_NLL), at_once=1, needs="networks"),
    "refits": Part(refits, f"{REFITS} refits", at_once=4, needs="networks"),
    "audits": Part(audits(PLAIN), _listed(PLAIN), at_once=1, needs="networks"),
    "calibrated": Part(audits(CALIBRATED), _listed(CALIBRATED), at_once=1, needs="networks"),
    "retrained": Part(retrained, f"{_NETWORK}, {HELD_OUT:.0%} of the rows held out", at_once=20),
    "conformal": Part(conformal, _INTERVALS, at_once=1, needs="retrained"),
    "intervals": Part(intervals, _INTERVALS, at_once=1, needs="networks"),
}
