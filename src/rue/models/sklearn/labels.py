"""Labels and class weights of a scikit-learn classifier, turned into targets of a loss."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rue.core.errors import DataError
from rue.core.labels import label_codes, label_column
from rue.losses import Loss, one_vs_rest, row_weighted


@dataclass(frozen=True)
class ClassCoding:
    """The labels of a fitted classifier, and the weights of its classes."""

    classes: NDArray[Any] = field(repr=False)
    class_weight: Any = None  # as given to the classifier: a dict, "balanced" or None
    by_weight: bool = False  # "balanced" uses the weights of the rows, not their number

    @property
    def weighted(self) -> bool:
        """Whether rows are weighted by their class."""
        return self.class_weight is not None and len(self.class_weight) > 0

    @property
    def balanced_by(self) -> str | None:
        """The weights of training that class weights depend on; None if labels alone determine them."""
        return "the sample weights of training" if self.by_weight and isinstance(self.class_weight, str) else None

    def each(self, loss: Loss) -> Loss:
        """A binary loss of one output for two classes, and of one output per class for more."""
        return loss if len(self.classes) == 2 else one_vs_rest(loss)

    def weigh(self, loss: Loss, positives: bool = False) -> Loss:
        """The loss with class weights; with `positives`, of several outputs only that of the row's class is weighed."""
        if not self.weighted:
            return loss
        apart = positives and len(self.classes) > 2
        return replace(loss, fit_targets=None) if apart else row_weighted(loss)  # one_vs_rest takes pairs of targets

    def encode(self, labels: Any) -> Any:
        """Numbers from 0 to k − 1 (n,), for two classes floats (n, 1); with class weights, a pair with the weights."""
        from sklearn.utils.class_weight import compute_class_weight

        if isinstance(self.class_weight, str) and (isinstance(labels, Tensor) or not hasattr(labels, "shape")):
            raise DataError(
                f"class_weight={self.class_weight!r} counts the labels of all training rows at once, which a loader "
                "does not give; give them as one NumPy array or column: (X, y)"
            )
        number = label_codes(labels, self.classes)
        targets = number[:, None].astype(np.float64) if len(self.classes) == 2 else number
        if not self.weighted:
            return targets
        weight = compute_class_weight(self.class_weight, classes=self.classes, y=label_column(labels))
        return targets, np.asarray(weight, np.float64)[number]
