"""What a method was fitted to, kept for those who ask why, or whether the audit is to be believed."""

from dataclasses import dataclass, field

from rue.calibrate.left_out.evidence import Source
from rue.core.concepts import CurvatureRule, Resampler
from rue.core.solve.choice import Inverted
from rue.data.rows import Rows
from rue.explain.lens import Lens


@dataclass(frozen=True)
class Trained:
    """The training rows, and the factored curvature of methods that have one."""

    data: Rows = field(repr=False)
    curvature: CurvatureRule | None = None
    inverted: Inverted | None = field(default=None, repr=False)
    resampler: Resampler | None = None  # of methods whose spread is that of resampling
    lens: Lens | None = field(default=None, repr=False)  # of methods whose spread is made of influences
    source: Source | None = None  # of left-out predictions, of methods that calibrate by them
    seed: int | None = None  # of methods that draw anything
