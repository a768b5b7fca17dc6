"""Policies against brute force, their guarantees by enumeration and by simulation, and the laws they must obey."""

from dataclasses import dataclass
from math import ceil, comb, e, exp, log, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from rue.core.errors import DataError, InputError, SettingError, ShapeError
from rue.policy import Clipped, Exceeds, Policy, Wrong, bounds

WRONG = Exceeds(0.5)  # with predictions of zero and targets of 0 or 1, the targets are the losses
SIZE = Clipped(1.0)


@dataclass(frozen=True)
class Fake:
    """An audit of a model that always says zero."""

    score: np.ndarray
    prediction: np.ndarray
    scarce: np.ndarray | None = None


def audited(score, scarce=None):
    score = np.asarray(score, dtype=float)
    return Fake(score, np.zeros(len(score)), None if scarce is None else np.asarray(scarce, dtype=bool))


# few distinct scores, so that ties are common
tied = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), min_size=1, max_size=30).map(np.transpose)
sized = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 8)), min_size=1, max_size=30).map(
    lambda rows: np.transpose(rows) / np.array([[1], [8]])  # losses in eighths: their sums are exact
)
target = st.integers(1, 19).map(lambda step: step / 20)
order = st.randoms(use_true_random=False)


def accepts(policy, score):
    return np.asarray(score) <= policy.threshold


# ------------------------------------------------------------------------------------------ by brute force


def candidates(score):
    """Every threshold that matters, from accepting nothing."""
    return [-np.inf, *sorted({float(s) for s in score})]


@given(sized, target)
def test_by_risk_accepts_the_most_that_leaves_room_for_one_more_loss(rows, risk):
    score, loss = rows
    fits = [
        t
        for t in candidates(score)
        if t == -np.inf
        or sum(x for s, x in zip(score, loss, strict=True) if s <= t) + 1 <= risk * (len(score) + 1) + 1e-9
    ]
    assert Policy.by_risk(audited(score), loss, SIZE, risk=risk).threshold == max(fits)


@given(tied, target)
def test_by_share_is_the_conformal_quantile_of_the_scores(rows, share):
    score = rows[0]
    n = len(score)
    rank = ceil((1 - share) * (n + 1) - 1e-9)  # of the n scores and one at infinity
    if rank > n:
        with pytest.raises(SettingError):
            Policy.by_share(audited(score), share=share)
    else:
        assert Policy.by_share(audited(score), share=share).threshold == sorted(score)[rank - 1]


def test_what_is_accepted_and_reviewed_is_said_as_shares_of_the_held_out_rows():
    policy = Policy.by_share(audited(np.arange(8)), share=0.3)
    assert "7 of 8 held-out rows; the rest, 12.5%, is for review" in str(policy)


def test_a_row_with_one_unknown_target_of_two_is_counted():
    audit = Fake(np.arange(3.0), np.zeros((3, 2)))
    with pytest.raises(DataError, match="NaN or infinite in 1 of 3 rows"):
        Policy.by_risk(audit, np.array([[0, 1], [np.nan, 0], [1, 1]]), SIZE, risk=0.3)


@given(sized, st.integers(2, 20), st.sampled_from([0.25, 1.0, 1.75]))
def test_by_cost_has_the_smallest_cost_of_all_thresholds(rows, error, review):
    score, loss = rows

    def cost(t):
        return sum(error * x if s <= t else review for s, x in zip(score, loss, strict=True)) / len(score)

    policy = Policy.by_cost(audited(score), loss, SIZE, error=error, review=review)
    best = min(candidates(score), key=lambda t: (round(cost(t), 9), t))
    assert policy.threshold == best
    assert policy.cost.value == pytest.approx(cost(best), abs=1e-12)


def binomial_tail(k, n, p):
    return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(int(k) + 1))


def hoeffding_bentkus(total, n, rate):
    mean = min(total / n, rate)
    divergence = 0.0 if mean == 0 else mean * log(mean / rate)
    divergence += 0.0 if mean == 1 else (1 - mean) * log((1 - mean) / (1 - rate))
    return min(1.0, exp(-n * divergence), e * binomial_tail(ceil(total), n, rate))


def fixed_sequences(score, loss, rate, tail, test):
    """Learn then Test over the twentieths of the rows from a quarter, a half and three quarters, in plain loops."""
    m, reached = len(score), [-np.inf]
    for start in (5, 10, 15):
        for step in range(start, 21):
            t = sorted(score)[ceil(m * step / 20) - 1]
            up_to = [x for s, x in zip(score, loss, strict=True) if s <= t]
            at = [x for s, x in zip(score, loss, strict=True) if s == t]
            n = len(up_to) - 1
            if n == 0 or test(sum(up_to) - min(at), n, rate) > tail / 3:
                break
            reached.append(t)
    return max(reached)


many = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@given(many, st.sampled_from([0.1, 0.2, 0.3]), st.sampled_from([0.8, 0.9]), st.integers(5, 120))
def test_by_error_rate_is_three_fixed_sequences_written_out(random, rate, confidence, n):
    score = random.integers(0, 60, n)
    loss = (random.random(n) < 0.4 * score / 60).astype(float)
    for losses, how, test in ((loss, WRONG, binomial_tail), (loss * 0.5, SIZE, hoeffding_bentkus)):
        found = Policy.by_error_rate(audited(score), losses, how, rate=rate, confidence=confidence)
        assert found.threshold == fixed_sequences(score, losses, rate, 1 - confidence, test)


def test_the_row_that_sets_a_threshold_is_no_witness_for_it():
    """Three quarters of 44 rows are 33; 0.9³³ is below a third of 0.095, and 0.9³², without that row, is not."""
    audit = audited(np.arange(44.0))
    assert Policy.by_error_rate(audit, np.zeros(44), WRONG, rate=0.1, confidence=0.905).accepted == 0
    assert Policy.by_error_rate(audit, np.zeros(44), WRONG, rate=0.1, confidence=0.895).accepted == 44


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.01, 0.99))
def test_p_values_are_the_binomial_tail_and_that_of_hoeffding_and_bentkus(rows, rate):
    k, n = rows
    assert bounds.p_value(k, n, rate, binary=True) == pytest.approx(stats.binom.cdf(k, n, rate), abs=1e-12)
    assert bounds.p_value(k / 2, n, rate, binary=False) == pytest.approx(hoeffding_bentkus(k / 2, n, rate), rel=1e-9)


def clopper_pearson(k, n):
    return stats.binomtest(int(k), int(n)).proportion_ci(0.95, method="exact")


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_limits_of_a_share_are_those_of_clopper_and_pearson(rows):
    k, n = rows
    low, high = clopper_pearson(k, n)
    assert bounds.lower_limit(k, n, 0.025, binary=True) == pytest.approx(low, abs=1e-9)
    assert bounds.upper_limit(k, n, 0.025, binary=True) == pytest.approx(high, abs=1e-9)


def test_the_interval_of_a_share_leaves_out_the_row_that_set_the_threshold():
    score, loss = np.arange(50), np.arange(50) % 5 == 0
    policy = Policy.by_share(audited(score), loss, WRONG, share=0.4)
    assert policy.threshold == 30  # 19 above and the new row: 20 / 51
    expected = clopper_pearson(6, 30)  # row 30, wrong, left out of 31 with 7
    assert (policy.error_rate.value, policy.error_rate.n) == (7 / 31, 31)
    assert (policy.error_rate.low, policy.error_rate.high) == pytest.approx(expected, abs=1e-9)


def test_of_rows_tied_at_the_threshold_the_one_that_says_least_is_left_out():
    """Ten rows of one score, three of them wrong: below, without a wrong one; above, without a right one."""
    loss = np.arange(10) % 4 == 1
    policy = Policy.by_share(audited(np.ones(10)), loss, WRONG, share=0.5)
    assert (policy.error_rate.value, policy.error_rate.n) == (0.3, 10)
    assert policy.error_rate.low == pytest.approx(clopper_pearson(2, 9).low, abs=1e-9)
    assert policy.error_rate.high == pytest.approx(clopper_pearson(3, 9).high, abs=1e-9)


def test_the_limit_of_the_cost_is_that_of_the_loss_and_that_of_the_share():
    score, loss = np.arange(500), np.arange(500) % 50 == 49
    policy = Policy.by_cost(audited(score), loss, WRONG, error=10, review=1, confidence=0.9)
    assert policy.threshold == 498  # the last row is wrong; the others have one error in fifty, worth 0.2 reviews
    levels = 10 ** (-3 + 3 * np.arange(1, 101) / 100)
    risk = min(g for g in levels if stats.binom.cdf(9, 500, g) <= 0.05 / 100)
    share = 1 / 500 + sqrt(log(1 / 0.05) / 1000)
    assert policy.cost.high == pytest.approx(10 * risk + share, rel=1e-12)


# ------------------------------------------------------------------------------------------ finite-sample guarantees


