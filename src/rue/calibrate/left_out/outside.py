"""Left-out evidence for models that are known by their predictions only: witnesses fitted to the same rows."""

from dataclasses import dataclass

from rue.calibrate.left_out.evidence import Evidence, Own, Training
from rue.calibrate.left_out.forest import forest_witness
from rue.calibrate.left_out.honest import Mixed, mixed, share_of_first
from rue.calibrate.left_out.witness import QUICK, Witness, can_be_witnessed, witness
from rue.core.concepts import Objective
from rue.core.errors import ModelError, RueError
from rue.core.model import Model
from rue.core.nested import joined, leaves
from rue.data.rows import Rows


@dataclass(frozen=True)
class ForestWitness:
    """A random forest on the same rows; each row is predicted by the trees that have not drawn it."""

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:  # noqa: ARG002  as the others
        """Predict every unit with trees that were grown without it."""
        _admit(model)
        forest = forest_witness(model, data.sample, seed)
        return Evidence.of(model, data.sample, "witness", "as asked", forest.prediction, forest.says, forest.facts)


@dataclass(frozen=True)
class Witnesses:
    """A mixture of a forest and a kernel model, with the share that predicts left-out rows best."""

    def gather(self, model: Model, data: Rows, own: Own, seed: int, training: Training | None = None) -> Evidence:  # noqa: ARG002  as the others
        """Leave every unit out of both models."""
        return witnessed(model, data, seed, "as asked")


def witnessed(model: Model, data: Rows, seed: int, why: str) -> Evidence:
    """Evidence from both witnesses, mixed."""
    _admit(model)
    rows, decision = data.sample, model.family.decision
    forest, kernel = forest_witness(model, rows, seed), witness(model, rows, seed, QUICK)
    targets = leaves(joined([batch.targets for batch in rows.batches()]))[0]
    share = share_of_first(decision, forest.prediction, kernel.prediction, targets, rows.weight)
    prediction = mixed(decision, forest.prediction, kernel.prediction, share)
    honest = Mixed(forest.says, kernel.says, share, decision)
    facts = {"forest_share": share, **forest.facts, **kernel.facts}
    return Evidence.of(model, rows, "witnesses", why, prediction, honest, facts)


def kernel_beside(model: Objective, rows: Rows, seed: int) -> Witness | None:
    """A quick kernel model of the same rows; None if it cannot be fitted, as for rows of different lengths."""
    try:
        return witness(model, rows, seed, QUICK)
    except RueError:
        return None


def _admit(model: Model) -> None:
    if not can_be_witnessed(model):
        raise ModelError(
            "witnesses are compared with numbers under squared error, or with yes-or-no and one-of-k classes; use "
            "LinearRUE() for another loss"
        )
