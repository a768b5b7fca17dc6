"""A fitted estimator of another library around the core it is made of: raw tables in, its own predictions out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from rue.core.concepts import Inputs, Response
from rue.core.errors import DataError


class Reading(Protocol):
    """How a core takes features and encoded targets."""

    def read(self, core: Any, inputs: Any) -> Inputs:
        """Turn features into tensors that the core takes."""
        ...

    def read_targets(self, core: Any, targets: Any) -> Any:
        """Turn encoded targets into what the core's loss takes."""
        ...


def unchanged(targets: Any) -> Any:
    """Targets that need no encoding."""
    return targets


@dataclass(frozen=True)
class EstimatorBoundary:
    """Raw tables through the estimator's own transformations, and its own predictions."""

    inner: Reading  # of the core
    features: Callable[[Any], Any] = field(repr=False)  # raw inputs as `inner` reads them
    own: Callable[[Any], NDArray[Any]] = field(repr=False)  # the estimator's predictions for raw inputs
    encode: Callable[[Any], Any] = field(default=unchanged, repr=False)  # raw targets as `inner` reads them
    response: Response | None = None
    classes: NDArray[Any] | None = field(default=None, repr=False)

    def answer(self, inputs: Any) -> NDArray[Any]:
        """The estimator's own predictions."""
        if isinstance(inputs, Dataset | DataLoader):
            raise DataError("an estimator predicts tables, not loaders; audit an array or a data frame")
        try:
            return self.own(inputs)
        except Exception as error:  # each library has its own
            raise DataError(f"the estimator cannot take these inputs: {error}; give them as in training") from error

    def read(self, core: Any, inputs: Any) -> Inputs:
        """Features, as the core takes them."""
        return self.inner.read(core, self.features(inputs))

    def read_targets(self, core: Any, targets: Any) -> Any:
        """Encoded targets (labels as numbers), as the core takes them."""
        return self.inner.read_targets(core, self.encode(targets))