def each_row_new(score, loss, choose):
    """Mean over the rows of what happens to each when all the others are held out: exchangeability, written out."""
    outcome = []
    for i in range(len(score)):
        rest = np.arange(len(score)) != i
        outcome.append((loss[i], bool(accepts(choose(audited(score[rest]), loss[rest]), score[i]))))
    return outcome


several = sized.filter(lambda rows: rows.shape[1] > 1)


@given(several, target)
def test_the_risk_of_a_row_exchangeable_with_the_held_out_ones_is_within_the_target(rows, risk):
    score, loss = rows
    outcome = each_row_new(score, loss, lambda audit, y: Policy.by_risk(audit, y, SIZE, risk=risk))
    assert np.mean([x * accepted for x, accepted in outcome]) <= risk + 1e-9


@given(several, target)
def test_the_share_referred_of_exchangeable_rows_is_within_the_target(rows, share):
    score, loss = rows
    assume(share * len(score) >= 1)  # the rest is refused: see above
    outcome = each_row_new(score, loss, lambda audit, _: Policy.by_share(audit, share=share))
    assert np.mean([not accepted for _, accepted in outcome]) <= share + 1e-9


def test_without_ties_neither_guarantee_wastes_more_than_a_row():
    """Twenty rows, one more wrong than the target allows: every accepted error is used; the same for referrals."""
    score, loss = np.arange(20.0), np.ones(20)
    risk = each_row_new(score, loss, lambda audit, y: Policy.by_risk(audit, y, SIZE, risk=0.25))
    assert sum(accepted for _, accepted in risk) == 4  # of five allowed; a threshold is a held-out score
    share = each_row_new(score, loss, lambda audit, _: Policy.by_share(audit, share=0.25))
    assert sum(not accepted for _, accepted in share) == 5


def drawn(random, n):
    """Scores uniform on [0, 1], wrong with probability 0.2 · score: the error rate up to t is 0.1 · t."""
    score = random.random(n)
    return score, (random.random(n) < 0.2 * score).astype(float)


def simulated(repetitions, n, choose, draw=drawn, seed=0):
    random = np.random.default_rng(seed)
    return [choose(audited(score), loss) for score, loss in (draw(random, n) for _ in range(repetitions))]


def reach(policies):
    """Thresholds in [0, 1], 0 where nothing is accepted."""
    return np.array([max(policy.threshold, 0.0) for policy in policies])


@pytest.mark.parametrize("n", [40, 200])
def test_by_risk_keeps_its_target_on_average_and_comes_close(n):
    """False alarms: less than one in 10⁴ (four standard errors)."""
    policies = simulated(1500, n, lambda audit, y: Policy.by_risk(audit, y, WRONG, risk=0.05))
    risk = 0.1 * reach(policies) ** 2  # E[wrong · accepted] at the threshold
    doubt = risk.std() / sqrt(len(risk))
    assert risk.mean() <= 0.05 + 4 * doubt
    assert risk.mean() >= 0.05 - 2 / (n + 1) - 4 * doubt


def test_by_share_keeps_its_target_on_average_and_comes_close():
    """False alarms: less than one in 10⁴ (four standard errors)."""
    referred = 1 - reach(simulated(1500, 50, lambda audit, _: Policy.by_share(audit, share=0.2)))
    doubt = referred.std() / sqrt(len(referred))
    assert 0.2 - 1 / 51 - 4 * doubt <= referred.mean() <= 0.2 + 4 * doubt


def exceeded(violations, repetitions, tail):
    """Whether so many violations would happen less than once in 10⁴ simulations if the guarantee held."""
    return violations > stats.binom.isf(1e-4, repetitions, tail)


def test_by_error_rate_is_exceeded_no_more_often_than_it_says():
    """The error rate up to t is 0.1 · t: above a threshold of 0.5 the target of 0.05 is missed."""
    found = reach(
        simulated(400, 1000, lambda audit, y: Policy.by_error_rate(audit, y, WRONG, rate=0.05, confidence=0.8))
    )
    assert not exceeded((found > 0.5).sum(), 400, 0.2)
    assert (found > 0).mean() > 0.5  # and it is of use: mostly something is accepted,
    assert found[found > 0].mean() > 0.25  # more than half of what one could who knew the population


def on_the_edge(random, n):
    """The error rate is the target, 0.1, up to every threshold but for a hair: as many false rejections as may be."""
    return random.random(n), (random.random(n) < 0.1 + 1e-9).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9])
