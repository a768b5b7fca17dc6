"""Explicit, local randomness: generators from seeds, and the global random state left unchanged."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def generator(seed: int) -> torch.Generator:
    """Return a generator on the CPU, so that one seed gives the same draws on every device."""
    return torch.Generator(device="cpu").manual_seed(seed)


@contextmanager
def untouched() -> Iterator[None]:
    """Restore the random state of Python, NumPy and PyTorch after the block."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002  the global state is the point
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002  as above
        torch.set_rng_state(cpu)
        if devices:
            torch.cuda.set_rng_state_all(devices)
