"""Inputs as people have them: a tensor, or tuples, lists and dicts of tensors, batch axis first."""

from collections.abc import Callable, Mapping
from typing import Any

import torch


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to every leaf and keep the structure.

    >>> map_leaves(abs, {"a": [-1, 2], "b": (-3,)})
    {'a': [1, 2], 'b': (3,)}
    """
    if isinstance(tree, Mapping):
        return {key: map_leaves(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        parts = [map_leaves(function, value) for value in tree]
        return tuple(parts) if isinstance(tree, tuple) else parts
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """Every leaf, in order.

    >>> leaves({"a": [1, 2], "b": (3,)})
    [1, 2, 3]
    """
    collected: list[Any] = []
    map_leaves(collected.append, tree)
    return collected


def take(tree: Any, rows: Any) -> Any:
    """The same rows of every leaf; `rows` is a slice or an array of row numbers.

    >>> take({"a": "xyz"}, slice(0, 2))
    {'a': 'xy'}
    """
    return map_leaves(lambda leaf: leaf[rows], tree)


def joined(parts: list[Any]) -> Any:
    """Batches of tensors as one, leaf by leaf."""
    flat = iter([torch.cat(list(same)) for same in zip(*(leaves(part) for part in parts), strict=True)])
    return map_leaves(lambda _: next(flat), parts[0])
