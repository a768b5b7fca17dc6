"""The training data and curvature of a fitted method, kept for explanations and checks."""

from dataclasses import dataclass, field

from rue.calibrate.left_out.evidence import Source
from rue.core.concepts import CurvatureRule, Resampler
from rue.core.solve.choice import Inverted
from rue.data.rows import Rows
from rue.explain.lens import Lens
from rue.models.trees.leaf_influence import SampledTrees


@dataclass(frozen=True)
class Trained:
    """The training rows, and the factored curvature of methods that have one."""

    data: Rows = field(repr=False)
    curvature: CurvatureRule | None = None
    inverted: Inverted | None = field(default=None, repr=False)
    resampler: Resampler | None = None  # for methods whose spread comes from resampling
    lens: Lens | None = field(default=None, repr=False)  # for methods whose spread consists of influences
    source: Source | None = None  # of left-out predictions, for methods that calibrate by them
    seed: int | None = None  # for methods that draw random numbers
    residual: float | None = None  # relative, of the solves of `fit`; None for methods that solve later or never
    sampled_trees: SampledTrees | None = None  # for forests
