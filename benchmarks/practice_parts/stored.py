"""Files that appear whole or not at all, so that a run which was interrupted goes on where it stopped."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    temporary = _beside(path)
    with temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    temporary.replace(path)


def write_json(path: Path, content: Any) -> None:
    temporary = _beside(path)
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _beside(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{path.name}.{os.getpid()}")
