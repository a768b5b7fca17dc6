"""What cells of a table never were in training: gaps in columns that had none, and words that no row had."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.core.stored import storable

SHOWN = 3  # columns that a sentence names
WORDS = 1000  # a column with more different words than this is free text


@storable
@dataclass(frozen=True)
class SeenCells:
    """The columns of a training table without a gap, and the words of those that hold words."""

    whole: NDArray[np.bool_] = field(repr=False)  # (p,)
    words: dict[Any, frozenset[Any]] = field(repr=False)  # by column of a frame

    @classmethod
    def of(cls, raw: Any) -> "SeenCells | None":
        """Look through a table; None for what is no frame and no array of numbers."""
        gaps = _gaps(raw)
        if gaps is None:
            return None
        named = raw.items() if hasattr(raw, "iloc") else ()
        words = {name: frozenset(column.dropna().unique()) for name, column in named if _of_words(column)}
        return cls(np.asarray(~gaps.any(axis=0)), {name: known for name, known in words.items() if len(known) <= WORDS})

    def strange(self, raw: Any) -> list[str]:
        """A sentence for each kind of cell that training never had."""
        gaps = _gaps(raw)
        if gaps is None or gaps.shape[1] != len(self.whole):
            return []
        names = list(raw.columns) if hasattr(raw, "iloc") else range(len(self.whole))
        empty = {name: int(count) for name, count in zip(names, (gaps & self.whole).sum(axis=0), strict=True) if count}
        new = {name: _unknown(raw[name], known) for name, known in self.words.items() if name in names}
        sentences = []
        for cells, what in (
            (empty, "are missing in columns that no training row lacks"),
            ({name: count for name, count in new.items() if count}, "hold words that no training row has"),
        ):
            if cells:
                listed = ", ".join(f"{name!r} ({count} rows)" for name, count in list(cells.items())[:SHOWN])
                sentences.append(
                    f"cells {what}: {listed}; what the model makes of them was never compared with a target, so that "
                    "scores and intervals of these rows may be too small"
                )
        return sentences


def _gaps(raw: Any) -> NDArray[np.bool_] | None:
    """Which cells of a frame or of an array of numbers are missing: (m, p)."""
    if hasattr(raw, "iloc") and getattr(raw, "ndim", 0) == 2 and raw.columns.is_unique:
        return np.asarray(raw.isna(), dtype=bool)
    if isinstance(raw, np.ndarray) and raw.ndim == 2 and raw.dtype.kind == "f":
        return np.asarray(np.isnan(raw))
    return None


def _of_words(column: Any) -> bool:
    return column.dtype == object or str(column.dtype) in ("string", "str", "category")


def _unknown(column: Any, known: frozenset[Any]) -> int:
    present = column.dropna()
    return int((~present.isin(known)).sum())
