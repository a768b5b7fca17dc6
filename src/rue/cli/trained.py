"""The model on the command line: a file, or a Python object by its name, and what is said of its training."""

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from torch import nn
from torch.export import ExportedProgram
from typer import Argument, Option

from rue.core.errors import ModelError, RueError
from rue.core.model import Model
from rue.losses.stated import LOSSES
from rue.models import open_model, wrap
from rue.models.model_file import READERS

CATEGORIES = {"lightgbm", "xgboost"}  # libraries that want words as categories of a frame


@dataclass(frozen=True)
class Statement:
    """A model, and what it was trained by where it does not say so itself."""

    model: Annotated[
        str,
        Argument(
            metavar="MODEL",
            help=f"A model file ({', '.join(READERS)}), or a Python object as package.module:name.",
        ),
    ]
    loss: Annotated[
        str | None, Option(help="Of a network: the loss it was trained with, as MSELoss or squared_error.")
    ] = None
    l2: Annotated[float | None, Option(help="Of a network: the coefficient of ½‖θ‖², where it is known.")] = None
    reduction: Annotated[
        Literal["sum", "mean"] | None, Option(help="Of a network: whether losses were summed or averaged.")
    ] = None
    factory: Annotated[
        str | None, Option(help="For weights: the function that makes the network, as package.module:function.")
    ] = None
    trust_code: Annotated[
        bool, Option("--trust-code", help="Read model files that run code, from people you trust.")
    ] = False

    def wrapped(self) -> "TrainedModel":
        """The model, ready to be fitted."""
        found = self._found()
        if self.loss is None and isinstance(found, nn.Module | ExportedProgram):
            raise ModelError(
                f"{self.model} does not know the loss it was trained with; say --loss MSELoss, or another of torch.nn, "
                f"or one of {', '.join(sorted(LOSSES))}"
            )
        model = wrap(found, loss=self.loss, l2=self.l2, reduction=self.reduction)
        return TrainedModel(model, _by_categories(found), _texts(found, model))

    def _found(self) -> Any:
        path = Path(self.model)
        if path.suffix.lower() in READERS:
            factory = None if self.factory is None else _named(self.factory)
            return open_model(path, factory=factory, trust_code=self.trust_code)
        if self.factory is not None:
            raise ModelError("--factory makes the network of a file of weights; leave it out for other models")
        return _named(self.model)


class TrainedModel(NamedTuple):
    """A wrapped model, and how it wants its tables."""

    model: Model
    by_categories: bool  # words as categories of a frame
    texts: tuple[str, ...] = ()  # columns that it takes as words, whatever they look like


def _named(name: str) -> Any:
    """The Python object with a name such as package.module:object, looked for in this folder first."""
    module, colon, attribute = name.partition(":")
    if name.endswith(".rue"):
        raise ModelError(
            f"{name} is a fitted audit, not the model that it is of; give the model first, and this as --fitted"
        )
    if not colon or not attribute:
        raise ModelError(
            f"{name!r} is no model file ({', '.join(READERS)}) and no Python object; write package.module:name"
        )
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return getattr(import_module(module), attribute)
    except RueError:
        raise
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        raise ModelError(f"{name!r} cannot be imported: {error!r}; try python -c 'import {module}'") from error
    finally:
        sys.path.remove(here)


def _by_categories(model: Any) -> bool:
    return isinstance(model, Path) or type(model).__module__.partition(".")[0] in CATEGORIES


def _texts(found: Any, model: Model) -> tuple[str, ...]:
    """The columns that a model knows by words, where it says so: numbers among these are codes."""
    columns = () if model.schema is None else model.schema.columns
    words = [each.name for each in columns if each and each.levels and all(isinstance(of, str) for of in each.levels)]
    indices = getattr(found, "get_cat_feature_indices", None)  # CatBoost
    return (*words, *([str(found.feature_names_[place]) for place in indices()] if indices is not None else ()))
