"""Methods that train networks of their own: one file each. A new one is a file and a line in `INTEGRATED`."""

from collections.abc import Callable
from typing import Any

from rue.methods.integrated.deep_ensemble import DeepEnsemble
from rue.methods.integrated.mc_dropout import MCDropout
from rue.methods.integrated.pbp import PBP
from rue.methods.integrated.refit_bootstrap import RefitBootstrap
from rue.methods.integrated.training import Adam

INTEGRATED: dict[str, Callable[[], Any]] = {
    "PBP": PBP,
    "MC dropout": MCDropout,
    "Deep ensemble": DeepEnsemble,
    "Refit bootstrap": RefitBootstrap,
}

__all__ = ["INTEGRATED", "PBP", "Adam", "DeepEnsemble", "MCDropout", "RefitBootstrap"]