def test_by_error_rate_uses_its_level_where_every_threshold_is_wrong(confidence):
    found = reach(
        simulated(
            4000,
            300,
            lambda audit, y: Policy.by_error_rate(audit, y, WRONG, rate=0.1, confidence=confidence),
            on_the_edge,
        )
    )
    assert not exceeded((found > 0).sum(), 4000, 1 - confidence)
    assert (found > 0).mean() > 0.4 * (1 - confidence)  # three starts share the level, and tails jump


def stepped(random, n):
    """Five tied scores; the error rate up to each is 0.02, 0.11, 0.09, 0.12, 0.1: in and out of the target of 0.1."""
    level = random.integers(0, 5, n)
    local = np.array([0.02, 0.2, 0.05, 0.21, 0.02])[level]
    return level / 4, (random.random(n) < local).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 150, 400])
def test_by_error_rate_keeps_its_level_with_ties_and_a_rate_that_is_not_monotone(n):
    policies = simulated(3000, n, lambda audit, y: Policy.by_error_rate(audit, y, WRONG, rate=0.1), stepped)
    violations = sum(policy.threshold in (0.25, 0.75) for policy in policies)
    assert not exceeded(violations, 3000, 0.1)


def winding(random, n):
    """Untied scores, an error rate that goes above the target of 0.1 and below it three times."""
    score = random.random(n)
    return score, (random.random(n) < 0.1 + 0.09 * np.sin(6 * np.pi * score)).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 150, 400])
def test_by_error_rate_keeps_its_level_where_the_rate_winds_about_the_target(n):
    policies = simulated(3000, n, lambda audit, y: Policy.by_error_rate(audit, y, WRONG, rate=0.1), winding)
    violations = (reach(policies) > 0).sum()  # ∫ sin from 0 is never negative: every threshold is above the target
    assert not exceeded(violations, 3000, 0.1)


@pytest.mark.slow
def test_by_error_rate_holds_for_losses_between_zero_and_one():
    def draw(random, n):
        score = random.random(n)
        return score, 0.4 * score * random.random(n)  # mean 0.2 · score, so 0.1 · t up to t

    found = reach(simulated(1000, 3000, lambda audit, y: Policy.by_error_rate(audit, y, SIZE, rate=0.05), draw))
    assert not exceeded((found > 0.5).sum(), 1000, 0.1)
    assert found.mean() > 0.2  # Hoeffding and Bentkus know nothing of how small these losses' variance is


@pytest.mark.parametrize("n", [100, 1000])
def test_the_cost_of_the_chosen_threshold_is_within_its_limit(n):
    """The cost at t is 10 · 0.1 t² + 1 − t, smallest at ½ where an error, of probability 0.1, costs as a review."""
    policies = simulated(300, n, lambda audit, y: Policy.by_cost(audit, y, WRONG, error=10, review=1, confidence=0.5))
    t = reach(policies)
    true = t**2 + 1 - t
    violations = (true > [policy.cost.high for policy in policies]).sum()
    assert not exceeded(violations, 300, 0.5)
    assert true.mean() < {100: 0.82, 1000: 0.77}[n]  # 0.75 for who knows the population


def test_by_cost_finds_the_threshold_of_chow():
    score, loss = drawn(np.random.default_rng(0), 100_000)
    policy = Policy.by_cost(audited(score), loss, WRONG, error=20, review=1)
    assert policy.threshold == pytest.approx(0.25, abs=0.03)  # where 20 · 0.2 · score = 1
    assert policy.cost.value < policy.cost.high < 1.1 * policy.cost.value


# ------------------------------------------------------------------------------------------ laws


RULES = {
    "cost": lambda audit, y: Policy.by_cost(audit, y, SIZE, error=7, review=1),
    "risk": lambda audit, y: Policy.by_risk(audit, y, SIZE, risk=0.15),
    "error rate": lambda audit, y: Policy.by_error_rate(audit, y, SIZE, rate=0.3, confidence=0.6),
    "share": lambda audit, y: Policy.by_share(audit, y, SIZE, share=0.5),
}
each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())


@each_rule
@given(rows=several, random=order)
def test_the_order_of_the_rows_does_not_count(rule, rows, random):
    score, loss = rows
    shuffled = random.sample(range(len(score)), len(score))
    assert rule(audited(score[shuffled]), loss[shuffled]) == rule(audited(score), loss)


@each_rule
@given(rows=several)
def test_an_increasing_transform_of_the_score_accepts_the_same_rows(rule, rows):
    score, loss = rows
    once, again = rule(audited(score), loss), rule(audited(np.exp(score) - 5), loss)
    assert (accepts(once, score) == accepts(again, np.exp(score) - 5)).all()
    assert (once.error_rate, once.cost) == (again.error_rate, again.cost)


