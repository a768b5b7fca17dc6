"""Objects as data: plain numbers, words and arrays, and closed lists of what else a file may name.

A file names no module and no attribute to import. What may stand in it are the classes and functions of this package
that carry `@storable`, by their short names, and parts of the reader's own model, by where they lie in it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from rue.core.errors import DataError, ModelError, RueError

T = TypeVar("T")
KNOWN: dict[str, Any] = {}  # classes and functions that a file may name
OF_ROWS: set[type] = set()  # those that keep numbers of single training rows
METHODS = frozenset({"mean", "predict"})  # methods of these classes that a file may name
NUMBERS = "biuf"  # kinds of NumPy arrays that are kept as they are
TIMES = "mM"  # and those kept as whole numbers
SIMPLE = (type(None), bool, int, str)
SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "size": torch.Size,
}
CPU = torch.device("cpu")
MODEL = "model"  # in the place of a device: that of the model


def storable(thing: T) -> T:
    """Let files name this class or function."""
    name = cast(Any, thing).__name__
    if name in KNOWN:
        raise TypeError(f"two things are called {name}; a file could not tell them apart")
    KNOWN[name] = thing
    return thing


def storable_rows(kind: type[T]) -> type[T]:
    """The same for a class that keeps numbers of single training rows."""
    OF_ROWS.add(kind)
    return storable(kind)


def holds_rows(thing: Any) -> bool:
    """Whether an object keeps numbers of single training rows."""
    return type(thing) in OF_ROWS


@dataclass(frozen=True)
class Written:
    """Nodes in JSON, each after those it refers to, and the arrays they name; the last node is the whole."""

    nodes: list[Any]
    arrays: dict[str, Tensor] = field(repr=False)


@dataclass
class _Writer:
    """Turns objects into nodes; what lies in the `model` becomes the way to it."""

    model: Any
    instead: Callable[[Any], Any] = lambda thing: thing  # what is written in the place of an object
    nodes: list[Any] = field(default_factory=list)
    arrays: dict[str, Tensor] = field(default_factory=dict)
    seen: dict[int, tuple[int, Any]] = field(default_factory=dict)  # with the object, so that its id stays its own
    ways: dict[int, list[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.ways = {id(part): way for way, part in _parts(self.model)}

    def written(self, thing: Any) -> Written:
        """The nodes of an object."""
        self.nodes.append({"list": [self._node(thing, ())]})
        return Written(self.nodes, self.arrays)

    def _node(self, thing: Any, way: tuple[str, ...]) -> Any:
        """What stands for an object where another one refers to it."""
        if type(thing) in SIMPLE:
            return thing
        if isinstance(thing, float) and type(thing) is float:
            return thing if np.isfinite(thing) else {"float": str(thing)}
        if id(thing) not in self.seen:
            node = {"model": self.ways[id(thing)]} if id(thing) in self.ways else self._new(self.instead(thing), way)
            self.nodes.append(node)
            self.seen[id(thing)] = (len(self.nodes) - 1, thing)
        return {"at": self.seen[id(thing)][0]}

    def _new(self, thing: Any, way: tuple[str, ...]) -> Any:
        inside = partial(self._node, way=(*way, type(thing).__name__))
        name = type(thing).__name__
        if KNOWN.get(name) is type(thing):
            if isinstance(thing, str):
                return {"is": name, "said": [inside(part) for part in thing.__getnewargs__()]}
            return {"is": name, "of": {part: inside(getattr(thing, part)) for part in _fields(thing)}}
        if isinstance(thing, Tensor) and not thing.requires_grad | thing.is_sparse:
            place = "cpu" if thing.device.type == "cpu" else MODEL
            return self._array(thing) | {"on": place}
        if isinstance(thing, np.ndarray | np.generic):
            return self._numpy(np.asarray(thing), inside) | ({"scalar": True} if isinstance(thing, np.generic) else {})
        for kind, make in SEQUENCES.items():
            if type(thing) is make:
                entries = sorted(thing, key=repr) if kind.endswith("set") else thing
                return {kind: [inside(each) for each in entries]}
        if type(thing) is dict:
            return {"dict": [[inside(key), inside(value)] for key, value in thing.items()]}
        if type(thing) in (slice, range):
            return {type(thing).__name__: [inside(part) for part in (thing.start, thing.stop, thing.step)]}
        if isinstance(thing, torch.dtype):
            return {"dtype": str(thing).removeprefix("torch.")}
        if isinstance(thing, torch.device):
            return {"device": "cpu" if thing.type == "cpu" else MODEL}
        if isinstance(thing, partial):
            return {"partial": [inside(thing.func), inside(thing.args), inside(thing.keywords)]}
        if isinstance(thing, FunctionType):
            called = str(thing.__name__)
            if KNOWN.get(called) is thing:
                return {"function": called}
        if isinstance(thing, MethodType) and thing.__name__ in METHODS:
            return {"method": thing.__name__, "of": inside(thing.__self__)}
        if thing is iter:
            return {"iterates": []}
        if name == "csr_array":
            return {"csr": [inside(part) for part in (thing.data, thing.indices, thing.indptr, thing.shape)]}
        raise ModelError(
            f"this audit holds a {type(thing).__module__}.{type(thing).__qualname__} ({' → '.join(way)}), and a file "
            "of data has no place for objects of other libraries or of your own; fit it again where it is used"
        )

    def _array(self, values: Tensor) -> dict[str, Any]:
        """Keep numbers, and the order of their axes in memory: sums are taken in that order."""
        strides = values.stride()
        order = sorted(range(values.dim()), key=lambda axis: -strides[axis])
        name = str(len(self.arrays))
        self.arrays[name] = values.detach().cpu().permute(order).contiguous().clone()
        return {"array": name} | ({} if order == sorted(order) else {"axes": order})

    def _numpy(self, values: np.ndarray[Any, Any], inside: Callable[[Any], Any]) -> dict[str, Any]:
        kind = values.dtype.kind
        if kind in NUMBERS:
            return {"numpy": values.dtype.str} | self._array(torch.from_numpy(np.array(values, order="K")))
        if kind == "c":
            pairs = np.stack([values.real, values.imag], -1)
            return {"numpy": values.dtype.str} | self._array(torch.from_numpy(pairs))
        if kind in TIMES:
            return {"numpy": values.dtype.str} | self._array(torch.from_numpy(values.view(np.int64).copy(order="K")))
        shape = [int(size) for size in values.shape]
        return {
            "numpy": values.dtype.str,
            "entries": [inside(each) for each in values.ravel().tolist()],
            "shape": shape,
        }


@dataclass
class _Reader:
    """Turns nodes into objects again; `model` is the reader's, and `instead` may replace objects as they are made."""

    model: Any
    device: torch.device
    arrays: Mapping[str, Tensor]
    instead: Callable[[Any], Any] = lambda thing: thing
    made: list[Any] = field(default_factory=list)

    def read(self, nodes: list[Any]) -> Any:
        """The object that the last node stands for."""
        for node in nodes:
            try:
                self.made.append(self.instead(self._new(node)))
            except RueError:
                raise
            except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
                raise DataError(f"this file holds what no audit is made of ({error}); save the audit again") from error
        if not self.made or not isinstance(self.made[-1], list) or len(self.made[-1]) != 1:
            raise DataError("this file holds what no audit is made of (it has no end); save the audit again")
        return self.made[-1][0]

    def _of(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        return float(node["float"]) if "float" in node else self.made[node["at"]]

    def _all(self, nodes: Any) -> list[Any]:
        return [self._of(node) for node in nodes]

    def _new(self, node: Any) -> Any:
        (kind, value), *_ = node.items()
        if kind == "model":
            return _follow(self.model, value)
        if kind == "is":
            if "said" in node:
                return _sentence(KNOWN[value], self._all(node["said"]))
            return _object(KNOWN[value], {name: self._of(each) for name, each in node["of"].items()})
        if kind == "array":
            return self._array(node).to({MODEL: self.device, "cpu": CPU}[node["on"]])
        if kind == "numpy":
            array = self._numpy(node)
            return array[()] if node.get("scalar") else array
        if kind in SEQUENCES:
            return SEQUENCES[kind](self._all(value))
        if kind == "dict":
            return {self._of(key): self._of(each) for key, each in value}
        if kind in ("slice", "range"):
            return (slice if kind == "slice" else range)(*self._all(value))
        if kind == "dtype":
            return _dtype(value)
        if kind == "device":
            return {MODEL: self.device, "cpu": CPU}[value]
        if kind == "partial":
            function, given, named = self._all(value)
            if not callable(function):
                raise TypeError("a part of a function is no function")
            return partial(function, *given, **named)
        if kind == "function":
            if not isinstance(KNOWN[value], FunctionType):
                raise TypeError(f"{value} is no function")
            return KNOWN[value]
        if kind == "iterates":
            return iter
        if kind == "method":
            if value not in METHODS:
                raise KeyError(value)
            owner = self._of(node["of"])
            if type(owner) not in KNOWN.values():
                raise TypeError(f"{value} of what is not known")
            return getattr(owner, value)
        if kind == "csr":
            from scipy.sparse import csr_array

            data, indices, pointers, shape = self._all(value)
            return csr_array((data, indices, pointers), shape=shape)
        raise KeyError(kind)

    def _numpy(self, node: dict[str, Any]) -> np.ndarray[Any, Any]:
        if "array" in node:
            values, kind = self._array(node).numpy(), np.dtype(node["numpy"])
            return values[..., 0] + 1j * values[..., 1] if kind.kind == "c" else values.view(kind)
        values = np.empty(len(node["entries"]), dtype=object)
        values[:] = self._all(node["entries"])
        return values.astype(np.dtype(node["numpy"])).reshape(node["shape"])

    def _array(self, node: dict[str, Any]) -> Tensor:
        values = self.arrays[node["array"]].clone()  # in memory of its own, aligned as any other
        axes = node.get("axes")
        return values if axes is None else values.permute(tuple(np.argsort(axes).tolist()))


def written(thing: Any, model: Any = None, instead: Callable[[Any], Any] = lambda thing: thing) -> Written:
    """An object as nodes and arrays; what lies in the `model` becomes the way to it.

    >>> nodes = written((1.5, "a"))
    >>> nodes.nodes, read_again(nodes)
    ([{'tuple': [1.5, 'a']}, {'list': [{'at': 0}]}], (1.5, 'a'))
    """
    return _Writer(model, instead).written(thing)


def read_again(
    content: Written,
    model: Any = None,
    device: torch.device = CPU,
    instead: Callable[[Any], Any] = lambda thing: thing,
) -> Any:
    """The object of nodes and arrays, with parts of this model in their places."""
    return _Reader(model, device, content.arrays, instead).read(content.nodes)


def _fields(thing: Any) -> tuple[str, ...]:
    if is_dataclass(thing):
        return tuple(part.name for part in fields(thing))
    return tuple(getattr(thing, "_fields", ()))


def _object(kind: Any, values: dict[str, Any]) -> Any:
    """An object with these values, as it was: nothing is computed or checked again."""
    if issubclass(kind, tuple):
        return kind(**values)
    made = object.__new__(kind)
    known = {part.name for part in fields(kind)} if is_dataclass(kind) else set()
    if set(values) != known:
        raise KeyError(f"{kind.__name__} with {sorted(set(values) ^ known)}")
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _sentence(kind: Any, parts: list[Any]) -> Any:
    if not issubclass(kind, str):
        raise TypeError(f"{kind.__name__} is no sentence")
    return kind(*parts)


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{name} is no type of numbers")
    return found


def _parts(whole: Any) -> Iterator[tuple[list[Any], Any]]:
    """All that lies in a model, and the way to it: fields, entries, and what functions were given."""
    waiting: list[tuple[list[Any], Any]] = [([], whole)]
    met: set[int] = set()
    while waiting:
        way, thing = waiting.pop()
        if id(thing) in met or type(thing) in (*SIMPLE, float):
            continue
        met.add(id(thing))
        yield way, thing
        waiting += [([*way, step], part) for step, part in _steps(thing)]


def _steps(thing: Any) -> list[tuple[Any, Any]]:
    if isinstance(thing, nn.Module | type):
        return []
    if is_dataclass(thing):
        return [(part.name, getattr(thing, part.name)) for part in fields(thing)]
    if isinstance(thing, tuple | list):
        return list(enumerate(thing))
    if type(thing) is dict:
        return [(["key", key], value) for key, value in thing.items() if isinstance(key, str)]
    if type(thing) is partial:
        return [("func", thing.func), ("args", thing.args), ("keywords", thing.keywords)]
    return []


def _follow(whole: Any, way: list[Any]) -> Any:
    """What lies at the end of a way in a model: only steps that `_parts` takes."""
    for step in way:
        found = [part for name, part in _steps(whole) if name == step]
        if not found:
            raise KeyError(f"the model has nothing at {step}")
        whole = found[0]
    return whole
