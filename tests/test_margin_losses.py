"""Losses of margins against scikit-learn's own, and losses made of losses against loops."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import _sgd_fast

from rue.core.errors import DataError, SettingError, ShapeError
from rue.losses import (
    bernoulli,
    cross_entropy,
    modified_huber,
    one_vs_rest,
    row_weighted,
    signed_squared_error,
    squared_epsilon_insensitive,
    squared_hinge,
)

GENERATOR = torch.Generator().manual_seed(0)
OUTPUTS = 2 * torch.randn(60, 1, generator=GENERATOR, dtype=torch.float64)
YES = (torch.rand(60, 1, generator=GENERATOR, dtype=torch.float64) > 0.5).double()
NUMBERS = torch.randn(60, 1, generator=GENERATOR, dtype=torch.float64)
LABELS = torch.randint(0, 3, (60,), generator=GENERATOR)
LOGITS = torch.randn(60, 3, generator=GENERATOR, dtype=torch.float64)
WEIGHT = torch.rand(60, generator=GENERATOR, dtype=torch.float64) + 0.2

MARGINS = {
    "squared hinge": (squared_hinge(), _sgd_fast.SquaredHinge(1.0), YES, 2 * YES - 1),
    "modified huber": (modified_huber(), _sgd_fast.ModifiedHuber(), YES, 2 * YES - 1),
    "tube": (squared_epsilon_insensitive(0.4), _sgd_fast.SquaredEpsilonInsensitive(0.4), NUMBERS, NUMBERS),
}
ALL = {
    **{name: (loss, OUTPUTS, targets) for name, (loss, _, targets, _) in MARGINS.items()},
    "least squares on signs": (signed_squared_error(), OUTPUTS, YES),
    "one vs rest": (one_vs_rest(squared_hinge()), LOGITS, LABELS),
    "one vs rest, weighted": (one_vs_rest(bernoulli()), LOGITS, (LABELS, WEIGHT)),
    "rows weighted": (row_weighted(cross_entropy()), LOGITS, (LABELS, WEIGHT)),
}


@pytest.mark.parametrize("name", MARGINS)
def test_values_and_slopes_are_those_of_scikit_learn(name):
    loss, oracle, targets, theirs = MARGINS[name]
    outputs = OUTPUTS.clone().requires_grad_()
    values = loss.value(outputs, targets)
    (slopes,) = torch.autograd.grad(values.sum(), outputs)
    pairs = list(zip(OUTPUTS[:, 0].tolist(), theirs[:, 0].tolist(), strict=True))
    np.testing.assert_allclose(values.detach(), [oracle.py_loss(f, y) for f, y in pairs], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(slopes[:, 0], [oracle.py_dloss(f, y) for f, y in pairs], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ALL)
def test_the_hessian_is_the_slope_of_the_slope(name):
    loss, outputs, targets = ALL[name]
    step, k = 1e-6, outputs.shape[1]
    by_steps = torch.stack(
        [
            (_slope(loss, outputs, targets, step, j) - _slope(loss, outputs, targets, -step, j)) / (2 * step)
            for j in range(k)
        ],
        -1,
    )
    torch.testing.assert_close(loss.hessian(outputs, targets), by_steps, rtol=1e-6, atol=1e-7)


def _slope(loss, outputs, targets, step, column):
    moved = outputs.clone()
    moved[:, column] += step
    moved.requires_grad_()
    return torch.autograd.grad(loss.value(moved, targets).sum(), moved)[0]


def own(j: int) -> torch.Tensor:
    return torch.tensor([label == j for label in LABELS.tolist()])


def test_one_vs_rest_adds_a_yes_or_no_loss_for_each_class():
    found = one_vs_rest(squared_hinge()).value(LOGITS, LABELS)
    by_class = [squared_hinge().value(LOGITS[:, [j]], own(j).double()[:, None]) for j in range(3)]
    torch.testing.assert_close(found, sum(by_class))


def test_weights_of_one_vs_rest_count_for_the_rows_own_class_only():
    found = one_vs_rest(squared_hinge()).value(LOGITS, (LABELS, WEIGHT))
    by_class = [
        torch.where(own(j), WEIGHT, 1.0) * squared_hinge().value(LOGITS[:, [j]], own(j).double()[:, None])
        for j in range(3)
    ]
    torch.testing.assert_close(found, sum(by_class))


def test_what_is_no_target_is_refused():
    with pytest.raises(DataError, match="0 or 1"):
        squared_hinge().fit_targets(torch.tensor([1.0, -1.0]), 1)
    with pytest.raises(DataError, match="whole numbers 0 to 2"):
        one_vs_rest(squared_hinge()).fit_targets(torch.tensor([0, 3]), 3)
    with pytest.raises(ShapeError, match="expected a pair"):
        row_weighted(cross_entropy()).value(LOGITS, LABELS)
    with pytest.raises(SettingError, match="at least 0"):
        squared_epsilon_insensitive(-1.0)
