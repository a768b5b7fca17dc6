"""A forest as arrays: the same numbers as scikit-learn's, which they were copied from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from rue.calibrate import array_forest
from rue.calibrate.array_forest import ArrayForest, below


def drawn(seed: int, rows: int, columns: int, outputs: int, rounded: bool) -> tuple[np.ndarray, ...]:
    """Points (rows, columns), targets and new points; rounded ones lie on the thresholds of others."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(2, rows, columns)).astype(np.float32)
    points = points.round(0) if rounded else points
    return points[0], points[0, :, :1] + random.normal(size=(rows, outputs)), points[1]


@settings(max_examples=40, deadline=None)
@given(
    seed=some.integers(0, 2**20),
    rows=some.integers(1, 60),
    columns=some.integers(1, 5),
    outputs=some.integers(1, 3),
    leaf=some.integers(1, 20),
    rounded=some.booleans(),
)
def test_it_predicts_what_scikit_learn_predicts(seed, rows, columns, outputs, leaf, rounded):
    X, y, new = drawn(seed, rows, columns, outputs, rounded)
    grown = RandomForestRegressor(7, min_samples_leaf=leaf, random_state=seed)
    grown.fit(X, y[:, 0] if outputs == 1 else y)
    for points in (X, new, new[:1]):
        expected = grown.predict(points).reshape(len(points), outputs)
        np.testing.assert_allclose(ArrayForest.of(grown)(points), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("walkers", [1, 100, 2**20])
def test_blocks_of_rows_change_nothing(monkeypatch, walkers):
    X, y, new = drawn(1, 300, 4, 2, rounded=False)
    forest = ArrayForest.of(RandomForestRegressor(11, random_state=0).fit(X, y))
    whole, leaves = forest(new), forest.leaves(new)
    monkeypatch.setattr(array_forest, "WALKERS", walkers)
    np.testing.assert_allclose(forest(new), whole, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(forest.leaves(new), leaves)


def test_rows_share_a_leaf_where_they_share_one_in_scikit_learn():
    X, y, new = drawn(2, 200, 3, 1, rounded=True)
    grown = RandomForestRegressor(9, min_samples_leaf=3, random_state=0).fit(X, y[:, 0])
    forest = ArrayForest.of(grown)
    ours, theirs = forest.leaves(new), grown.apply(new)
    np.testing.assert_array_equal(ours[:, None] == ours, theirs[:, None] == theirs)
    assert forest.ends[ours].all()
    assert forest.ends.sum() == sum(tree.get_n_leaves() for tree in grown.estimators_)


def test_values_a_rounding_away_from_a_threshold_go_the_same_way():
    X, y, _ = drawn(3, 200, 1, 1, rounded=False)
    grown = ExtraTreesRegressor(20, random_state=0).fit(X, y[:, 0])  # thresholds between two single-precision numbers
    thresholds = np.concatenate([tree.tree_.threshold for tree in grown.estimators_]).astype(np.float32)
    near = np.concatenate([np.nextafter(thresholds, np.float32(way)) for way in (-np.inf, np.inf)] + [thresholds])
    np.testing.assert_allclose(ArrayForest.of(grown)(near[:, None])[:, 0], grown.predict(near[:, None]), rtol=1e-12)


@given(some.floats(-1e30, 1e30))
def test_a_threshold_is_rounded_to_the_largest_number_that_does_not_exceed_it(value):
    rounded = below(np.array([value]))[0]
    assert float(rounded) <= value < float(np.nextafter(rounded, np.float32(np.inf)))
