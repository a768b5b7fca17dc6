"""Policy: a threshold chosen on held-out rows, its guarantee and the measured error rate."""

from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rue.core.errors import InputError, SettingError
from rue.core.guarantee import Guarantee
from rue.core.settings import check_level
from rue.core.stored import read_again, storable, written
from rue.core.stored_file import read_file, write_file
from rue.policy import chow, error_rate_control, risk_control
from rue.policy.bounds import lower_limit, upper_limit
from rue.policy.decision import TieredDecision
from rue.policy.held_out import OrderedRows, Scored, auditor_of, ordered, read
from rue.policy.losses import BoundedLoss

KIND = "policy"  # of files
TAIL = 0.025  # on each side of a measured rate, for 95 % intervals
INDEPENDENT = "for independent rows of one population"
EXCHANGEABLE = "marginal, for exchangeable data"
MEASURED = "95 % interval"
CHOSEN = "95 % interval had the threshold been fixed beforehand"


@storable
class Estimate(NamedTuple):
    """A mean over n held-out rows, its limits, and what they guarantee, in words."""

    value: float
    low: float
    high: float
    n: int
    guarantee: str


@storable
@dataclass(frozen=True)
class Policy:
    """Accept scores up to `threshold`, review those above, refuse those above `limit`, the largest held-out score.

    Of n held-out rows, `accepted` were accepted, with a mean loss of `error_rate`. Where nothing is accepted,
    `threshold` is minus infinity and `shortfall` says why.
    """

    threshold: float
    limit: float
    guarantee: Guarantee
    n: int
    accepted: int
    error_rate: Estimate | None = None
    loss: str = ""
    cost: chow.Cost | None = None
    shortfall: str = ""
    auditor: str = ""  # the fingerprint of the auditor whose scores it was chosen by

    def save(self, path: str | Path) -> None:
        """Write the policy to one file of data, whole or not at all; `Policy.load` reads it."""
        write_file(path, KIND, {"threshold": str(self.threshold), "audit": self.auditor}, {"policy": written(self)})

    @classmethod
    def load(cls, path: str | Path) -> "Policy":
        """The policy in a file.

        >>> from tempfile import TemporaryDirectory
        >>> policy = Policy(1.5, 2.0, Guarantee("none", "none"), 10, 8)
        >>> with TemporaryDirectory() as folder:
        ...     policy.save(f"{folder}/accept.rue")
        ...     Policy.load(f"{folder}/accept.rue") == policy
        True
        """
        found = read_again(read_file(path, KIND).parts["policy"])
        if not isinstance(found, cls):
            raise InputError(f"{str(path)!r} holds no policy; save it again")
        return found

    @classmethod
    def by_cost(
        cls, held_out: Scored, y: ArrayLike, loss: BoundedLoss, *, error: float, review: float, confidence: float = 0.9
    ) -> "Policy":
        """Choose the threshold with the least mean cost: `error` per accepted loss of 1, `review` per row not accepted.

        >>> from types import SimpleNamespace
        >>> from rue.policy import Exceeds
        >>> audit = SimpleNamespace(score=[1, 2, 3, 4], prediction=[0, 0, 0, 0], scarce=None)
        >>> Policy.by_cost(audit, [0, 0, 9, 9], Exceeds(1.0), error=10, review=1).cost.value  # two reviews of four
        0.5
        """
        check_level("confidence", confidence)
        if not 0 < review < error < np.inf:
            raise SettingError(
                f"an error costs {error:g} and a review {review:g}, expected 0 < review < error; where an error costs "
                "no more than a review, accept everything"
            )
        rows, prices = ordered(held_out, y, loss), chow.Prices(error, review)
        index = chow.cheapest_threshold(rows, prices)
        cost = chow.cost(rows, index, prices, 1 - confidence, loss.binary)
        if index is None:
            return replace(
                _at(rows, None),
                guarantee=Guarantee(f"every row costs a review, {review:g}", "none"),
                cost=cost,
                shortfall=f"on {rows.n} held-out rows no threshold costs less than reviewing everything",
            )
        text = (
            f"guaranteed with confidence {confidence:.0%}, {INDEPENDENT}: the expected cost of a new row is at most "
            f"{cost.high:.3g} ({rows.n} held-out rows); reviewing everything costs {review:g}"
        )
        return replace(_with_loss(rows, index, loss), guarantee=_promised(rows, text), cost=cost)

    @classmethod
    def by_risk(cls, held_out: Scored, y: ArrayLike, loss: BoundedLoss, *, risk: float) -> "Policy":
        """Choose the highest threshold that keeps E[loss · accepted], over all rows, within risk.

        >>> from types import SimpleNamespace
        >>> from rue.policy import Exceeds
        >>> audit = SimpleNamespace(score=[1, 2, 3, 4], prediction=[0, 0, 0, 0], scarce=None)
        >>> Policy.by_risk(audit, [0, 0, 9, 9], Exceeds(1.0), risk=0.4).threshold  # (1 + 1) / (4 + 1) is within 0.4
        3.0
        """
        check_level("risk", risk)
        rows = ordered(held_out, y, loss)
        index = risk_control.highest_threshold(rows, risk)
        text = (
            f"guaranteed, {EXCHANGEABLE}: the expected loss of a new row, 0 where it is not accepted, is at most "
            f"{risk:g} (conformal risk control, {rows.n} held-out rows)"
        )
        short = risk_control.risk_shortfall(rows, risk) if index is None else ""
        return replace(_with_loss(rows, index, loss), guarantee=_promised(rows, text), shortfall=short)

    @classmethod
    def by_error_rate(
        cls, held_out: Scored, y: ArrayLike, loss: BoundedLoss, *, rate: float, confidence: float = 0.9
    ) -> "Policy":
        """Choose a high threshold that keeps E[loss | accepted] within rate, with this confidence.

        >>> from types import SimpleNamespace
        >>> from rue.policy import Exceeds
        >>> audit = SimpleNamespace(score=range(100), prediction=[0] * 100, scarce=None)
        >>> Policy.by_error_rate(audit, [0] * 100, Exceeds(1.0), rate=0.1).accepted  # 0.9 ** 49 < 0.1 / 3
        100
        """
        check_level("rate", rate)
        check_level("confidence", confidence)
        rows = ordered(held_out, y, loss)
        index = error_rate_control.highest_threshold(rows, rate, 1 - confidence, loss.binary)
        text = (
            f"guaranteed with confidence {confidence:.0%}, {INDEPENDENT}: the expected loss of an accepted row is at "
            f"most {rate:g} (Learn then Test, {rows.n} held-out rows)"
        )
        short = error_rate_control.rate_shortfall(rows, rate, 1 - confidence, loss.binary) if index is None else ""
        return replace(_with_loss(rows, index, loss), guarantee=_promised(rows, text), shortfall=short)

    @classmethod
    def by_share(
        cls, held_out: Scored, y: ArrayLike | None = None, loss: BoundedLoss | None = None, *, share: float
    ) -> "Policy":
        """Review or refuse at most this share of the rows; y and loss are only used to measure the error rate.

        >>> from types import SimpleNamespace
        >>> audit = SimpleNamespace(score=[1, 2, 3, 4], prediction=[0, 0, 0, 0], scarce=None)
        >>> Policy.by_share(audit, share=0.4).threshold  # one of four and the new row: 2 / 5
        3.0
        """
        check_level("share", share)
        if (y is None) != (loss is None):
            raise SettingError("one of y and loss is missing; give both to measure the error rate, or neither")
        rows = ordered(held_out, y, loss)
        index = risk_control.lowest_threshold(rows, share)
        if index is None:
            least = (rows.scarce + 1) / (rows.n + 1)
            raise SettingError(
                f"a share of {share:g} cannot be kept with {rows.n} held-out rows, {rows.scarce} of them scarce: a new "
                "row may score highest",
                f"allow at least {ceil(1000 * least) / 1000:g} or hold out more rows",
            )
        text = (
            f"guaranteed, {EXCHANGEABLE}: a new row is not accepted with probability at most {share:g} ({rows.n} "
            "held-out rows); nothing on the errors of those accepted"
        )
        policy = _at(rows, index) if loss is None else _with_loss(rows, index, loss, MEASURED)
        return replace(policy, guarantee=_promised(rows, text))

    def decide(self, audit: Scored) -> TieredDecision:
        """Accept, review or refuse each audited prediction.

        >>> from types import SimpleNamespace
        >>> audit = SimpleNamespace(score=[1, 2, 3, 4], prediction=[0, 0, 0, 0], scarce=None)
        >>> Policy.by_share(audit, share=0.4).decide(audit).tier.tolist()
        ['accept', 'accept', 'accept', 'review']
        """
        score, scarce = read(audit)
        other = auditor_of(audit)
        if self.auditor and other and other != self.auditor:
            raise InputError(
                "this policy was chosen by the scores of another auditor (another method or model, or this one before "
                "it was calibrated), whose threshold means nothing here; choose a policy by held-out rows of this one"
            )
        tier = np.where(score <= self.threshold, "accept", "review")
        tier[scarce | (score > self.limit)] = "refuse"
        return TieredDecision(tier, score, np.asarray(audit.prediction), scarce, self)

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is accepted and refused, what is guaranteed, and what was measured."""
        share = 1 - self.accepted / self.n
        some = (
            f"Accepts scores up to {self.threshold:.4g}, {self.accepted} of {self.n} held-out rows; the rest, "
            f"{share:.1%}, is for review."
        )
        lines = [
            f"Accepts nothing: {self.shortfall}." if self.shortfall else some,
            f"Refuses scores above {self.limit:.4g}, beyond all {self.n} held-out rows, and inputs marked scarce.",
            f"{self.guarantee[0].upper()}{self.guarantee[1:]}.",
        ]
        if self.error_rate is not None:
            value, low, high, n, guarantee = self.error_rate
            lines.append(
                f"Mean loss ({self.loss}) of the {n} accepted held-out rows: {value:.3g} "
                f"({low:.3g} to {high:.3g}, {guarantee})."
            )
        if self.cost is not None:
            lines.append(f"Mean cost of the {self.n} held-out rows: {self.cost.value:.3g}.")
        return tuple(lines)


def _promised(rows: OrderedRows, text: str) -> Guarantee:
    """The guarantee, or none where the rows were not held out."""
    if rows.doubts:
        return Guarantee(f"none: {'; '.join(rows.doubts)}", "none")
    return Guarantee(text, "guaranteed")


def _at(rows: OrderedRows, index: int | None) -> Policy:
    """A policy with its threshold, without measured losses."""
    threshold, accepted = (-np.inf, 0) if index is None else (float(rows.score[index]), int(rows.accepted[index]))
    return Policy(threshold, float(rows.score[-1]), Guarantee("", "none"), rows.n, accepted, auditor=rows.auditor)


def _with_loss(rows: OrderedRows, index: int | None, loss: BoundedLoss, guarantee: str = CHOSEN) -> Policy:
    """A policy with the mean loss of accepted rows; its limits leave out the row that set the threshold."""
    policy = _at(rows, index)
    if index is None:
        return replace(policy, loss=str(loss))
    n = policy.accepted
    total, least, most = float(rows.total[index]), float(rows.least[index]), float(rows.most[index])
    low = lower_limit(total - most, n - 1, TAIL, loss.binary)
    high = upper_limit(total - least, n - 1, TAIL, loss.binary)
    return replace(policy, error_rate=Estimate(total / n, low, high, n, guarantee), loss=str(loss))
