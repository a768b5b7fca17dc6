"""Derivatives of several rows taken together are compared with plain passes before they are believed.

Torch has a rule of its own for every function, to take it for several rows at once, and a few of them are wrong: that
of the backward pass of `torch.cdist`, and those that a user's own function brings along. What such a rule gives is
compared with one plain backward pass, once for each model, kind of derivative and number of rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from rue.core.errors import DerivativeError, NumericalError
from rue.core.process import ignoring, undivided
from rue.core.resample import generator

SLOWER = (  # warnings of torch itself
    "There is a performance drop",  # the numbers are right, only slower
    "`torch.jit.script`",  # forward derivatives use it inside torch
)
NEAR = {torch.float64: 1e-6, torch.float32: 1e-2}  # relative difference of a number that may be rounding
FLOOR = {torch.float64: 1e-8, torch.float32: 1e-3}  # the same, relative to the largest number beside it
COARSE = 2e-2  # both on a GPU, which may round products of float32 to ten binary digits


class TogetherError(Exception):
    """Derivatives of several rows together are not those of plain backward passes; rows are then taken one by one."""


@dataclass(frozen=True)
class Trial:
    """One kind of derivative of a model, and what shows whether it is right."""

    model: object
    kind: str
    rows: int
    pair: Callable[[Any], tuple[Tensor, Tensor]]  # from what was found to numbers of it and what they should be

    def refuse_known(self) -> None:
        """Raise where it was found wrong before."""
        verdict = _verdicts.get(self._key)
        if verdict is not None and verdict.apart is not None:
            raise TogetherError(verdict.apart)

    def refuse_wrong(self, found: Any) -> None:
        """Compare what was found, unless this was done before; raise where it is wrong."""
        if self._key in _verdicts:
            return
        apart = _apart(*self.pair(found))
        key = self._key
        _verdicts[key] = _Verdict(ref(self.model, lambda _: _forget(key)), apart)
        self.refuse_known()

    @property
    def _key(self) -> "_Key":
        return id(self.model), self.kind, self.rows


def first_that_works(
    at_once: Callable[[Any], Any], one_by_one: Callable[[Any], Any], argument: Any, trial: Trial | None = None
) -> Any:
    """Try the vectorised form, else the loop, also where the trial finds it wrong; a failure of the loop is raised."""
    try:
        with undivided(), ignoring(*SLOWER):
            if trial is None:
                return at_once(argument)
            trial.refuse_known()
            found = at_once(argument)
            trial.refuse_wrong(found)
            return found
    except torch.OutOfMemoryError as error:
        raise NumericalError(
            f"out of device memory ({error}); give data as a DataLoader of smaller batches, or select= fewer parameters"
        ) from error
    except Exception:  # with vectorised tensors a model may raise anything
        try:
            return one_by_one(argument)
        except (RuntimeError, NotImplementedError) as error:
            raise DerivativeError(f"the model cannot be differentiated here: {error}") from error


def signs(*shape: int, like: Tensor) -> Tensor:
    """Random numbers to mix rows by, the same on every run."""
    return torch.randn(shape, generator=generator(0), dtype=torch.float64).to(like)


_Key = tuple[int, str, int]


@dataclass(frozen=True)
class _Verdict:
    model: Any  # a weak reference: an id is that of another object once this one is gone
    apart: str | None  # what was wrong


def _apart(found: Tensor, wanted: Tensor) -> str | None:
    """What is wrong in a sentence; None where both agree. What is not finite is refused elsewhere, with its rows."""
    found, wanted = found.detach(), wanted.detach().to(found)
    near, floor = NEAR.get(found.dtype, COARSE), FLOOR.get(found.dtype, COARSE)
    if found.device.type == "cuda" and found.dtype != torch.float64:
        near = floor = COARSE
    difference, size = (found - wanted).abs(), wanted.abs()
    largest = size.max() if size.numel() else torch.zeros(())
    if not bool(torch.isfinite(wanted).all()) or bool((difference <= near * size + floor * largest).all()):
        return None
    share = float((found - wanted).norm() / wanted.norm().clamp_min(1e-300))
    return f"torch's derivatives of several rows together are {share:.1e} apart, relative, from plain backward passes"


def _forget(key: _Key) -> None:
    _verdicts.pop(key, None)


_verdicts: dict[_Key, _Verdict] = {}
