"""Identity and provenance: what was audited, with which software, and the changes since an earlier report."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

from rue.auditing.trained import Trained
from rue.reports import fingerprints
from rue.reports.blocks import Block, Section, fact, facts, section, text
from rue.reports.case import Case
from rue.reports.estimates import RESAMPLES, SEED
from rue.reports.phrases import rows

REPORT_ID = "Report id"
NO_PREVIOUS = "No previous audit was given to compare with."
NOTE = (
    "SHA-256 of the JSON beside the page in UTF-8, without `created`, with null here, keys sorted at every level, no "
    "spaces between tokens and no final newline"
)


def identity(case: Case) -> Section:
    """Hashes, versions, seeds and sizes; the changes since an earlier report are added by `document`."""
    size = rows(case.auditor.facts["d"], "parameter")
    known = f"a model of {size}" if case.auditor.model.family.gradients else "a model known by its predictions alone,"
    what = f"networks of {size} that the method trained itself" if case.own_networks else f"{known} trained"
    lead = (
        f"{case.auditor.method} of {what} on {rows(case.n)}, "
        f"made for {rows(case.m, 'prediction')}. The hashes say whether another report is of the same weights and data."
    )
    return section(
        "identity",
        "Identity and provenance",
        lead,
        [
            facts("report", _report(case)),
            facts("fingerprints", hashes(case)),
            facts("versions", _versions()),
            *([text("previous", NO_PREVIOUS)] if case.asked.previous is None else []),
        ],
    )


def hashes(case: Case) -> list[Block]:
    """The hashes of weights, training data and audited data."""
    trained = case.auditor.trained
    data = None if trained is None else fingerprints.training(trained.data)
    settings, note = "", "SHA-256 in float64, with their names"
    outside = trained is not None and not case.auditor.model.family.gradients
    if outside:
        note = "SHA-256 in float64 of what the model says of its training rows: its weights are not known"
    if case.own_networks:
        settings = case.auditor.facts["method"]
        note += ": of the wrapped module; the method's own networks are told by its settings and seed, hashed with it"
    own = (
        fingerprints.predictions(case.auditor.model, trained.data)
        if trained is not None and outside
        else fingerprints.weights(case.auditor.model, settings)
    )
    with_targets = "inputs and targets" if case.targets is not None else "inputs, without targets"
    return [
        fact("Weights", own, note, code=True),
        fact("Training data", data, f"SHA-256 of n = {case.n} rows with their weights and units", code=True),
        fact(
            "Audited data",
            fingerprints.audited(case.inputs, case.targets, case.auditor.model),
            f"SHA-256 of n = {rows(case.m)}, {with_targets}",
            code=True,
        ),
    ]


def _report(case: Case) -> list[Block]:
    info = case.auditor.facts
    units, own = info["units"], case.own_networks
    return [
        fact(REPORT_ID, None, NOTE, code=True),
        fact("Method", info["method"], code=True),
        fact("Model", _model(info), "its architecture: the method trained networks of its own" if own else None),
        fact("Training rows", case.n),
        fact("Resampling units", units, "each row by itself" if units == case.n else "groups of rows"),
        fact("Parameters", info["d"] or "not known", _projected(info)),
        fact("Audited rows", case.m),
        *([fact("Held-out rows that calibrated the audit", info["held_out"])] if info.get("held_out") else []),
        fact("Precision and device", f"{info.get('dtype', 'not known')} on {info.get('device', 'not known')}"),
        fact("Seeds", f"method {_seed(case.auditor.trained)}; bootstrap of this report {SEED}, {RESAMPLES} resamples"),
    ]


def _versions() -> list[Block]:
    packages = {"rue": _version("rue"), "torch": torch.__version__, "numpy": np.__version__}
    return [fact(name, number) for name, number in {**packages, "Python": platform.python_version()}.items()]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree
        return "not installed"


def _model(info: dict[str, Any]) -> str:
    if info.get("trees"):
        return f"{info.get('estimator', 'ensemble')} of {rows(info['trees'], 'tree')}"
    return str(info.get("estimator", "torch module"))


def _projected(info: dict[str, Any]) -> str | None:
    return f"seen along {info['projected_to']} directions" if info.get("projected_to") else None


def _seed(trained: Trained | None) -> str:
    return "none needed" if trained is None or trained.seed is None else str(trained.seed)
