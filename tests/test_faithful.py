"""Sketches against exact audits, on a small network: faithful where enough coordinates are kept, else it is said."""

import warnings

import faithful
import faithful_cases
import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import rue


def small_convolutions():
    parts = [nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU(), nn.MaxPool2d(2)]
    parts += [nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    return nn.Sequential(*parts, nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


@pytest.fixture(scope="module")
def case():
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X / 8 - 1, dtype=torch.float32), torch.tensor(y)
    torch.manual_seed(0)
    network, rows = small_convolutions(), (X[:150], y[:150])
    faithful_cases.trained(network, functional.cross_entropy, rows, faithful_cases.Recipe(15, 2e-3, 64))
    return faithful_cases.Case(network, "cross_entropy", rows, (X[400:600], y[400:600]), ())


@pytest.fixture(scope="module")
def exact_margins(case):
    """Standard deviations of margins, from plain Jacobians and an explicit inverse."""
    named = {name: value.detach() for name, value in case.network.named_parameters()}

    def outputs(parameters, row):
        return torch.func.functional_call(case.network, parameters, row[None])[0]

    def jacobian(inputs):
        parts = torch.func.vmap(torch.func.jacrev(outputs), (None, 0))(named, inputs)
        return torch.cat([part.flatten(2) for part in parts.values()], 2).double()

    (X, y), new = case.train, case.new[0]
    with torch.no_grad():
        p, likely = case.network(X).softmax(1).double(), case.network(new).topk(2).indices
    rows = jacobian(X)
    hessian = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    matrix = rows.flatten(0, 1).T @ (hessian @ rows).flatten(0, 1) + faithful.L2 * torch.eye(rows.shape[2])
    pulls = torch.einsum("nkd,nk->nd", rows, p - functional.one_hot(y, 10))
    wide = jacobian(new)
    at = torch.arange(len(new))
    margin = wide[at, likely[:, 0]] - wide[at, likely[:, 1]]
    influence = torch.linalg.solve(matrix, margin.T).T @ pulls.T
    return influence.sub(influence.mean(1, keepdim=True)).square().sum(1).sqrt().numpy()


def test_sketches_follow_plain_inverses_or_say_that_they_are_too_small(case, exact_margins):
    found = {}
    for size in (2048, 1024, 256):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            audit = faithful.audited(case, True, rue.solve.Sketch(size))
        warned = any("the sketch keeps" in text for text in audit.facts["warnings"])
        found[size] = float(spearmanr(exact_margins, audit.std)[0])
        assert found[size] >= 0.9 or warned
    assert found[2048] >= 0.9
    assert found[2048] > found[256]


def test_the_exact_audit_of_the_benchmark_is_the_plain_inverse(case, exact_margins):
    with faithful.exactly(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit = faithful.audited(case, True)
    np.testing.assert_allclose(audit.std, exact_margins, rtol=1e-4)
