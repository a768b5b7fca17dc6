"""The door for model files: most are data and are read as data; what would run code is refused unless it is trusted."""

import json
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from torch import Tensor, nn

from rue.core.errors import ModelError, RueError
from rue.models.exported_file import exported_program
from rue.models.skops_file import skops_estimator, untrusted
from rue.models.tables import stored

TREES = {".txt": "trees.lightgbm", ".json": "trees.xgboost", ".ubj": "trees.xgboost"}  # read without their libraries
CATBOOST = re.compile(rb'\s*\{\s*"(ctr_data|features_info|model_info|oblivious_trees|scale_and_bias|trees)"')
DEEPEST = 60  # levels of nesting in CatBoost's JSON
HEAD = 256  # bytes of a JSON file that tell whose it is
CHECKPOINT = ("state_dict", "model_state_dict", "model")  # where training scripts put the weights in a checkpoint
SHOWN = 200  # characters of another library's error
SHOWN_NAMES = 5
TORCH = (".pt", ".pth", ".ckpt")
CODE = (".pkl", ".pickle", ".joblib", *TORCH)  # endings of files that may run code
CLASSES = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll")  # losses of CatBoost's classifiers
TRUSTING = "rue.open_model(path, trust_code=True) (--trust-code)"
RUNS = (
    "is a pickle: reading it runs whatever code is inside, so that it is only read from people you trust as you would "
    "trust a program of theirs"
)
INSTEAD = (
    f"say {TRUSTING} if you do, or have the model written as data: a network by torch.export.save (.pt2) or as "
    "safetensors, an estimator by skops (.skops), boosted trees by their own save_model"
)

Factory = Callable[[], nn.Module]
"""Makes a network of the architecture whose weights are in a file."""


def open_model(path: str | Path, *, factory: Factory | None = None, trust_code: bool = False) -> Any:
    """The model in a file, for `wrap`; which is told by the ending of its name.

    | ending | model | how it is read |
    |---|---|---|
    | `.pt2` | a program of `torch.export.save` | checked, tensors and arithmetic only |
    | `.safetensors` | weights of a network, which `factory()` makes | data |
    | `.pt`, `.pth`, `.ckpt` with `factory` | the same, as `torch.save(net.state_dict())` wrote it | tensors only |
    | `.txt` | LightGBM | by rue itself |
    | `.json`, `.ubj` | XGBoost | by rue itself |
    | `.cbm`, `.json` | CatBoost | by CatBoost |
    | `.skops` | an estimator | by skops, refused if it holds types that are not known |
    | `.pkl`, `.pickle`, `.joblib`, and `.pt`, `.pth`, `.ckpt` without `factory` | anything | runs code: `trust_code` |

    >>> import tempfile
    >>> from safetensors.torch import save_file
    >>> def linear():
    ...     return nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_file(linear().state_dict(), f"{folder}/net.safetensors")
    ...     open_model(f"{folder}/net.safetensors", factory=linear)
    Linear(in_features=2, out_features=1, bias=True)
    """
    file = ModelFile(Path(path), factory, trust_code)
    reader = READERS.get(file.ending)
    if reader is None:
        raise ModelError(f"{path} is no model file that is known; known are {', '.join(READERS)}")
    if factory is not None and reader not in (_weights, _checkpoint):
        raise ModelError(f"{path} holds the whole model, and a factory makes networks for weights alone; leave it out")
    try:
        return reader(file)
    except RueError:
        raise
    except Exception as error:  # the readers of several libraries raise anything
        said = f"{type(error).__name__}: {error}"[:SHOWN]
        raise ModelError(f"{path} cannot be read as a model ({said})", "write it again with its library") from error


class ModelFile(NamedTuple):
    """A file, and what its owner says of it."""

    path: Path
    factory: Factory | None
    trusted: bool  # whether code in it may run

    @property
    def ending(self) -> str:
        """Of its name, which tells the kind of file."""
        return self.path.suffix.lower()


def _trees(file: ModelFile) -> Any:
    """The path itself: the adapters read it; CatBoost's own JSON is told by its first key."""
    if file.ending != ".json" or not CATBOOST.match((content := stored(file.path, b"{"))[:HEAD]):
        return file.path
    if _deeper(json.loads(content), DEEPEST):
        raise ModelError(f"{file.path} is nested deeper than any tree; write it again by model.save_model")
    return _catboost(file.path, "json")


def _deeper(part: Any, levels: int) -> bool:
    """Whether a document has more levels: CatBoost's own reader ends the process where there are very many."""
    inside = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return levels == 0 or any(_deeper(each, levels - 1) for each in inside if isinstance(each, dict | list))


