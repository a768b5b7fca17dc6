"""Guarantee: what an interval, a set of classes or a policy promises, as a sentence and as a value."""

from typing import Literal

from rue.core.stored import storable

Promise = Literal["guaranteed", "approximate", "none"]
"""Proven under the assumptions that the sentence names; close to the level in experiments; or no promise."""


@storable
class Guarantee(str):
    """A sentence for people. Code reads `promise` or `holds`, never the words.

    >>> Guarantee("guaranteed at least 90 %, for exchangeable data", "guaranteed").holds
    True
    """

    __slots__ = ("promise",)  # a str with one attribute and no others
    promise: Promise

    def __new__(cls, words: str, promise: Promise) -> "Guarantee":
        """A sentence, and how much it promises."""
        guarantee = str.__new__(cls, words)
        guarantee.promise = promise
        return guarantee

    def __getnewargs__(self) -> tuple[str, Promise]:  # type: ignore[override]  # a copy needs the promise too
        return str(self), self.promise

    @property
    def holds(self) -> bool:
        """Whether anything is guaranteed."""
        return self.promise == "guaranteed"

    def also(self, words: str) -> "Guarantee":
        """The same promise with these words appended."""
        return Guarantee(f"{self}{words}", self.promise)
