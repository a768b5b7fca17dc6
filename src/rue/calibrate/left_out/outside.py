"""Left-out evidence on a model that is seen from outside: by what it predicts, beside witnesses of the same rows."""

from dataclasses import dataclass

from rue.calibrate.left_out.evidence import Evidence, Own, Training
from rue.calibrate.left_out.forest import forest_witness
from rue.calibrate.left_out.honest import Mixed, mixed, share_of_first
from rue.calibrate.left_out.witness import QUICK, Witness, joined, witness
from rue.core.concepts import Objective
from rue.core.errors import ModelError, RueError
from rue.core.model import Model
from rue.core.nested import leaves
from rue.data.rows import Rows


@dataclass(frozen=True)
class ForestWitness:
    """A random forest of the same rows, each told by the trees that have not drawn it."""

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:  # noqa: ARG002  as the others
        """Leave every unit out of the trees that speak for it."""
        _admit(model)
        seen = forest_witness(model, data, seed)
        return Evidence.of(model, data, "witness", "as asked", seen.prediction, seen.says, seen.facts)


@dataclass(frozen=True)
class Witnesses:
    """A forest and a kernel model, in the shares under which left-out predictions of both together are best."""

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:  # noqa: ARG002  as the others
        """Leave every unit out of both."""
        return witnessed(model, data, seed, "as asked")


def witnessed(model: Model, data: Rows, seed: int, why: str) -> Evidence:
    """What both witnesses say of the rows they have not seen."""
    _admit(model)
    forest, kernel = forest_witness(model, data, seed), witness(model, data, seed, QUICK)
    decision = model.family.decision
    targets = leaves(joined([batch.targets for batch in data.batches()]))[0]
    share = share_of_first(decision, forest.prediction, kernel.prediction, targets, data.weight)
    prediction = mixed(decision, forest.prediction, kernel.prediction, share)
    honest = Mixed(forest.says, kernel.says, share, decision)
    facts = {"forest_share": share, **forest.facts, **kernel.facts}
    return Evidence.of(model, data, "witnesses", why, prediction, honest, facts)


def kernel_beside(model: Objective, data: Rows, seed: int) -> Witness | None:
    """A quick kernel model of the same rows; None where they are no points of one space, or it is not determined."""
    try:
        return witness(model, data, seed, QUICK)
    except RueError:
        return None


def can_be_witnessed(model: Model) -> bool:
    """Numbers, or classes whose probabilities the loss is of: outputs that are free of each other."""
    family = model.family
    return family.gaussian or (family.decision in ("largest", "signs") and family.likelihood)


def _admit(model: Model) -> None:
    if not can_be_witnessed(model):
        raise ModelError(
            "witnesses are compared with numbers under squared error, or with yes-or-no and one-of-k classes; use "
            "LinearRUE() for another loss"
        )
