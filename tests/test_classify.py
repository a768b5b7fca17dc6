"""Classes from logits with a covariance, against drawing them."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from rue.core.classify import averaged, decided, entropy, epistemic, flip_probability, probability, sampled, wrong

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
