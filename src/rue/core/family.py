"""What the outputs of a model mean, and how it was trained: whatever else the mathematics depends on."""

from dataclasses import dataclass
from typing import Literal

from rue.core.stored import storable

Decision = Literal["largest", "signs", "ordered", "shares"]
"""How outputs become classes. "largest": the largest of k logits wins. "signs": each logit decides a yes-or-no label.
"ordered": the class is the number of ordered logits above zero. "shares": the largest of k probabilities wins."""


Link = Literal["identity", "log"]
"""How a prediction follows from an output: it is the output itself, or its exponential (the output is its log)."""


@storable
@dataclass(frozen=True)
class Family:
    """The meaning of a model's outputs, and how the model was trained."""

    gaussian: bool = False  # the spread of the residuals is the noise of the predictive distribution
    decision: Decision | None = None  # for classifiers: how outputs become classes
    likelihood: bool = True  # for classifiers: the loss is a likelihood of class probabilities, not a margin loss
    coupled: bool = False  # the loss of a row depends on the other rows, so all rows are read together
    joint: bool = True  # the parameters minimise one objective; False for a mean of models trained separately
    gradients: bool = True  # parameters and gradients are available; False where only predictions are
    stationary: bool = True  # the gradient of loss plus penalty is zero; False for boosting and parameters at bounds
    grown: bool = False  # by boosting: every part corrects those before it, so other rows would grow other parts
    projected: bool = False  # the parameters move along random directions only: an approximation
    straight: bool = False  # outputs are linear in the parameters, and the Jacobian is what they are made with
    turned: bool = False  # parameters are axes among others' gradients: none means anything apart from the others
    diagonal: bool = False  # parameters count as independent: curvature and covariances are taken as diagonal
    blocks: tuple[int, ...] = ()  # so many consecutive parameters each count as independent of all others
    held_fixed: str = ""  # in words: what retraining on other rows would change but re-weighting rows does not
    link: Link | None = None  # the link that libraries use with this loss for regression; None where there is none

    @property
    def same_scale(self) -> bool:
        """Whether outputs and targets are on one scale, so that their difference is an error."""
        return self.gaussian or self.link == "identity"

    @property
    def outside(self) -> bool:
        """Whether only predictions can be relied on: boosted models, and models without readable parameters."""
        return self.grown or not self.gradients
