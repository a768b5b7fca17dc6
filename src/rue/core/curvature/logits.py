"""Softmax logits: adding one number to all of them changes no probability, so only their differences matter.

Changes of the parameters that raise all logits equally do not change the loss: they are flat directions of the
curvature. There are as many of them as there are parameters for one logit.
"""

from rue.core.concepts import Objective, TrainingSet
from rue.core.derivatives import outputs
from rue.core.nested import take


def logits(model: Objective, data: TrainingSet) -> int:
    """The number of such logits; 0 for models without softmax."""
    if model.family.decision != "largest":
        return 0
    return outputs(model, take(next(iter(data.batches())).inputs, slice(0, 1))).shape[1]
