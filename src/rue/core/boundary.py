"""The edge of a model: between the user's tables and predictions, and the tensors of a core."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rue.core.concepts import Inputs


class Response(Protocol):
    """Turns outputs into the numbers that the user's estimator predicts, each output separately."""

    def value(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predictions (m, k) from outputs (m, k); each rises with its output."""
        ...

    def slope(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The derivative (m, k) of `value`."""
        ...


class Boundary(Protocol):
    """1b. The conversion between the user's tables and a core, and the predictions of the user's own model."""

    def read(self, core: Any, inputs: Any) -> Inputs:
        """Turn raw inputs into tensors that the core takes."""
        ...

    def read_targets(self, core: Any, targets: Any) -> Any:
        """Turn raw targets into what the core's loss takes."""
        ...

    @property
    def answer(self) -> Callable[[Any], NDArray[Any]] | None:
        """The user's own prediction for raw inputs; None where the outputs are the predictions."""
        ...

    @property
    def response(self) -> Response | None:
        """The function from outputs to predictions; None where the outputs are the predictions."""
        ...

    @property
    def classes(self) -> NDArray[Any] | None:
        """The labels of the classes, for a classifier that predicts labels."""
        ...
