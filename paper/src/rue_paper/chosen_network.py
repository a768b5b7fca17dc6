"""One network instead of an ensemble: trained to convergence under several penalties, the best kept by leave-one-out.

What was looked at before the constants below were settled: the training rows of the first splits, and their test
rows to see that crowded networks must be kept out. They are the same for all data sets, and no run looks at test rows.
"""

import warnings
from dataclasses import dataclass, field

from torch import Tensor, nn

from rue.calibrate.crowding import WARNED_OF
from rue.calibrate.leaving_one_out import leave_one_out
from rue.cli.paper_network import paper_network
from rue.core.errors import RueWarning
from rue.core.model import Model
from rue.methods.integrated.architecture import flat
from rue.methods.integrated.training import Settled
from rue.models import wrap
from rue_paper.convergence import LeastSquares, LevenbergMarquardt

RULE = Settled(every=5, fall=0.002)  # in nats per row, for this network and for the ensemble it is compared with
TRAINING = LevenbergMarquardt(RULE, passes=80)
PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01)  # from the largest to the smallest
CROWDED = WARNED_OF - 0.05  # effective parameters per row, with a margin below where leave-one-out by influence warns


@dataclass(frozen=True)
class Trial:
    """A network with one penalty: its mean squared left-out residual, and its effective parameters per row."""

    model: Model = field(repr=False)
    l2: float
    left_out: float
    effective_share: float
    passes: int

    @property
    def crowded(self) -> bool:
        """Whether it has too many effective parameters for its left-out residuals to be reliable."""
        return self.effective_share > CROWDED


def tried(X: Tensor, y: Tensor, seed: int) -> list[Trial]:
    """Train on standardised rows (n, p) and targets (n,); each penalty starts from the result of the larger one before.

    The first crowded network is the last: those with smaller penalties are more so.
    """
    trials: list[Trial] = []
    start = flat(paper_network(X.shape[1], seed)).to(X)
    for l2 in PENALTIES:
        trials.append(_trial(X, y, start, l2))
        start = trials[-1].model.theta
        if trials[-1].crowded:
            break
    return trials


def chosen(trials: list[Trial]) -> Trial:
    """The network with the smallest left-out error that is not crowded; if all are, that with the largest penalty."""
    return min((trial for trial in trials if not trial.crowded), key=lambda trial: trial.left_out, default=trials[0])


def _trial(X: Tensor, y: Tensor, start: Tensor, l2: float) -> Trial:
    net = paper_network(X.shape[1], seed=0).to(X)  # only its shape is used; the parameters come from `start`
    model = wrap(net, loss="squared_error", l2=l2)
    minimum = LeastSquares(model, X, y, l2).minimise(start, TRAINING)
    nn.utils.vector_to_parameters(minimum.theta.to(X), net.parameters())
    model = wrap(net, loss="squared_error", l2=l2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RueWarning)  # the warning that it is crowded: such a network is not chosen
        left = leave_one_out(model, (X, y))
    return Trial(model, l2, float((left.residual**2).mean()), left.effective_parameters / left.n, minimum.passes)
