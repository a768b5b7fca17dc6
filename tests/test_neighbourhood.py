"""Density, distance and neighbours' residuals against explicit loops."""

import numpy as np
import pytest
import torch
from sklearn.model_selection import KFold

import cases
import rue
from rue.core.errors import SettingError


def standardised(case):
    X, X_new = case.X.numpy(), case.X_new.numpy()
    mean, scale = X.mean(0), X.std(0)
    return (X - mean) / scale, (X_new - mean) / scale


def test_the_kernel_density_is_the_explicit_sum_of_kernels():
    case = cases.softplus()
    audit = rue.KernelDensity().fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    X, X_new = standardised(case)
    h = audit.facts["bandwidth"]
    distance = ((X_new[:, None] - X[None]) ** 2).sum(-1)
    density = np.exp(-0.5 * distance / h**2).mean(1) / (2 * np.pi * h**2)
    np.testing.assert_allclose(audit.score, -np.log(density), rtol=1e-6)


def test_the_bandwidth_is_the_one_held_out_rows_like_best():
    """A wide cloud wants a wide kernel, many duplicates a narrow one."""
    case = cases.linear()
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(200, 3, generator=generator, dtype=torch.float64)
    y = X.sum(1)
    cloud = rue.KernelDensity().fit(case.wrap(), (X, y)).facts["bandwidth"]
    clumped = X[torch.arange(200) % 5] + 1e-3 * torch.randn(200, 3, generator=generator)
    clumps = rue.KernelDensity().fit(case.wrap(), (clumped, y)).facts["bandwidth"]
    assert clumps < cloud


@pytest.mark.parametrize("folds", [2, 4, 100])
def test_the_bandwidth_is_the_best_of_those_tried_on_each_fold_in_turn(folds):
    case, tried = cases.softplus(), (0.2, 0.35, 0.5, 0.8, 1.3)
    found = rue.KernelDensity(bandwidths=tried, folds=folds, seed=3).fit(case.wrap(), (case.X, case.y))
    X, _ = standardised(case)
    n = len(X)
    squares = ((X[:, None] - X[None]) ** 2).sum(-1)
    parts = list(KFold(min(folds, n), shuffle=True, random_state=3).split(X))

    def likelihood(h):
        of_fold = [np.exp(-0.5 * squares[np.ix_(new, old)] / h**2).mean(1) / (2 * np.pi * h**2) for old, new in parts]
        return np.mean([np.log(density).sum() for density in of_fold])

    assert found.facts["bandwidth"] == max(tried, key=likelihood)


def test_what_cannot_be_asked_of_neighbours_is_refused():
    case = cases.softplus()
    n = len(case.y)
    with pytest.raises(SettingError, match="at least 2, got 1"):
        rue.KernelDensity(folds=1).fit(case.wrap(), (case.X, case.y))
    with pytest.raises(SettingError, match="at least 1, got 0"):
        rue.NearestNeighbours(neighbours=0)
    with pytest.raises(SettingError, match=f"there are {n} training rows"):
        rue.NearestNeighbours(neighbours=n + 1).fit(case.wrap(), (case.X, case.y))
    one, all_of_them = (rue.NearestNeighbours(neighbours=count).fit(case.wrap(), (case.X, case.y)) for count in (1, n))
    residual = (case.module(case.X).detach()[:, 0] - case.y).numpy()
    np.testing.assert_allclose(one.audit(case.X).score, np.abs(residual), rtol=1e-9)
    np.testing.assert_allclose(all_of_them.audit(case.X).score, np.sqrt((residual**2).mean()), rtol=1e-9)


def test_distance_is_the_mean_to_the_nearest_rows():
    case = cases.softplus()
    audit = rue.NearestNeighbours(neighbours=4, by="distance").fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    X, X_new = standardised(case)
    distance = np.sort(np.sqrt(((X_new[:, None] - X[None]) ** 2).sum(-1)), axis=1)
    np.testing.assert_allclose(audit.score, distance[:, :4].mean(1), rtol=1e-9)
    assert audit.noise_std is None


def test_neighbours_residuals_are_their_mean_square_and_count_as_noise():
    case = cases.softplus()
    audit = rue.NearestNeighbours(neighbours=4).fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    X, X_new = standardised(case)
    near = np.argsort(((X_new[:, None] - X[None]) ** 2).sum(-1), axis=1)[:, :4]
    squared = (case.module(case.X).detach()[:, 0] - case.y).numpy() ** 2
    np.testing.assert_allclose(audit.score, np.sqrt(squared[near].mean(1)), rtol=1e-9)
    np.testing.assert_array_equal(audit.noise_std, audit.score)
    assert audit.std is None


def test_a_constant_feature_does_no_harm():
    case = cases.linear()
    X = case.X.clone()
    X[:, 1] = 7.0
    for method in (rue.KernelDensity(), rue.NearestNeighbours()):
        assert np.isfinite(method.fit(case.wrap(), (X, case.y)).audit(X).score).all()


def test_dict_inputs_are_laid_side_by_side():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(3, 1).double()

        def forward(self, a, b):
            return self.inner(torch.cat([a, b], 1))

    case = cases.linear()
    whole = rue.NearestNeighbours(by="distance").fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    model = rue.wrap(Two(), loss="squared_error", l2=1.0)
    split = {"a": case.X[:, :1], "b": case.X[:, 1:]}
    new = {"a": case.X_new[:, :1], "b": case.X_new[:, 1:]}
    parts = rue.NearestNeighbours(by="distance").fit(model, (split, case.y)).audit(new)
    np.testing.assert_allclose(parts.score, whole.score, rtol=1e-12)


def test_homoscedastic_calls_every_prediction_alike():
    case = cases.softplus()
    audit = rue.Homoscedastic().fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    assert len(set(audit.score)) == 1
    squared = (case.module(case.X).detach()[:, 0] - case.y).numpy() ** 2
    np.testing.assert_allclose(audit.total_std, np.sqrt(squared.mean()))
    assert audit.std is None


@pytest.mark.parametrize("by", ["distance", "residual"])
def test_an_input_that_is_a_training_row_is_its_own_neighbour(by):
    case = cases.softplus()
    audit = rue.NearestNeighbours(neighbours=1, by=by).fit(case.wrap(), (case.X, case.y)).audit(case.X)
    own = np.abs((case.module(case.X).detach()[:, 0] - case.y).numpy())
    np.testing.assert_allclose(audit.score, np.zeros(20) if by == "distance" else own, atol=1e-6)
