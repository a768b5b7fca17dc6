"""Meaning: what the numbers of a method say and do not say, in the words that reports use.

A method defines it in its own file, as `meaning: ClassVar[Meaning] = Meaning(...)`; otherwise reports use general
words. In the texts, `{method}` is the name of the method and `{what}` the subject of the spread: the prediction, or
the logits.
"""

from dataclasses import dataclass
from typing import NamedTuple

from rue.core.stored import storable


@storable
class ScoreMeaning(NamedTuple):
    """The meaning of the score."""

    says: str
    does_not_say: str


@storable
class SpreadMeaning(NamedTuple):
    """The meaning of the standard deviation, and of the numbers derived from it for classes."""

    called: str  # begins a phrase such as "Resampling spread and noise together"
    says: str
    does_not_say: str
    limitation: str
    flip: str = "The chance that the decision would be another, by the spread of the logits."
    probability: str = "Of the predicted class, averaged over the spread of the logits."


@storable
@dataclass(frozen=True)
class Meaning:
    """The words of reports about a method; reports use general words for parts that are None."""

    made: str | None = None  # how the score is computed
    score: ScoreMeaning | None = None
    spread: SpreadMeaning | None = None
    of_other_rows: bool = False  # the score compares an input with training rows: one of them would meet itself
    similarity_damped: bool = False  # similarity and resampling have their own damping


NOT_THE_ERROR = "The error to expect: noise of the target is no part of it, nor is what the model misses everywhere."
RANKS = ScoreMeaning(
    "The higher it is, the less reliable the prediction is held to be by this method; only its order has a meaning.",
    "A probability, or an error to expect.",
)
MADE = "{method} scores each prediction after training."
REWEIGHTED = SpreadMeaning(
    "Resampling",
    "Resampling alone: {what} would change by about so much with other training rows.",
    "What training from scratch would do: parameters are re-weighted around the trained ones, to first order.",
    "The spread is that of re-weighting the training rows around the trained parameters, to first order. It is not "
    "training from scratch: another start, other settings or another search are no part of it.",
    "The chance that another training set of the same kind would have led to another decision.",
    "Of the predicted class, averaged over the training sets that might have been.",
)
NETWORKS_OF_ITS_OWN = SpreadMeaning(
    "Members'",
    "The spread of the members, or of the weights, of networks that the method trained itself.",
    "How far the wrapped module would move: its trained weights take no part.",
    "{method} trained networks of its own: predictions, errors and spread are theirs, and the weights of the wrapped "
    "module take no part.",
)
UNEXPLAINED = SpreadMeaning(
    "The method's",
    "The spread that {method} gives to {what}.",
    "What other training rows, or training from scratch, would do.",
    "{method} trains nothing again: what other training rows, or training from scratch, would change is no part of its "
    "score.",
    probability="Of the predicted class: the model's own.",
)
