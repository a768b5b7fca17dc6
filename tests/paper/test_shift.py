"""Regions without training rows: which rows train, and tables against plain computations."""

import numpy as np
import pandas as pd
import pytest
import small_run

from rue import datasets
from rue_paper import parts, protocol, shift
from rue_paper.results import Results


@pytest.fixture
def small(monkeypatch):
    small_run.shrink(monkeypatch.setattr, monkeypatch.setitem)
    return monkeypatch


def test_the_training_rows_lie_outside_the_region_and_standardise_it(small):
    data = small_run.made_up("yacht")
    for j, problem in enumerate(protocol.problems("yacht", "gap", 3)):
        split = datasets.gap_split(data.X[:, j])
        mean, scale = data.X[split.train].mean(0), data.X[split.train].std(0)
        np.testing.assert_allclose(problem.X, (data.X[split.train] - mean) / scale, atol=1e-6)
        np.testing.assert_allclose(problem.X_new, (data.X[split.test] - mean) / scale, atol=1e-6)
        np.testing.assert_array_equal(problem.target, data.y[split.test])
        assert problem.feature == j
        lowest, highest = problem.X_new[:, j].min(), problem.X_new[:, j].max()
        assert ((problem.X[:, j] < lowest) | (problem.X[:, j] > highest)).all()


def test_large_sets_are_thinned_as_the_paper_does_and_long_tests_cut(small):
    small.setattr(protocol, "SMALL_SAMPLE", 30)
    small.setattr(protocol, "MOST_TESTED", 11)
    first, again = (protocol.problems("wine", "tail", 2) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert one.X.shape == (30, 3)
        assert one.target.shape == (11,)
        np.testing.assert_array_equal(one.X, other.X)
    small_set = protocol.problems("yacht", "tail", 1)[0]
    assert len(small_set.X) == len(datasets.tail_split(small_run.made_up("yacht").X[:, 0]).train) > 30


def test_features_without_a_region_are_left_away_and_counted(small):
    data = small_run.made_up("yacht")
    X = data.X.copy()
    X[:, 1] = X[:, 1] > 0
    changed = datasets.Dataset("yacht", X, data.y, data.features, data.target, data.source, data.licence)
    small.setattr(datasets, "load", lambda *_: changed)
    assert protocol.how_many("yacht", "gap", 20) == 2
    assert protocol.how_many("yacht", "paper", 20) == 20
    assert protocol.how_many_lack("yacht", "gap") == 1
    assert [problem.feature for problem in protocol.problems("yacht", "gap", 20)] == [0, 2]


def test_the_part_trains_and_audits_each_region(small):
    problem = protocol.problems("yacht", "gap", 2)[1]
    (found,) = parts.shifted([problem], ())
    assert float(found["feature"]) == 1
    assert set(np.unique(found["CalibratedRUE/scarce"])) <= {0.0, 1.0}
    for method in parts.SHIFTED:
        assert found[f"{method}/total_std"].shape == problem.target.shape


def results(region: str, nlls: dict[str, list[float]], flags: list[list[float]]) -> Results:
    """Made so that the NLL is the given one: a Gaussian of spread one, errors to match."""
    splits = {}
    for i, flagged in enumerate(flags):
        splits[i] = {"target": np.zeros(2), "feature": np.array(i)}
        for method in parts.SHIFTED:
            error = np.sqrt(2 * (nlls[method][i] - 0.5 * np.log(2 * np.pi)))
            splits[i] |= {f"{method}/prediction": np.array([error, -error]), f"{method}/total_std": np.ones(2)}
        splits[i]["CalibratedRUE/scarce"] = np.array(flagged)
    return Results(region, "yacht", splits)


def test_summaries_are_medians_over_features_and_shares_of_rows():
    nlls = {
        "CalibratedRUE": [1.0, 2.0, 9.0],
        "RUE": [3.0] * 3,
        "LinearRUE": [2.0] * 3,
        "Homoscedastic": [1.5, 2.5, 3.0],
    }
    found = results("gap", nlls, [[1, 1], [1, 0], [0, 0]])
    random = Results("paper", "yacht", {0: {"CalibratedRUE/scarce": np.array([0.0] * 9 + [1.0])}})
    frame = shift.table([found])
    assert len(frame) == 12
    summary = shift.summary(frame, [random], {("gap", "yacht"): 4})
    row = summary.iloc[0]
    assert (row["features"], row["skipped"]) == (3, 4)
    np.testing.assert_allclose(row[["CalibratedRUE", "Homoscedastic", "RUE"]].astype(float), [2.0, 2.5, 3.0])
    np.testing.assert_allclose([row["scarce"], row["scarce_random"], row["times"]], [0.5, 0.1, 5.0])
    said = shift.findings(summary)
    assert "below that of constant noise on 1 of 1 sets, and more than 0.1 above it on 0; at worst -0.50" in said[0]
    assert said[1].endswith("on 1 of 1 sets.")


def test_harm_and_rare_flags_are_said():
    summary = pd.DataFrame(
        {
            "region": ["tail", "tail"],
            "data": ["wine", "yacht"],
            "CalibratedRUE": [1.3, 1.0],
            "Homoscedastic": [1.0, 2.0],
            "times": [2.0, np.inf],
        }
    )
    said = shift.findings(summary)
    assert "on 1 of 2 sets, and more than 0.1 above it on 1; at worst +0.30 (Wine)" in said[0]
    assert said[1].endswith("on 1 of 2 sets (not on Wine 2.0).")