@each_rule
@given(rows=several)
def test_a_scarce_row_counts_as_one_that_no_threshold_accepts(rule, rows):
    score, loss = rows
    scarce = np.arange(len(score)) % 3 == 2
    found = rule(audited(score, scarce), loss)
    highest = np.where(scarce, score.max() + 1, score)
    assert accepts(found, highest).sum() == found.accepted
    assert (found.n, found.limit) == (len(score), score[~scarce].max())


@given(several, target, target)
def test_a_larger_target_never_accepts_less(rows, first, second):
    (score, loss), (small, large) = rows, sorted((first, second))
    audit = audited(score)
    by_risk = [Policy.by_risk(audit, loss, SIZE, risk=risk).threshold for risk in (small, large)]
    assert by_risk[0] <= by_risk[1]
    if small * (len(score) + 1) >= 1:
        by_share = [Policy.by_share(audit, share=share).threshold for share in (small, large)]
        assert by_share[0] >= by_share[1]
    by_rate = [Policy.by_error_rate(audit, loss, SIZE, rate=rate, confidence=0.4).threshold for rate in (small, large)]
    assert by_rate[0] <= by_rate[1]
    by_doubt = [Policy.by_error_rate(audit, loss, SIZE, rate=0.5, confidence=1 - tail) for tail in (small, large)]
    assert by_doubt[0].threshold <= by_doubt[1].threshold
    by_cost = [Policy.by_cost(audit, loss, SIZE, error=1 / risk, review=1).threshold for risk in (small, large)]
    assert by_cost[0] <= by_cost[1]


@pytest.mark.parametrize("name", ["cost", "risk", "error rate"])
@given(rows=several, random=order)
def test_an_error_that_did_not_happen_never_makes_a_policy_accept_less(name, rows, random):
    score, loss = rows
    better = loss.copy()
    better[random.randrange(len(loss))] = 0
    if name == "cost":  # the row may be anywhere: only the cost is sure to fall
        assert RULES[name](audited(score), better).cost.value <= RULES[name](audited(score), loss).cost.value
    else:
        assert RULES[name](audited(score), better).threshold >= RULES[name](audited(score), loss).threshold


@each_rule
@given(rows=several)
def test_what_was_measured_is_what_the_decision_on_the_same_rows_says(rule, rows):
    score, loss = rows
    policy = rule(audited(score), loss)
    decision = policy.decide(audited(score))
    taken = decision.tier == "accept"
    assert decision.counts == {"accept": policy.accepted, "review": len(score) - policy.accepted, "refuse": 0}
    assert decision.expected_loss == pytest.approx(loss[taken].sum())
    if policy.cost is not None:
        assert decision.expected_cost == pytest.approx(len(score) * policy.cost.value)
    if policy.error_rate is not None:
        assert policy.error_rate.low <= policy.error_rate.value + 1e-9


def test_with_a_constant_score_all_are_accepted_or_none():
    audit, loss = audited(np.ones(100)), np.arange(100) < 3
    assert Policy.by_risk(audit, loss, WRONG, risk=0.05).accepted == 100
    assert Policy.by_risk(audit, loss, WRONG, risk=0.03).accepted == 0
    assert Policy.by_share(audit, share=0.5).accepted == 100
    assert Policy.by_error_rate(audit, loss, WRONG, rate=0.1).accepted == 100
    assert Policy.by_error_rate(audit, loss, WRONG, rate=0.05).accepted == 0


# ------------------------------------------------------------------------------------------ losses, tiers, words


def test_losses_take_the_largest_error_of_several_outputs():
    prediction, y = np.zeros((2, 2)), np.array([[1.0, -3.0], [0.5, 0.0]])
    assert Exceeds(2.0)(prediction, y).tolist() == [1.0, 0.0]
    assert Clipped(2.0)(prediction, y).tolist() == [1.0, 0.25]


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1))
def test_losses_are_those_of_the_error_whatever_its_sign_and_the_prediction(rows):
    prediction, y = np.array(rows).T
    assert Exceeds(2.0)(prediction, y).tolist() == [float(abs(a - b) > 2) for a, b in rows]
    np.testing.assert_allclose(Clipped(2.0)(prediction, y), [min(abs(a - b), 2) / 2 for a, b in rows])


def test_a_column_of_targets_is_read_as_one_output():
    score, loss = np.arange(9.0), np.arange(9) % 2
    rule = RULES["risk"]
    assert rule(audited(score), loss[:, None]) == rule(audited(score), loss)


