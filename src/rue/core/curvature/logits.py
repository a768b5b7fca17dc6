"""Outputs of which only differences matter: all logits of softmax may rise together, and no probability moves.

Parameters that raise all logits alike are then flat directions of the data's part of a curvature, as many as there
are parameters for one logit.
"""

from rue.core.concepts import Objective, TrainingSet
from rue.core.derivatives import outputs
from rue.core.nested import take


def logits(model: Objective, data: TrainingSet) -> int:
    """How many there are; 0 where every output counts by itself."""
    if model.family.decision != "largest":
        return 0
    return outputs(model, take(next(iter(data.batches())).inputs, slice(0, 1))).shape[1]
