"""A reader of Universal Binary JSON, the format of XGBoost's .ubj files: data only, no code is run."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rue.core.errors import ModelError

NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
WORDS = {b"Z": None, b"T": True, b"F": False}


def decode(data: bytes) -> Any:
    """What JSON would have held; arrays of one type of number become NumPy arrays.

    >>> decode(b"{i\\x01a[$i#i\\x02\\x05\\x06i\\x01bSi\\x02hi}")
    {'a': array([5, 6], dtype=int8), 'b': 'hi'}
    """
    source = _Source(data)
    try:
        return source.value(source.take(1))
    except (IndexError, ValueError, KeyError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(
            f"not a UBJSON file, or a broken one ({error!r} at byte {source.at} of {len(data)}); save the model again"
        ) from error


@dataclass
class _Source:
    """Bytes, and how far they have been read."""

    data: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or self.at + count > len(self.data):
            raise IndexError(f"{count} bytes wanted")
        self.at += count
        return self.data[self.at - count : self.at]

    def value(self, marker: bytes) -> Any:
        """A value whose type is known."""
        if marker == b"{":
            return self._object()
        if marker == b"[":
            return self._array()
        if marker in (b"S", b"H"):
            return self._text()
        if marker == b"C":
            return self.take(1).decode()
        return WORDS[marker] if marker in WORDS else self._number(marker)

    def _number(self, marker: bytes) -> int | float:
        kind = np.dtype(NUMBERS[marker])
        found: int | float = np.frombuffer(self.take(kind.itemsize), kind)[0].item()
        return found

    def _length(self) -> int:
        return int(self._number(self.take(1)))

    def _text(self) -> str:
        return self.take(self._length()).decode()

    def _counted(self) -> tuple[bytes | None, int | None]:
        """The type and the number of what follows, where they are said beforehand."""
        kind = count = None
        if self.data[self.at : self.at + 1] == b"$":
            self.take(1)
            kind = self.take(1)
        if self.data[self.at : self.at + 1] == b"#":
            self.take(1)
            count = self._length()
        return kind, count

    def _array(self) -> Any:
        kind, count = self._counted()
        if kind in NUMBERS and count is not None:
            dtype = np.dtype(NUMBERS[kind])
            return np.frombuffer(self.take(count * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        if count is not None:
            return [self.value(kind or self.take(1)) for _ in range(count)]
        found = []
        while (marker := self.take(1)) != b"]":
            found.append(self.value(marker))
        return found

    def _object(self) -> dict[str, Any]:
        kind, count = self._counted()
        found: dict[str, Any] = {}
        while count is None or len(found) < count:
            if count is None and self.data[self.at : self.at + 1] == b"}":
                self.take(1)
                break
            name = self._text()
            found[name] = self.value(kind or self.take(1))
        return found
