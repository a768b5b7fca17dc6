"""Classes from logits with a covariance, against drawing them."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from rue.core.classify import (
    averaged,
    class_shares,
    decided,
    entropy,
    epistemic,
    flip_probability,
    log_likelihood,
    probability,
    sampled,
    wrong,
)

DECISIONS = ["largest", "signs", "ordered"]


def logits_and_covariance(decision, k=3, rows=6, size=0.4):
    generator = torch.Generator().manual_seed(k)
    logits = torch.randn(rows, k, generator=generator, dtype=torch.float64)
    root = size * torch.randn(rows, k, k, generator=generator, dtype=torch.float64)
    if decision == "ordered":  # ordered logits move together, or they would cross
        return 2 * logits.sort(descending=True).values, size**2 + 0.01 * root @ root.mT
    return logits, root @ root.mT


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("k", [1, 3])
def test_averaged_probabilities_are_those_of_many_draws(decision, k):
    if (decision, k) == ("largest", 1):
        pytest.skip("one logit cannot be the largest of several")
    logits, covariance = logits_and_covariance(decision, k)
    closed = averaged(decision, logits, covariance)
    drawn = sampled(decision, logits, covariance, 20_000, torch.Generator().manual_seed(0))
    assert float((closed - drawn).abs().max()) < 0.025  # the closed form is an approximation
    torch.testing.assert_close(
        closed.sum(-1) if k == 1 or decision != "signs" else torch.ones(6).double(), torch.ones(6).double()
    )
    torch.testing.assert_close(averaged(decision, logits, 0 * covariance), probability(decision, logits))


@pytest.mark.parametrize("decision", DECISIONS)
def test_the_flip_probability_is_how_often_draws_decide_otherwise(decision):
    logits, covariance = logits_and_covariance(decision, 2)
    root = torch.linalg.cholesky(covariance)
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(40_000, 6, 2, 1, generator=generator, dtype=torch.float64)
    changed = decided(decision, logits + (root @ noise).squeeze(-1)) != decided(decision, logits)
    often = (changed.any(-1) if decision == "signs" else changed).double().mean(0)
    found = flip_probability(decision, logits, covariance)
    if decision == "largest":  # two classes: exact
        torch.testing.assert_close(found, often, atol=0.01, rtol=0)
    else:  # dependent logits: between the largest single chance and their sum
        assert bool((found <= often * 2 + 0.01).all())
        assert bool((found >= often / 2 - 0.01).all())


def test_what_all_logits_share_changes_nothing():
    logits, covariance = logits_and_covariance("largest")
    common = covariance + 7.0  # a common random shift of all logits
    for measure in (averaged, flip_probability, epistemic):
        torch.testing.assert_close(measure("largest", logits + 5, common), measure("largest", logits, covariance))


def test_the_epistemic_part_is_the_information_between_label_and_model():
    for decision in DECISIONS:
        logits, covariance = logits_and_covariance(decision, 3, size=0.1)
        k = 3
        values, vectors = torch.linalg.eigh(covariance)
        generator = torch.Generator().manual_seed(2)
        noise = torch.randn(20_000, 6, 3, 1, generator=generator, dtype=torch.float64)
        draws = logits + ((vectors * values.sqrt().unsqueeze(-2)) @ noise).squeeze(-1)
        shares = probability(decision, draws)
        gained = entropy(decision, shares.mean(0), k) - entropy(decision, shares.flatten(0, 1), k).view(-1, 6).mean(0)
        torch.testing.assert_close(epistemic(decision, logits, covariance), gained, rtol=0.15, atol=2e-4)


def test_being_wrong_is_the_rest_of_the_likeliest_classes():
    assert float(wrong("largest", torch.tensor([[0.2, 0.5, 0.3]]), torch.tensor([[0.0, 2.0, 1.0]]))) == pytest.approx(
        0.5
    )
    assert float(wrong("signs", torch.tensor([[0.3, 0.7]]), torch.tensor([[1.0]]))) == pytest.approx(0.3)  # yes or no
    two_labels = wrong("signs", torch.tensor([[0.3, 0.9]]), torch.tensor([[-1.0, 2.0]]))
    assert float(two_labels) == pytest.approx(1 - 0.7 * 0.9)
    median = wrong("ordered", torch.tensor([[0.40, 0.15, 0.45]]), torch.tensor([[0.4, -0.2]]))
    assert float(median) == pytest.approx(0.85)  # ordered classes decide by the median, not by the largest
    np.testing.assert_array_equal(decided("ordered", torch.tensor([[2.0, 1.0, -1.0], [-1.0, -2.0, -3.0]])), [2, 0])


@pytest.mark.parametrize("decision", DECISIONS)
def test_the_flip_probability_is_made_of_normal_tails(decision):
    logits, deviation = np.array([1.5, -0.4, -2.0]), np.array([0.9, 0.5, 1.2])
    tails = norm.sf(np.abs(logits) / deviation)  # of each logit on its own
    rivals = norm.sf((logits[0] - logits[1:]) / np.sqrt(deviation[0] ** 2 + deviation[1:] ** 2))
    wanted = {
        "largest": rivals.max(),  # the likeliest rival
        "signs": 1 - (1 - tails).prod(),  # independent labels, any of them
        "ordered": tails.max(),  # thresholds of one scale: the one that is nearest
    }
    found = flip_probability(decision, torch.from_numpy(logits[None]), torch.from_numpy(np.diag(deviation**2)[None]))
    assert float(found) == pytest.approx(wanted[decision], rel=1e-12)


def test_a_class_without_votes_adds_nothing_to_what_is_due_to_the_training_set():
    shares = torch.tensor([[0.7, 0.3, 0.0]], dtype=torch.float64)
    covariance = torch.diag(torch.tensor([0.02, 0.03, 0.05], dtype=torch.float64))[None]
    assert float(epistemic("shares", shares, covariance)) == pytest.approx(0.5 * (0.02 / 0.7 + 0.03 / 0.3))


def test_shares_below_zero_count_as_none():
    torch.testing.assert_close(probability("shares", torch.tensor([[0.6, 0.6, -0.2]])), torch.tensor([[0.5, 0.5, 0.0]]))


@pytest.mark.parametrize("unit", [1.0, 2.5])
@pytest.mark.parametrize("k", [2, 4])
def test_averaged_classes_are_shrunk_pair_by_pair(k, unit):
    """Each class against every other, as one logit by MacKay; then all are scaled to a sum of one (Lu, Ie and Sha)."""
    logits, covariance = logits_and_covariance("largest", k, size=1.5)
    wanted = np.zeros((6, k))
    for row, (f, spread) in enumerate(zip(logits.numpy(), covariance.numpy(), strict=True)):
        for i in range(k):
            odds = 0.0
            for j in range(k):
                apart = np.eye(k)[i] - np.eye(k)[j]
                odds += np.exp(-(apart @ f) / np.sqrt(unit + np.pi / 8 * apart @ spread @ apart))
            wanted[row, i] = 1 / odds
    np.testing.assert_allclose(
        averaged("largest", logits, covariance, unit), wanted / wanted.sum(1, keepdims=True), rtol=1e-12
    )


@pytest.mark.parametrize("unit", [1.0, 2.5])
@pytest.mark.parametrize("decision", ["signs", "ordered"])
def test_averaged_thresholds_are_shrunk_one_by_one(decision, unit):
    logits, covariance = logits_and_covariance(decision, 3, size=1.5)
    deviation = np.sqrt(unit + np.pi / 8 * np.diagonal(covariance.numpy(), axis1=1, axis2=2))
    yes = 1 / (1 + np.exp(-logits.numpy() / deviation))
    if decision == "ordered":
        steps = np.maximum(-np.diff(np.pad(yes, ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0)))), 0)
        yes = steps / steps.sum(1, keepdims=True)
    np.testing.assert_allclose(averaged(decision, logits, covariance, unit), yes, rtol=1e-12)


def test_the_log_likelihood_is_the_log_of_what_the_targets_were_given():
    shares = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]], dtype=torch.float64)
    for decision in ("largest", "ordered", "shares"):
        found = log_likelihood(decision, shares, torch.tensor([2, 0]))
        np.testing.assert_allclose(found, np.log([0.3, 0.6]))
    soft = torch.tensor([[0.25, 0.75, 0.0], [0.5, 0.0, 0.5]], dtype=torch.float64)
    wanted = [0.25 * np.log(0.2) + 0.75 * np.log(0.5), 0.5 * np.log(0.6) + 0.5 * np.log(0.1)]
    np.testing.assert_allclose(log_likelihood("largest", shares, soft), wanted)
    labels = torch.tensor([[1, 0, 1], [0, 0, 1]])  # three labels that may hold together
    wanted = [np.log(0.2 * 0.5 * 0.3), np.log(0.4 * 0.7 * 0.1)]
    np.testing.assert_allclose(log_likelihood("signs", shares, labels), wanted)
    one = torch.tensor([[0.2, 0.8], [0.7, 0.3]], dtype=torch.float64)  # no and yes of one label
    wanted = [np.log(0.8), 0.75 * np.log(0.7) + 0.25 * np.log(0.3)]
    np.testing.assert_allclose(log_likelihood("signs", one, torch.tensor([[1.0], [0.25]])), wanted)
    never = log_likelihood("largest", torch.tensor([[0.0, 1.0]]), torch.tensor([0]))
    assert -100 < float(never) < -60  # impossible, yet no infinity


def test_class_shares_are_weighted_frequencies():
    weight = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    np.testing.assert_allclose(class_shares("largest", torch.tensor([2, 0, 2, 1]), weight, 4), [0.2, 0.4, 0.4, 0])
    soft = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.25, 0.75]], dtype=torch.float64)
    np.testing.assert_allclose(class_shares("largest", soft, weight, 2), [0.3, 0.7])
    np.testing.assert_allclose(class_shares("signs", soft, weight, 2), [0.3, 0.7])
    np.testing.assert_allclose(class_shares("signs", torch.tensor([[1], [0], [0], [1]]), weight, 1), [0.5, 0.5])
    np.testing.assert_allclose(class_shares("signs", torch.tensor([[1], [0], [0], [0]]), weight, 1), [0.9, 0.1])


def test_a_tie_is_decided_as_scikit_learn_decides_it():
    """For the first class: a logit of zero is a no."""
    X = np.array([[1.0], [-2.0], [0.5], [3.0], [1.0], [0.0]])
    for k, decision in ((2, "signs"), (3, "largest")):
        model = LogisticRegression().fit(X, np.arange(6) % k)
        model.coef_[:], model.intercept_[:] = 0, 0
        logits = torch.from_numpy(model.decision_function(X).reshape(6, -1))
        np.testing.assert_array_equal(decided(decision, logits), model.predict(X))
    np.testing.assert_array_equal(decided("signs", torch.tensor([[0.0, 1e-9], [-1e-9, 0.0]])), [[0, 1], [0, 0]])
    np.testing.assert_array_equal(decided("ordered", torch.tensor([[0.0, 0.0], [1e-9, 0.0]])), [0, 1])


@pytest.mark.parametrize("rounding", [0.0, 1e-13])
@pytest.mark.parametrize("decision", DECISIONS)
def test_logits_that_move_as_one_are_drawn_along_their_only_direction(decision, rounding):
    """A covariance of rank one, whose other eigenvalues rounding makes negative, against quadrature on the line."""
    logits, _ = logits_and_covariance(decision)
    along = torch.tensor([1.0, 0.7, 0.4], dtype=torch.float64)
    covariance = torch.outer(along, along) - rounding * torch.eye(3, dtype=torch.float64)
    drawn = sampled(decision, logits, covariance.expand(6, 3, 3), 4_000, torch.Generator().manual_seed(0))
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    wanted = sum(
        weight * probability(decision, logits + float(node) * along)
        for node, weight in zip(nodes, weights / weights.sum(), strict=True)
    )
    torch.testing.assert_close(drawn, wanted, rtol=0, atol=0.02)  # five standard errors where shares vary by 0.25


@pytest.mark.parametrize("variance", [0.0, 1e-300, -1e-18])
@pytest.mark.parametrize("decision", [*DECISIONS, "shares"])
def test_a_decision_that_nothing_moves_flips_only_where_it_is_a_tie(decision, variance):
    """As with a spread that goes to zero; rounding may make it negative."""
    covariance = variance * torch.eye(2, dtype=torch.float64).expand(2, 2, 2)
    clear, tied = ([0.8, 0.2], [0.5, 0.5]) if decision == "shares" else ([1.0, -2.0], [0.0, 0.0])
    found = flip_probability(decision, torch.tensor([clear, tied], dtype=torch.float64), covariance)
    tie = 0.75 if decision == "signs" else 0.5  # two labels, each of which flips as often as not
    np.testing.assert_allclose(found, [0.0, tie], atol=1e-12)
