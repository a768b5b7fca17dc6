"""A reader of Universal Binary JSON as XGBoost writes it in .ubj files: data only, no code is run."""

from dataclasses import dataclass
from typing import Any

import numpy as np

WHOLE = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8"}
NUMBERS = {**WHOLE, b"d": ">f4", b"D": ">f8"}
WORDS = {b"Z": None, b"T": True, b"F": False}
DEEPEST = 32  # levels of nesting; XGBoost's files have seven


def decode(data: bytes) -> Any:
    """The value, as JSON would give it, but with typed arrays as NumPy arrays; damaged data is a ValueError.

    >>> decode(b"{i\\x01a[$i#i\\x02\\x05\\x06i\\x01bSi\\x02hi}")
    {'a': array([5, 6], dtype=int8), 'b': 'hi'}
    """
    source = _Source(data)
    try:
        return source.value(source.take(1), 0)
    except ValueError as error:
        raise ValueError(f"no UBJSON: {error} at byte {source.at} of {len(data)}") from error


@dataclass
class _Source:
    """Bytes, and how far they have been read."""

    data: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if not 0 <= count <= len(self.data) - self.at:
            raise ValueError(f"{count} bytes announced, {len(self.data) - self.at} left")
        self.at += count
        return self.data[self.at - count : self.at]

    def value(self, marker: bytes, depth: int) -> Any:
        """The value that follows the marker of its type."""
        if depth > DEEPEST:
            raise ValueError(f"nested deeper than {DEEPEST} levels")
        if marker == b"{":
            return self._object(depth)
        if marker == b"[":
            return self._array(depth)
        if marker == b"S":
            return self._text()
        return WORDS[marker] if marker in WORDS else self._number(marker, NUMBERS)

    def _number(self, marker: bytes, known: dict[bytes, str]) -> Any:
        if marker not in known:
            raise ValueError(f"unknown type {marker!r}")
        dtype = np.dtype(known[marker])
        return np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()

    def _length(self) -> int:
        return int(self._number(self.take(1), WHOLE))

    def _text(self) -> str:
        return self.take(self._length()).decode()

    def _skip(self, marker: bytes) -> bool:
        """Whether this marker comes next; if so, move past it."""
        comes = self.data[self.at : self.at + 1] == marker
        self.at += comes
        return comes

    def _array(self, depth: int) -> Any:
        if self._skip(b"$"):
            kind = self.take(1)
            if kind not in NUMBERS or not self._skip(b"#"):
                raise ValueError(f"an array of type {kind!r}, or without a length")
            dtype = np.dtype(NUMBERS[kind])
            return np.frombuffer(self.take(self._length() * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        if self._skip(b"#"):  # every value takes a byte at least: a length beyond the file ends at its end
            return [self.value(self.take(1), depth + 1) for _ in range(self._length())]
        values = []
        while not self._skip(b"]"):
            values.append(self.value(self.take(1), depth + 1))
        return values

    def _object(self, depth: int) -> dict[str, Any]:
        pairs: dict[str, Any] = {}
        while not self._skip(b"}"):
            name = self._text()
            if name in pairs:
                raise ValueError(f"{name!r} twice in one object")
            pairs[name] = self.value(self.take(1), depth + 1)
        return pairs
