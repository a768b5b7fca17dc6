"""How the audit was made: objective, curvature, damping and its reason, solver, weights of the terms."""

from math import inf
from typing import Any

from rue.auditing.meaning import MADE
from rue.reports.blocks import Block, Section, fact, facts, listed, section, table, text
from rue.reports.case import Case
from rue.reports.phrases import listing, number, rows


def method(case: Case) -> Section:
    """The facts of the fit."""
    info = case.auditor.facts
    lead = (case.auditor.meaning.made or MADE).format(method=case.auditor.method)
    if case.own_networks:
        lead = (
            f"{case.auditor.method} trained networks of its own on {rows(case.n)} and predicts with them: of the "
            "wrapped module it takes the architecture, not the trained weights."
        )
    blocks = [facts("fit", [*_objective(case, info), *_solve(case, info), *_calibration(info)])]
    if isinstance(info.get("weights"), dict):
        columns = {"term": ("Term", "text"), "weight": ("Weight", "number")}
        held = [{"term": name, "weight": weight} for name, weight in info["weights"].items()]
        caption = (
            f"Weights of the terms, chosen on {rows(info.get('calibrated_on', case.n))}, each predicted without itself"
        )
        blocks.append(table("weights", caption, columns, held))
    held_fixed = case.auditor.model.family.held_fixed
    if held_fixed:
        blocks.append(text("held-fixed", f"Held fixed: {held_fixed}."))
    blocks.append(_warnings(case))
    return section("method", "Method, damping and why", lead, blocks)


def _objective(case: Case, info: dict[str, Any]) -> list[Block]:
    l2 = info.get("l2")
    if case.own_networks:
        whose = "of the wrapped module; how the method trained stands in its settings, under identity"
        return [fact("Loss", info.get("loss"), whose), fact("L2 penalty", _numbers(l2), whose)]
    note = info.get("l2_reason") or (None if info.get("l2_given", True) else "none was given, taken as 0")
    items = [fact("Loss", info.get("loss")), fact("L2 penalty", _numbers(l2), note)]
    if info.get("penalty"):
        items.append(fact("Other penalty", info["penalty"]))
    if info.get("reduction"):
        items.append(fact("Objective", f"{info['reduction']} of the losses of the rows"))
    return items


def _solve(case: Case, info: dict[str, Any]) -> list[Block]:
    trained = case.auditor.trained
    curvature = None if trained is None or trained.curvature is None else repr(trained.curvature)
    items = [fact("Curvature", curvature, None if curvature else "this method has none", code=curvature is not None)]
    if trained is not None and trained.resampler is not None:
        items.append(fact("Training sets that might have been", repr(trained.resampler), code=True))
    if info.get("damping") is not None:
        items += _damping(case, info)
    items.append(fact("Solver", info.get("solver"), info.get("structure")))
    if case.audit.facts.get("residual") is not None:
        items.append(fact("Relative residual of the solves", case.audit.facts["residual"], "0 is exact"))
    if info.get("projected_to"):
        items.append(fact("Directions of the projection", info["projected_to"], f"of {info['d']} parameters"))
    return items


def _damping(case: Case, info: dict[str, Any]) -> list[Block]:
    """The damping; both, where a method uses another one for similarity and resampling."""
    used, trained = fact("Damping", info["damping"], info.get("damping_reason")), case.auditor.trained
    if not case.auditor.meaning.similarity_damped or trained is None or trained.inverted is None:
        return [used]
    base = trained.inverted.damped
    return [
        used | {"label": "Damping of similarity and resampling"},
        fact("Damping of residuals and leave-one-out", base.value, base.reason),
    ]


def _calibration(info: dict[str, Any]) -> list[Block]:
    labels = {
        "left_out": "Left-out predictions by",
        "effective_parameters": "Effective parameters",
        "effective_share": "Effective parameters for each training row",
        "temperature": "Temperature",
        "degrees": "Degrees of freedom of the predictive distribution",
        "left_out_nll": "Mean negative log likelihood of the left-out rows",
        "left_out_std": "Root mean squared left-out error",
        "held_out": "Held-out rows",
    }
    notes = {
        "left_out": info.get("left_out_why"),
        "effective_share": f"n = {info['n']}",
        "degrees": "infinite is Gaussian",
        "left_out_nll": f"n = {info.get('calibrated_on', info['n'])}",
        "left_out_std": f"n = {info['n']}",
    }
    given = ((key, info[key]) for key in labels if info.get(key) is not None)
    return [fact(labels[key], _numbers(value), notes.get(key)) for key, value in given]


def _numbers(value: Any) -> Any:
    if isinstance(value, tuple):
        return listing([number(each) for each in value])
    return "infinite" if value == inf else value


def _warnings(case: Case) -> Block:
    warnings = case.audit.facts["warnings"]
    if not warnings:
        return text("warnings", "The audit gave no warnings.")
    return listed("warnings", [f"Warning of the audit: {warning}." for warning in warnings])