def test_tiers_are_accept_up_to_the_threshold_review_above_and_refuse_beyond_what_was_held_out():
    policy = Policy.by_share(audited([1.0, 2.0, 3.0, 4.0]), share=0.4)
    new = audited([3.0, 3.1, 4.0, 4.1, 0.0], scarce=[False, False, False, False, True])
    decision = policy.decide(new)
    assert decision.tier.tolist() == ["accept", "review", "review", "refuse", "refuse"]
    assert decision.to_frame().columns.tolist() == ["prediction", "score", "tier"]
    assert decision.expected_loss is None
    assert decision.expected_cost is None


def test_a_decision_on_several_outputs_has_a_column_for_each():
    audit = Fake(np.arange(4.0), np.zeros((4, 2)))
    decision = Policy.by_share(audit, share=0.5).decide(audit)
    assert decision.to_frame().columns.tolist() == ["prediction_0", "prediction_1", "score", "tier"]


def test_a_policy_says_what_it_accepts_what_is_guaranteed_and_what_it_costs():
    score, loss = drawn(np.random.default_rng(1), 300)
    for name, rule in RULES.items():
        policy = rule(audited(score), loss)
        decision = policy.decide(audited([0.1, 0.99999, 2.0]))
        said = f"{policy}\n{decision}".lower()
        assert "300 held-out rows" in said, name
        assert "guaranteed" in said, name
        assert "of 3 predictions" in said, name
        assert not {"safe", "trustworthy"} & set(said.split()), name
    assert "marginal, for exchangeable data" in str(RULES["risk"](audited(score), loss))
    assert "with confidence 60%" in str(RULES["error rate"](audited(score), loss))
    assert "Mean cost of the 300 held-out rows" in str(RULES["cost"](audited(score), loss))


def needed(said):
    return int(said.split("about ")[1].split()[0])