def _cbm(file: ModelFile) -> Any:
    if stored(file.path, b"CBM1")[:4] != b"CBM1":
        raise ModelError(f"{file.path} is no CatBoost model; write it by model.save_model")
    return _catboost(file.path, "cbm")


def _catboost(path: Path, form: str) -> Any:
    try:
        import catboost
    except ImportError as error:
        raise ModelError(f"{path} is read by CatBoost, which is missing: pip install catboost") from error
    plain = catboost.CatBoost().load_model(str(path), format=form)
    classes = str(plain.get_all_params()["loss_function"]).partition(":")[0] in CLASSES
    kind = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
    return kind().load_model(str(path), format=form)


def _exported(file: ModelFile) -> Any:
    return exported_program(file.path)


def _skops(file: ModelFile) -> Any:
    content = stored(file.path, b"PK")
    if not content.startswith(b"PK"):
        raise ModelError(f"{file.path} is no file of skops; write it by skops.io.dump")
    strange = untrusted(content)
    if strange and not file.trusted:
        raise ModelError(
            f"{file.path} is made of {_listed(strange)}, which rue does not know to be harmless",
            f"look at what these are, and say {TRUSTING} if you trust who wrote the file",
        )
    return skops_estimator(content)


def _weights(file: ModelFile) -> Any:
    if file.factory is None:
        raise ModelError(
            f"{file.path} holds tensors without the network they belong to",
            "give factory=, a function that makes it (--factory package.module:function), or write the network by "
            "torch.export.save as .pt2",
        )
    return _network(file, safetensors.torch.load(stored(file.path, b"")))


def _checkpoint(file: ModelFile) -> Any:
    """Weights that `torch.save` wrote, by torch's reader of tensors, which calls nothing that a file names."""
    if file.factory is None:
        return _code(file)
    if zipfile.is_zipfile(file.path) and any("/code/" in name for name in zipfile.ZipFile(file.path).namelist()):
        raise ModelError(f"{file.path} is TorchScript; save the state_dict() of the module it was made from")
    try:
        found = torch.load(file.path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises several kinds
        raise ModelError(
            f"{file.path} holds more than tensors, or is no file of torch.save",
            "write the weights alone: torch.save(net.state_dict(), path)",
        ) from error
    parts = found if isinstance(found, Mapping) else {}
    weights = next((parts[name] for name in CHECKPOINT if isinstance(parts.get(name), Mapping)), parts)
    if not weights or not all(isinstance(values, Tensor) for values in weights.values()):
        raise ModelError(
            f"{file.path} holds no mapping of names to tensors; write it by torch.save(net.state_dict(), path)"
        )
    return _network(file, weights)


def _code(file: ModelFile) -> Any:
    if not file.trusted:
        weights = " (weights alone need no trust: give factory=, --factory)" if file.ending in TORCH else ""
        raise ModelError(f"{file.path} {RUNS}{weights}", INSTEAD)
    if not file.path.is_file():
        raise ModelError(f"{file.path} is no file; give the path of a stored model")
    if file.ending in TORCH:
        return torch.load(file.path, map_location="cpu", weights_only=False)
    import joblib

    return joblib.load(file.path)


def _network(file: ModelFile, weights: Mapping[str, Tensor]) -> nn.Module:
    """What the factory makes, with these weights and in their precision."""
    assert file.factory is not None
    try:
        net = file.factory()
    except (Exception, SystemExit) as error:  # the user's own code
        raise ModelError(
            f"the factory failed: {error!r}; it is called without arguments, and makes the network of the weights"
        ) from error
    if not isinstance(net, nn.Module):
        raise ModelError(f"the factory made a {type(net).__name__}, expected a torch.nn.Module; make it return one")
    own = net.state_dict()
    wrong = {
        "lacks": sorted(own.keys() - weights.keys()),
        "holds beside it": sorted(weights.keys() - own.keys()),
        "has in other shapes": sorted(k for k in own.keys() & weights.keys() if own[k].shape != weights[k].shape),
    }
    said = ", ".join(f"{how} {_listed(names)}" for how, names in wrong.items() if names)
    if said:
        raise ModelError(f"{file.path} is not of the network that the factory makes: it {said}; make the one it is of")
    kinds = {values.dtype for values in weights.values() if values.is_floating_point()}
    net = net.to(kinds.pop()) if len(kinds) == 1 else net
    net.load_state_dict(weights)
    return net.eval()


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more


READERS: dict[str, Callable[[ModelFile], Any]] = {
    ".pt2": _exported,
    ".safetensors": _weights,
    **dict.fromkeys(TREES, _trees),
    ".cbm": _cbm,
    ".skops": _skops,
    **dict.fromkeys(TORCH, _checkpoint),
    **dict.fromkeys(CODE[: -len(TORCH)], _code),
}
