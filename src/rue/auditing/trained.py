"""The training data and curvature of a fitted method, kept for explanations and checks."""

from dataclasses import dataclass, field

from rue.calibrate.left_out.evidence import Source
from rue.core.concepts import CurvatureRule, Objective, Resampler
from rue.core.solve.choice import Inverted
from rue.core.stored import storable
from rue.data.cells import SeenCells
from rue.data.rows import Rows
from rue.explain.lens import Lens
from rue.models.trees.leaf_influence import SampledTrees


@storable
@dataclass(frozen=True)
class Solved:
    """The linear systems of a fit: the factored curvature of an objective whose gradient is zero."""

    inverted: Inverted = field(repr=False)
    objective: Objective = field(repr=False)
    residual: float | None = None  # the largest relative one; None where nothing is solved before an audit


@storable
@dataclass(frozen=True)
class Trained:
    """The training rows, and what a method made of them."""

    data: Rows = field(repr=False)
    curvature: CurvatureRule | None = None
    solved: Solved | None = None  # for methods with a curvature
    resampler: Resampler | None = None  # for methods whose spread comes from resampling
    lens: Lens | None = field(default=None, repr=False)  # for methods whose spread consists of influences
    source: Source | None = None  # of left-out predictions, for methods that calibrate by them
    seed: int | None = None  # for methods that draw random numbers
    sampled_trees: SampledTrees | None = None  # for forests
    cells: SeenCells | None = field(default=None, repr=False)  # of the training table
    fingerprint: str = ""  # tells fits apart; calibration by held-out rows does not change it

    @property
    def inverted(self) -> Inverted | None:
        """The factored curvature, for methods that have one."""
        return None if self.solved is None else self.solved.inverted