def test_too_few_rows_accept_nothing_and_say_how_many_would_be_needed():
    def enough(n, rule):
        return rule(audited(np.arange(float(n))), np.zeros(n)).accepted > 0

    def by_risk(audit, y):
        return Policy.by_risk(audit, y, WRONG, risk=0.01)

    def by_rate(audit, y):
        return Policy.by_error_rate(audit, y, WRONG, rate=0.01)

    for rule, smallest in ((by_risk, "0.02"), (by_rate, "0.088")):
        policy = rule(audited(np.arange(50.0)), np.zeros(50))
        assert policy.accepted == 0
        assert policy.threshold == -np.inf
        assert smallest in policy.shortfall  # 1/51, and 1 − (0.1/3)^(1/37)
        assert str(policy).startswith("Accepts nothing: ")
        assert enough(needed(policy.shortfall), rule)
        assert not enough(needed(policy.shortfall) * 9 // 10, rule)
        assert set(policy.decide(audited([1.0, 99.0])).tier) == {"review", "refuse"}


def test_where_more_rows_would_not_help_the_policy_says_so():
    audit, loss = audited(np.ones(100)), np.arange(100) < 30
    for policy in (
        Policy.by_risk(audit, loss, WRONG, risk=0.2),
        Policy.by_error_rate(audit, loss, WRONG, rate=0.2),
    ):
        assert "would not bring it to 0.2" in policy.shortfall
    dear = Policy.by_cost(audit, loss, WRONG, error=10, review=1)
    assert "no threshold costs less" in dear.shortfall
    assert dear.decide(audit).expected_cost == 100


# ------------------------------------------------------------------------------------------ mistakes

ten, zeros = audited(np.arange(10.0)), np.zeros(10)


class Doubled:
    """A loss that is no loss."""

    binary = False

    def __call__(self, prediction, y):
        return 2 * np.ones(len(y))


@dataclass(frozen=True)
class Labelled(Fake):
    """An audit of a classifier that always says "a"."""

    label: np.ndarray = None


@dataclass(frozen=True)
class Returning:
    """A loss that returns what it is told."""

    returned: object
    binary: bool = False

    def __call__(self, prediction, y):
        return self.returned


rows_of_labels = Labelled(np.arange(10.0), np.zeros(10), label=np.array(["a"] * 10))
LABELS = np.array(["a"] * 8 + ["b"] * 2)
IMPROPER = {
    "a loss of zero or five": (np.where(LABELS == "a", 0, 5), DataError, "the loss is 5 at row 8, expected between 0"),
    "a negative loss": (np.full(10, -0.1), DataError, "the loss is -0.1 at row 0, expected between 0 and 1"),
    "a loss that is NaN": (np.where(LABELS == "a", 0, np.nan), DataError, "the loss is nan at row 8"),
    "a loss of other rows": (np.zeros(9), ShapeError, r"shape \(9,\), expected one value per row \(10,\)"),
    "one loss for all rows": (0.0, ShapeError, r"shape \(\), expected one value per row"),
    "a loss in two columns": (np.zeros((10, 1)), ShapeError, r"shape \(10, 1\), expected one value per row"),
    "a loss in words": (np.array(["a"] * 10), DataError, "the loss returned no numbers"),
}


@pytest.mark.parametrize("audit", [rows_of_labels, ten], ids=["labels", "numbers"])
@pytest.mark.parametrize(("returned", "error", "message"), IMPROPER.values(), ids=IMPROPER.keys())
def test_no_policy_is_made_of_an_improper_loss(returned, error, message, audit):
    y = zeros if audit is ten else LABELS
    for choose in (
        lambda loss: Policy.by_risk(audit, y, loss, risk=0.3),
        lambda loss: Policy.by_error_rate(audit, y, loss, rate=0.3),
        lambda loss: Policy.by_cost(audit, y, loss, error=10, review=1),
        lambda loss: Policy.by_share(audit, y, loss, share=0.5),
    ):
        with pytest.raises(error, match=message):
            choose(Returning(returned))


@pytest.mark.parametrize("audit", [rows_of_labels, ten], ids=["labels", "numbers"])
def test_a_loss_that_calls_itself_binary_must_be_zero_or_one(audit):
    y = zeros if audit is ten else LABELS
    with pytest.raises(DataError, match=r"the loss is 0\.5 at row 0, expected 0 or 1"):
        Policy.by_risk(audit, y, Returning(np.full(10, 0.5), binary=True), risk=0.5)


def test_a_loss_of_booleans_counts_as_zero_and_one():
    wrong = Returning(LABELS != "a", binary=True)
    for audit, y in ((rows_of_labels, LABELS), (ten, zeros)):
        policy = Policy.by_risk(audit, y, wrong, risk=0.3)
        assert policy.threshold == Policy.by_risk(rows_of_labels, LABELS, Wrong(), risk=0.3).threshold == 9.0
        assert policy.error_rate.value == pytest.approx(0.2)


MISTAKES = {
    "a score is nan": (
        lambda: Policy.by_share(audited([1.0, np.nan]), share=0.5),
        DataError,
        "at row 1",
    ),
    "a score to decide on is infinite": (
        lambda: Policy.by_share(ten, share=0.5).decide(audited([np.inf])),
        DataError,
        "score is inf at row 0",
    ),
    "no audit": (lambda: Policy.by_share(np.arange(10.0), share=0.5), InputError, "ndarray"),
    "no rows": (lambda: Policy.by_share(audited([]), share=0.5), ShapeError, "at least one row; audit some rows"),
    "all rows are scarce": (
        lambda: Policy.by_share(audited([1.0, 2.0], [True, True]), share=0.5),
        DataError,
        "all 2 held-out rows are marked scarce",
    ),
    "other rows are scarce": (
        lambda: Policy.by_share(audited([1.0, 2.0], [True]), share=0.5),
        ShapeError,
        r"scarce has shape \(1,\), the scores \(2,\)",
    ),
    "targets of other rows": (
        lambda: Policy.by_risk(ten, zeros[:9], WRONG, risk=0.5),
        ShapeError,
        "10",
    ),
    "targets of several outputs": (
        lambda: Policy.by_risk(ten, np.zeros((10, 2)), WRONG, risk=0.5),
        ShapeError,
        r"targets have shape \(10, 2\), the predictions \(10,\)",
    ),
    "targets that are words": (
        lambda: Policy.by_risk(ten, ["a"] * 10, WRONG, risk=0.5),
        DataError,
        "targets cannot be read as numbers",
    ),
    "targets that are not known": (
        lambda: Policy.by_risk(ten, np.where(np.arange(10) < 3, np.nan, 0), WRONG, risk=0.5),
        DataError,
        "3 of 10",
    ),
    "a loss above one": (
        lambda: Policy.by_risk(ten, zeros, Doubled(), risk=0.5),
        DataError,
        "the loss is 2 at row 0, expected between 0 and 1; divide it by",
    ),
    "a risk in per cent": (
        lambda: Policy.by_risk(ten, zeros, WRONG, risk=5),
        SettingError,
        "risk is 5",
    ),
    "a rate of zero": (lambda: Policy.by_error_rate(ten, zeros, WRONG, rate=0), SettingError, "rate is 0, expected"),
    "certainty": (
        lambda: Policy.by_error_rate(ten, zeros, WRONG, rate=0.1, confidence=1),
        SettingError,
        "confidence is 1, expected strictly between",
    ),
    "a share that is smaller than a row": (
        lambda: Policy.by_share(ten, share=0.05),
        SettingError,
        r"0\.091",
    ),
    "targets without a loss": (
        lambda: Policy.by_share(ten, zeros, share=0.5),
        SettingError,
        "one of y and loss is missing; give both",
    ),
    "a review dearer than an error": (
        lambda: Policy.by_cost(ten, zeros, WRONG, error=1, review=10),
        SettingError,
        "10",
    ),
    "a free review": (
        lambda: Policy.by_cost(ten, zeros, WRONG, error=1, review=0),
        SettingError,
        "a review 0",
    ),
    "a negative tolerance": (lambda: Exceeds(-1.0), SettingError, "tolerance is -1.0"),
    "a limit of zero": (lambda: Clipped(0.0), SettingError, "limit is 0.0, expected above 0"),
}


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_gets_its_error_with_advice(call, error, message):
    with pytest.raises(error, match=message):
        call()


class Returns:
    """A loss that returns what it is told."""

    def __init__(self, losses, binary):
        self.losses, self.binary = losses, binary

    def __call__(self, prediction, y):
        return np.asarray(self.losses)


EDGES = {
    "an error without price": lambda: Policy.by_cost(ten, zeros, WRONG, error=np.inf, review=1),
    "a review as dear as an error": lambda: Policy.by_cost(ten, zeros, WRONG, error=1, review=1),
    "a risk of one": lambda: Policy.by_risk(ten, zeros, WRONG, risk=1),
    "a rate of one": lambda: Policy.by_error_rate(ten, zeros, WRONG, rate=1),
    "no confidence": lambda: Policy.by_error_rate(ten, zeros, WRONG, rate=0.1, confidence=0),
    "no confidence in a cost": lambda: Policy.by_cost(ten, zeros, WRONG, error=2, review=1, confidence=0),
    "a share of nothing": lambda: Policy.by_share(ten, share=0),
    "a share of all": lambda: Policy.by_share(ten, share=1),
    "a loss without targets": lambda: Policy.by_share(ten, None, WRONG, share=0.5),
    "an endless tolerance": lambda: Exceeds(np.inf),
    "an endless limit": lambda: Clipped(np.inf),
    "a table of scores": lambda: Policy.by_share(Fake(np.ones((3, 2)), np.zeros(3)), share=0.5),
    "one target for all rows": lambda: Policy.by_risk(ten, 0.0, WRONG, risk=0.5),
    "one infinite target": lambda: Policy.by_risk(ten, [np.inf, *zeros[1:]], WRONG, risk=0.5),
    "a negative loss": lambda: Policy.by_risk(ten, zeros, Returns([-0.1, *zeros[1:]], False), risk=0.5),
    "half a loss where all are whole": lambda: Policy.by_risk(ten, zeros, Returns([0.5, *zeros[1:]], True), risk=0.5),
    "fewer losses than rows": lambda: Policy.by_risk(ten, zeros, Returns(zeros[1:], False), risk=0.5),
}


@pytest.mark.parametrize("mistake", EDGES.values(), ids=EDGES.keys())
def test_what_lies_at_the_edge_is_refused(mistake):
    with pytest.raises((SettingError, ShapeError, DataError)):
        mistake()


def test_what_lies_just_inside_is_taken():
    assert Exceeds(0.0)(np.zeros(2), np.array([0.0, 1e-9])).tolist() == [0.0, 1.0]
    one = Policy.by_risk(ten, zeros, Returns([1.0, *zeros[1:]], False), risk=0.9)
    assert one.error_rate.value == pytest.approx(0.1)
    assert Policy.by_share(audited([3.0]), share=0.5).threshold == 3.0  # a single row and the new one


def test_of_several_labels_one_that_is_wrong_is_enough():
    assert Wrong()(np.array([[0, 1], [1, 1]]), np.array([[0, 1], [0, 1]])).tolist() == [0.0, 1.0]


def test_a_policy_without_an_accepted_row_expects_no_loss_and_a_review_of_each():
    nothing = Policy.by_cost(ten, np.ones(10), WRONG, error=10, review=2)
    decision = nothing.decide(ten)
    assert (decision.expected_loss, decision.expected_cost) == (0.0, 20.0)
    assert nothing.cost.high == nothing.cost.value == 2.0
