"""Above some number of rows a sample of them is left out and compared with; sums still go over all rows."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from torch import nn

import rue
from rue.calibrate.left_out import Influence, Mixture
from rue.calibrate.left_out.rest import reweighted
from rue.core.derivatives import jacobian_batches
from rue.core.memory import derivatives_kept
from rue.data.opening import training_rows

FEW = 300


def table(n, seed=0):
    source = np.random.default_rng(seed)
    X = source.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * np.exp(0.5 * X[:, 2]) * source.normal(size=n)


def ridge(n):
    X, y = table(n)
    return Ridge(alpha=1.0).fit(X, y), X, y


def network(X, y, epochs):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        X, y = torch.from_numpy(X), torch.from_numpy(y)
        for _ in range(epochs):
            for rows in torch.randperm(len(X)).split(32):
                optimizer.zero_grad()
                nn.functional.mse_loss(net(X[rows])[:, 0], y[rows]).backward()
                optimizer.step()
    return net


@pytest.fixture
def sampled(monkeypatch):
    monkeypatch.setattr("rue.data.rows.SAMPLE", FEW)


def bound(data, estimator=None):
    return training_rows(data, rue.wrap(ridge(50)[0] if estimator is None else estimator))


def test_a_table_of_few_rows_is_its_own_sample():
    rows, _ = bound(table(FEW))
    assert rows.sample is rows
    assert rows.among(rows.weight) is rows.weight


def test_a_sample_has_the_very_rows_with_their_weights(sampled):
    X, y = table(1000)
    weight = np.linspace(0.5, 2, 1000)
    rows, _ = bound(rue.Data(X, y, weight=weight))
    sample = rows.sample
    ids = sample.ids.numpy()
    assert sample.n == sample.units == len(ids) == FEW
    assert (np.diff(ids) > 0).all()
    np.testing.assert_array_equal(sample.weight, weight[ids])
    np.testing.assert_array_equal(sample.among(torch.arange(1000)), ids)
    read = list(sample.batches())
    np.testing.assert_allclose(torch.cat([batch.targets for batch in read]).flatten(), y[ids])
    assert [batch.rows.stop for batch in read][-1] == FEW
    assert rows.sample is sample


def test_groups_are_sampled_whole(sampled):
    X, y = table(1000)
    group = np.random.default_rng(0).integers(0, 120, 1000)
    sample = bound(rue.Data(X, y, group=group))[0].sample
    ids = sample.ids.numpy()
    assert FEW - 30 < sample.n <= FEW
    for name in np.unique(group[ids]):
        assert set(np.flatnonzero(group == name)) <= set(ids)
    assert sample.units == len(np.unique(group[ids]))
    assert len({(unit, name) for unit, name in zip(sample.unit.tolist(), group[ids], strict=True)}) == sample.units


def test_what_is_kept_of_all_rows_serves_the_sample(sampled):
    X, y = table(1000)
    rows, model = training_rows((X, y), rue.wrap(network(X, y, 1), loss="squared_error", l2=1.0))
    with derivatives_kept(rows):
        every = torch.cat([part for _, part in jacobian_batches(model, rows)])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rue.core.derivatives.derived_jacobian", None)  # nothing is differentiated again
            some = torch.cat([part for _, part in jacobian_batches(model, rows.sample)])
    torch.testing.assert_close(some, every[rows.sample.ids], rtol=0, atol=0)
    again = torch.cat([part for _, part in jacobian_batches(model, rows.sample)])
    torch.testing.assert_close(again, some)


def test_resampled_gradients_of_a_sample_are_as_large_as_those_of_all_rows(sampled):
    rows, model = bound(table(2000))
    some = reweighted(model, rows, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rue.data.rows.SAMPLE", 10_000)
        every = reweighted(model, bound(table(2000))[0], 0)
    torch.testing.assert_close(some.whole, every.whole)
    ratio = some.drawn.square().sum(1).mean() / every.drawn.square().sum(1).mean()
    assert 0.6 < float(ratio) < 1.6  # 64 draws of a sum of squares: a standard error of about a sixth each


def test_curvature_and_resampling_are_those_of_all_rows(sampled):
    estimator, X, y = ridge(1000)
    new = table(50, seed=1)[0]
    auditor = rue.CalibratedRUE().fit(rue.wrap(estimator), (X, y))
    audit, exact = auditor.audit(new), rue.LinearRUE().fit(rue.wrap(estimator), (X, y)).audit(new)
    np.testing.assert_allclose(audit.std, exact.std, rtol=1e-9)
    assert audit.facts["n"] == 1000
    assert audit.facts["left_out_rows"] == FEW
    wide = np.column_stack([X, np.ones(1000)])
    hat = np.einsum("ni,ij,nj->n", wide, np.linalg.inv(wide.T @ wide + np.diag([1, 1, 1, 0])), wide)
    assert audit.facts["effective_parameters"] == pytest.approx(hat.sum(), rel=0.1)


@pytest.mark.parametrize("left_out", [Influence(), Mixture()])
def test_an_audit_by_a_sample_is_near_that_by_all_rows(left_out, few_trees):
    X, y = table(1500)
    model = rue.wrap(network(X, y, 5), loss="squared_error", l2=1.0)
    new = table(300, seed=1)[0]
    found = []
    for most in (10_000, 750):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rue.data.rows.SAMPLE", most)
            found.append(rue.CalibratedRUE().fit(model, (X, y), left_out=left_out).audit(new))
    every, some = found
    assert some.facts["left_out_rows"] == 750
    assert spearmanr(every.total_std, some.total_std)[0] > 0.7
    assert np.median(some.total_std / every.total_std) == pytest.approx(1, abs=0.1)
    np.testing.assert_allclose(some.std, every.std, rtol=0.5)


@pytest.mark.parametrize("kind", ["boosted", "forest", "logistic", "box", "classes"])
def test_every_kind_of_model_is_audited_by_a_sample(kind, sampled, few_trees):
    X, y = table(900)
    high = y > 0.3
    fitted = {
        "boosted": lambda: GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, y),
        "forest": lambda: RandomForestRegressor(20, random_state=0).fit(X, y),
        "logistic": lambda: LogisticRegression().fit(X, high),
        "box": lambda: type("Box", (), {"predict": staticmethod(lambda rows: np.asarray(rows)[:, 1])})(),
        "classes": lambda: network(X, y, 2),
    }[kind]()
    targets = high if kind == "logistic" else y
    known = {"loss": "bernoulli"} if kind == "classes" else {"loss": "squared_error"} if kind == "box" else {}
    if kind == "classes":
        targets = high.astype(float)
    new = table(200, seed=1)
    audit = rue.audit(fitted, train=(X, targets), inputs=new[0], **known)
    assert np.isfinite(audit.score).all()
    if kind in ("boosted", "forest", "box"):
        interval = audit.interval(0.9)
        inside = (interval.lower <= new[1]) & (new[1] <= interval.upper)
        assert 0.8 < inside.mean() <= 1
        assert audit.explain(0).to_frame(top=3).notna().all().all()


def test_folds_of_all_rows_are_judged_by_the_sample(sampled, few_trees):
    X, y = table(900)
    model = rue.wrap(GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, y))
    auditor = rue.CalibratedRUE().fit(model, (X, y), left_out=rue.left_out.Folds(4))
    audit = auditor.audit(table(200, seed=1)[0])
    assert audit.facts["left_out"] == "refits"
    assert audit.facts["left_out_rows"] == FEW
    wide, usual = audit.interval(0.9, by="CV+"), audit.interval(0.9)
    assert np.median((wide.upper - wide.lower) / (usual.upper - usual.lower)) == pytest.approx(1, abs=0.5)
