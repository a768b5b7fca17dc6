"""The boundary of a fitted estimator: it reads raw tables for the core, and predicts by the estimator itself."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from rue.core.boundary import Response
from rue.core.concepts import Inputs
from rue.core.errors import DataError


class Reading(Protocol):
    """Reads features and encoded targets for a core."""

    def read(self, core: Any, inputs: Any) -> Inputs:
        """Turn features into tensors that the core takes."""
        ...

    def read_targets(self, core: Any, targets: Any) -> Any:
        """Turn encoded targets into what the core's loss takes."""
        ...


def unchanged(targets: Any) -> Any:
    """The encoding of targets that need none."""
    return targets


@dataclass(frozen=True)
class EstimatorBoundary:
    """Reads raw tables by the estimator's own transformations, and predicts by the estimator itself."""

    inner: Reading  # reads features and targets for the core
    features: Callable[[Any], Any] = field(repr=False)  # from raw inputs to features that `inner` reads
    own: Callable[[Any], NDArray[Any]] = field(repr=False)  # the estimator's predictions for raw inputs
    encode: Callable[[Any], Any] = field(default=unchanged, repr=False)  # from raw targets to what `inner` reads
    response: Response | None = None
    classes: NDArray[Any] | None = field(default=None, repr=False)

    def answer(self, inputs: Any) -> NDArray[Any]:
        """The estimator's own predictions."""
        if isinstance(inputs, Dataset | DataLoader):
            raise DataError("an estimator predicts tables, not loaders; audit an array or a data frame")
        try:
            return self.own(inputs)
        except Exception as error:  # each library raises its own errors
            raise DataError(f"the estimator cannot take these inputs: {error}; give them as in training") from error

    def read(self, core: Any, inputs: Any) -> Inputs:
        """Features as tensors that the core takes."""
        return self.inner.read(core, self.features(inputs))

    def read_targets(self, core: Any, targets: Any) -> Any:
        """Encoded targets (labels as numbers) as the core's loss takes them."""
        return self.inner.read_targets(core, self.encode(targets))
