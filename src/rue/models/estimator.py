"""A fitted estimator of another library around the model it is made of: raw tables in, its own predictions out."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from rue.core.concepts import Batches, Coupling, Facts, Family, Inputs, Model, Response
from rue.core.errors import DataError


@dataclass(frozen=True)
class EstimatorModel:
    """The four functions are those of `core`; the rest is how the estimator's users see it."""

    core: Model
    features: Callable[[Any], Any] = field(repr=False)  # raw inputs as `core` reads them
    own: Callable[[Any], NDArray[Any]] = field(repr=False)  # the estimator's predictions for raw inputs
    encode: Callable[[Any], Any] = field(
        default=lambda targets: targets, repr=False
    )  # raw targets as `core` reads them
    response: Response | None = None
    classes: NDArray[Any] | None = field(default=None, repr=False)
    said: Facts = field(default_factory=dict, repr=False)  # what else to say of the estimator in an audit's facts
    estimator: Any = field(default=None, repr=False)  # as the user has it: copies of it may be trained

    @property
    def theta(self) -> Tensor:
        """The audited parameters, flat: (d,)."""
        return self.core.theta

    @property
    def stated(self) -> bool:
        """As the core says."""
        return self.core.stated

    @property
    def family(self) -> Family:
        """What the outputs mean."""
        return self.core.family

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (m, k) at these parameters."""
        return self.core.predict(theta, inputs)

    def loss(self, outputs: Tensor, targets: Any) -> Tensor:
        """Loss of each example (n,)."""
        return self.core.loss(outputs, targets)

    def penalty(self, theta: Tensor) -> Tensor:
        """The penalty R, a scalar."""
        return self.core.penalty(theta)

    @property
    def centre(self) -> Tensor:
        """What the penalty shrinks towards (d,)."""
        return self.core.centre

    def loss_hessian(self, outputs: Tensor, targets: Any) -> Tensor | None:
        """∂²ℓ/∂f², where it is known."""
        return self.core.loss_hessian(outputs, targets)

    def coupling(self, outputs: Tensor, targets: Any, weight: Tensor) -> Coupling:
        """The loss of a family whose rows are coupled."""
        return self.core.coupling(outputs, targets, weight)

    def jacobian(self, inputs: Inputs) -> Tensor | None:
        """∂f/∂θ, where it is known."""
        return self.core.jacobian(inputs)

    def answer(self, inputs: Any) -> NDArray[Any]:
        """The estimator's own predictions."""
        if isinstance(inputs, Dataset | DataLoader):
            raise DataError("an estimator predicts tables, not loaders; audit an array or a data frame")
        try:
            return self.own(inputs)
        except Exception as error:  # each library has its own
            raise DataError(f"the estimator cannot take these inputs: {error}; give them as in training") from error

    def read(self, inputs: Any) -> Inputs:
        """Through the estimator's own transformations."""
        return self.core.read(self.features(inputs))

    def read_targets(self, targets: Any) -> Any:
        """Labels become numbers."""
        return self.core.read_targets(self.encode(targets))

    def bind(self, inputs: Inputs, total_weight: float, batches: Batches | None = None) -> Self:
        """Bind the core, which reads the rows through the estimator."""
        passes = None if batches is None else lambda core: batches(replace(self, core=core))
        return replace(self, core=self.core.bind(inputs, total_weight, passes))

    def describe(self) -> Facts:
        """The core's facts and the estimator's."""
        return {**self.core.describe(), **self.said}
