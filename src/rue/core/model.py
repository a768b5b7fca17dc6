"""1. Model: a trained model in two parts, its numerical core and the boundary between the core and raw tables."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast, runtime_checkable

from numpy.typing import NDArray
from torch import Tensor

from rue.core.boundary import Boundary, Response
from rue.core.concepts import (
    Batch,
    Core,
    ExampleLoss,
    Facts,
    Family,
    Inputs,
    Reader,
    Solver,
    TrainedObjective,
    TrainingSet,
)
from rue.core.coordinates import Coordinates, CurvedRows
from rue.core.errors import ModelError, SettingError
from rue.core.followed import Followed
from rue.core.schema import Schema
from rue.core.stored import storable

Batches = Callable[["Model"], Iterator[Batch]]
"""A function that reads all training rows with a model, batch by batch."""


@runtime_checkable
class SettledCore(Protocol):
    """A core that data completes, which tells by what."""

    @property
    def settled(self) -> Facts:
        """Plain numbers."""
        ...

    def settled_again(self, **numbers: Any) -> Core:
        """The core completed by these."""
        ...


Settle = Callable[[Any, Inputs, float, Callable[[Any], Iterator[Batch]] | None], Core]
"""Completes a core from data: takes the core, a first batch, the sum of the weights and a pass over all rows."""


@storable
@dataclass(frozen=True)
class Model:
    """What `rue.wrap` returns: a core with its boundary.

    `theta`, `predict`, `loss` and `penalty` delegate to the core, which derivatives are taken of.
    """

    core: Core
    boundary: Boundary = field(repr=False)
    said: Facts = field(default_factory=dict, repr=False)  # facts about the user's estimator, for the audit's facts
    estimator: Any = field(default=None, repr=False)  # the user's estimator, to train copies of it
    settle: Settle | None = field(default=None, repr=False)  # for cores that need data to be complete
    no_objective: str | None = field(default=None, repr=False)  # why the core minimises none, and what to use instead
    behind: Core | None = field(default=None, repr=False)  # the original core, where `core` is its projection
    quick: Callable[[Any], TrainedObjective] | None = field(
        default=None, repr=False
    )  # makes a smaller core that is enough for a spread
    blind: str | None = field(default=None, repr=False)  # why its parts cannot give honest left-out errors
    supervised: tuple[str, ...] = ()  # steps before the core that were fitted to the targets, and are held fixed
    admit_targets: Callable[[Any], None] | None = field(
        default=None, repr=False
    )  # raises for raw training targets that its own transformation does not bring back
    schema: Schema | None = field(default=None, repr=False)  # columns the model remembers; then of its training table
    balanced_by: str | None = None  # the class weights of training, where the labels alone do not determine them

    @property
    def objective(self) -> TrainedObjective:
        """The core as a differentiable objective; if it minimises none, an error says what to use instead."""
        if self.no_objective is not None:
            raise ModelError(self.no_objective)
        return cast(TrainedObjective, self.core)

    @property
    def held_fixed(self) -> str | None:
        """A warning where steps before the core were fitted to the targets: no re-weighting of rows moves them."""
        if not self.supervised:
            return None
        return (
            f"{' and '.join(self.supervised)} before the last step chose or made the features by the targets, and "
            "is held fixed here: other rows would have made other features, so that deviations, left-out errors and "
            "intervals come out too small; use rue.audit, CalibratedRUE() or ClassifierRUE(), which train copies of "
            "the whole pipeline, or calibrate on held-out rows"
        )

    @property
    def theta(self) -> Tensor:
        """The audited parameters, flat: (d,)."""
        return self.core.theta

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (m, k) at these parameters."""
        return self.core.predict(theta, inputs)

    @property
    def loss(self) -> ExampleLoss:
        """The loss of an example."""
        return self.core.loss

    @property
    def family(self) -> Family:
        """What the outputs mean."""
        return self.core.family

    def penalty(self, theta: Tensor) -> Tensor:
        """The penalty R, a scalar."""
        return self.objective.penalty(theta)

    @property
    def jacobian(self) -> Callable[[Inputs], Tensor] | None:
        """∂f/∂θ where it is known in closed form."""
        return self.objective.jacobian

    @property
    def few_outputs(self) -> Callable[[Inputs], Followed] | None:
        """∂f/∂θ of the outputs that are followed; None where all are."""
        return self.objective.few_outputs

    @property
    def eigenbases(self) -> Callable[[Reader, Iterable[CurvedRows]], Coordinates] | None:
        """Makes coordinates in eigenbases of every layer, where layers are known."""
        return self.objective.eigenbases

    @property
    def response(self) -> Response | None:
        """The function from outputs to predictions; None where the outputs are the predictions."""
        return self.boundary.response

    @property
    def classes(self) -> NDArray[Any] | None:
        """The labels of the classes."""
        return self.boundary.classes

    def answer(self, inputs: Any) -> NDArray[Any] | None:
        """The user's own prediction for raw inputs; None where the outputs are the predictions."""
        return None if self.boundary.answer is None else self.boundary.answer(self.aligned(inputs))

    def read(self, inputs: Any) -> Inputs:
        """Turn raw inputs into tensors that `predict` takes."""
        return self.boundary.read(self.behind or self.core, self.aligned(inputs))

    def aligned(self, inputs: Any) -> Any:
        """A frame with the columns of training, in their order and with their categories; other inputs unchanged."""
        return inputs if self.schema is None else self.schema.aligned(inputs)

    def read_targets(self, targets: Any) -> Any:
        """Turn raw targets into what `loss` takes."""
        return self.boundary.read_targets(self.behind or self.core, targets)

    def bind(self, inputs: Inputs, total_weight: float, batches: Batches | None = None) -> "Model":
        """Complete the model from data (shape of the outputs, scale of a mean loss), or raise if it cannot be audited.

        `inputs` are a first batch; `batches` reads all training rows with a model.
        """
        if self.settle is None:
            return self
        passes = None if batches is None else lambda core: batches(replace(self, core=core))
        return replace(self, core=self.settle(self.core, inputs, total_weight, passes))

    @property
    def settled(self) -> Facts:
        """What data settled, in plain numbers: `settled_again` takes them on another machine, without the data."""
        core = self.behind or self.core
        return core.settled if isinstance(core, SettledCore) else {}

    def settled_again(self, numbers: Facts) -> "Model":
        """The model completed by these numbers instead of by data."""
        return replace(self, core=self.core.settled_again(**numbers)) if isinstance(self.core, SettledCore) else self

    def seen_by(self, solver: Solver, data: TrainingSet, diagonal: bool = False) -> "Model":
        """The model in the coordinates the solver works in; unchanged if the model has no objective.

        Coordinates that count as independent are refused where the caller is not made for a `diagonal` covariance.
        """
        if self.no_objective is not None:
            return self
        viewed = solver.view(self.objective, data)
        if (viewed.family.diagonal or viewed.family.blocks) and not diagonal:
            raise SettingError(
                f"{solver!r} keeps no products of the gradients of single rows, which sampling, left-out rows and "
                "calibration are made of: it serves LinearRUE alone; use solver=Sketch() here"
            )
        if viewed is self.core:
            return self
        return replace(self, core=viewed, behind=self.core, settle=None)  # it has been settled before it was viewed

    def describe(self) -> Facts:
        """Entries about the model for an audit's facts."""
        return {**self.core.describe(), **self.said}
