"""Guarantee: what an interval, a set of classes or a policy promises, as words for people and as a value for code."""

from typing import Literal

Promise = Literal["guaranteed", "approximate", "none"]
"""Proven under the assumptions that the words name; close to the level by experience; or nothing."""


class Guarantee(str):
    """A sentence for people; code asks `promise` or `holds` and never reads the words.

    >>> Guarantee("guaranteed at least 90 %, for exchangeable data", "guaranteed").holds
    True
    """

    __slots__ = ("promise",)  # a str with one attribute and no others
    promise: Promise

    def __new__(cls, words: str, promise: Promise) -> "Guarantee":
        """The words, and how much they promise."""
        made = str.__new__(cls, words)
        made.promise = promise
        return made

    def __getnewargs__(self) -> tuple[str, Promise]:  # type: ignore[override]  # a copy needs the promise too
        return str(self), self.promise

    @property
    def holds(self) -> bool:
        """Whether anything is guaranteed."""
        return self.promise == "guaranteed"

    def also(self, words: str) -> "Guarantee":
        """The same promise with a remark after it."""
        return Guarantee(f"{self}{words}", self.promise)
