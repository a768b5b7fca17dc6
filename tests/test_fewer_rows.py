"""Fewer rows: probabilities, a weighted sandwich by hand, an error bar by hand, and right on average."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

import rue
from rue.core.drawn_rows import inclusion, picked
from rue.core.resample import generator
from snapshot import changed, module_picture

L2 = 0.5
LOSS = nn.CrossEntropyLoss(reduction="sum")


@pytest.mark.parametrize("count", [10, 37, 60, 79])
def test_probabilities_sum_to_the_count_and_follow_the_scores_up_to_one(count):
    score = torch.from_numpy(np.random.default_rng(0).exponential(size=80) ** 3)
    found = inclusion(score, count)
    assert float(found.sum()) == pytest.approx(count)
    least = 0.1 * count / 80
    assert float(found.min()) >= least
    free = found < 1
    slopes = ((found - least) / score)[free]
    assert float(found.max()) <= 1
    torch.testing.assert_close(slopes, slopes[:1].expand_as(slopes))
    assert free.all() or float(score[~free].min()) > float(score[free].max())
    assert (inclusion(score, count // 2) <= found).all()


def test_rows_are_picked_as_often_as_their_probabilities_say():
    probability = inclusion(torch.from_numpy(np.random.default_rng(0).exponential(size=40)), 12)
    source, counts, draws = generator(0), np.zeros(40), 4000
    for _ in range(draws):
        rows = picked(probability, torch.randperm(40, generator=source), float(torch.rand(1, generator=source)))
        assert len(rows) == 12
        counts[rows] += 1
    p = probability.numpy()
    assert (np.abs(counts / draws - p) <= 4.5 * np.sqrt(p * (1 - p) / draws) + 1e-9).all()


def test_starts_that_are_one_half_apart_pick_two_halves():
    order = torch.randperm(20, generator=generator(0))
    first, second = (picked(torch.full((20,), 0.5), order, start) for start in (0.3, 0.8))
    assert sorted([*first.tolist(), *second.tolist()]) == list(range(20))


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def table(n):
    source = torch.Generator().manual_seed(1)
    X = torch.randn(n, 4, generator=source, dtype=torch.float64) * torch.linspace(0.5, 3, 4, dtype=torch.float64)
    return X, torch.randint(0, 3, (n,), generator=source), 0.5 + torch.rand(n, generator=source, dtype=torch.float64)


@pytest.mark.parametrize("resampler", [rue.resample.Multinomial(), rue.resample.Poisson(), rue.resample.Jackknife()])
@pytest.mark.parametrize("by", ["leverage", "uniform"])
def test_with_all_rows_it_is_the_exact_answer(by, resampler):
    net, (X, y, weight) = network(), table(60)
    data, model, before = rue.Data(X, y, weight=weight), rue.wrap(net, loss=LOSS, l2=L2), module_picture(net)
    exact = rue.LinearRUE(resampler=resampler).fit(model, data).audit(X[:7])
    audit = rue.FewerRows(0.999, by=by, resampler=resampler).fit(model, data).audit(X[:7])
    np.testing.assert_allclose(audit.covariance, exact.covariance, rtol=1e-9)
    assert changed(before, module_picture(net)) == []
    assert audit.facts["rows_drawn"] == 60


def linear(n=300, p=3):
    source = np.random.default_rng(0)
    X = source.normal(size=(n, p)) * source.exponential(size=(n, 1))  # some rows have a large leverage
    y = X @ np.arange(p) + source.normal(size=n)
    net = nn.Linear(p, 1, bias=False).double()
    net.weight.data[0] = torch.from_numpy(np.linalg.solve(X.T @ X + L2 * np.eye(p), X.T @ y))
    return X, y, rue.wrap(net, loss="squared_error", l2=L2), y - X @ net.weight.detach().numpy()[0]


def test_the_covariance_is_a_sandwich_in_which_a_row_counts_for_as_many_as_it_stands_for(monkeypatch):
    """The draws are recorded; what is made of them is computed anew."""
    X, y, model, residual = linear()
    seen = []

    def recorded(probability, order, start):
        rows = picked(probability, order, start)
        seen.append((probability.numpy(), rows.numpy()))
        return rows

    monkeypatch.setattr("rue.methods.fewer_rows.picked", recorded)
    auditor = rue.FewerRows(0.2).fit(model, (X, y))
    new = np.random.default_rng(1).normal(size=(6, 3))
    audit = auditor.audit(new)
    _, (p, rows), *parts = seen
    halves = [(p[rows] * q, rows[half]) for q, half in parts]
    deviations, of_training = [by_hand(X[rows], residual[rows], 1 / p[rows], new)], []
    for probability, half in halves:
        whole = dict(zip(rows, probability, strict=True))
        weight = 1 / np.array([whole[row] for row in half])
        deviations.append(by_hand(X[half], residual[half], weight, new))
        of_training.append(by_hand(X[half], residual[half], weight, X[:256]))
    std, first, second = deviations
    usual = np.log(of_training[0] / of_training[1]) / 2
    chance = 0.8 * ((np.log(first / second) / 2) ** 2 + np.mean(usual**2)) / 2
    np.testing.assert_allclose(audit.std, std, rtol=1e-7)
    drift = np.log(std / np.sqrt(first * second)) * np.log2(5)
    np.testing.assert_allclose(audit.std_error, std * np.sqrt(chance + drift**2), rtol=1e-6)
    assert len(rows) == audit.facts["rows_drawn"] == 60
    assert len(halves[0][1]) == 30
    leverage = np.einsum("ni,ij,nj->n", X, np.linalg.inv(X.T @ X + L2 * np.eye(3)), X)
    assert spearmanr(p, leverage)[0] > 0.9


def by_hand(X, residual, weight, new):
    inverse = np.linalg.inv((X.T * weight) @ X + L2 * np.eye(X.shape[1]))
    gradients = -X * residual[:, None]
    mean = weight @ gradients / weight.sum()
    meat = ((gradients - mean).T * weight) @ (gradients - mean)
    return np.sqrt(np.einsum("mi,ij,jk,kl,ml->m", new, inverse, meat, inverse, new))


def test_variances_are_right_on_average_and_leverage_needs_fewer_rows():
    """Thirty draws each; errors of single draws in the logarithm of deviations."""
    X, y, model, _ = linear()
    new = np.random.default_rng(1).normal(size=(20, 3))
    exact = np.log(rue.LinearRUE().fit(model, (X, y)).audit(new).std)
    errors = {
        by: np.stack([np.log(rue.FewerRows(0.3, by=by, seed=s).fit(model, (X, y)).audit(new).std) for s in range(30)])
        - exact
        for by in ("leverage", "uniform")
    }
    assert abs(errors["leverage"].mean()) < 0.05
    assert np.sqrt((errors["leverage"] ** 2).mean()) < 0.8 * np.sqrt((errors["uniform"] ** 2).mean())


def test_the_same_seed_and_any_batches_give_the_same_audit_and_another_seed_another():
    net, (X, y, _) = network(), table(60)
    model = rue.wrap(net, loss=LOSS, l2=L2)
    auditor = rue.FewerRows(0.3).fit(model, (X, y))
    whole = auditor.audit(X[:9])
    assert whole.std_error.shape == whole.std.shape == (9, 3)
    parts = [auditor.audit(X[:4]), auditor.audit(X[4:9])]
    np.testing.assert_allclose(np.concatenate([part.std_error for part in parts]), whole.std_error, rtol=1e-8)
    np.testing.assert_array_equal(rue.FewerRows(0.3).fit(model, (X, y)).audit(X[:9]).std, whole.std)
    assert not np.array_equal(rue.FewerRows(0.3, seed=1).fit(model, (X, y)).audit(X[:9]).std, whole.std)


def test_what_has_no_single_rows_or_no_penalty_is_refused():
    net, (X, y, _) = network(), table(60)
    model = rue.wrap(net, loss=LOSS, l2=L2)
    with pytest.raises(rue.errors.SettingError, match="groups"):
        rue.FewerRows(0.5).fit(model, rue.Data(X, y, group=np.arange(60) // 2))
    with pytest.raises(rue.errors.SettingError, match="fewer than 8"):
        rue.FewerRows(0.05).fit(model, (X, y))
    with pytest.raises(rue.errors.SettingError, match="l2 of training"):
        rue.FewerRows(0.5).fit(rue.wrap(net, loss=LOSS), (X, y))
    for wrong in ({"share": 1.0}, {"share": 20}, {"by": "norm"}):
        with pytest.raises(rue.errors.SettingError):
            rue.FewerRows(**wrong)


def test_the_error_bar_covers_and_vanishes_where_all_rows_are_drawn():
    X, y, _ = table(200)
    model = rue.wrap(network(), loss=LOSS, l2=L2)
    exact = rue.LinearRUE().fit(model, (X, y)).audit(X[:40]).std
    apart = []
    for seed in range(12):
        audit = rue.FewerRows(0.3, seed=seed).fit(model, (X, y)).audit(X[:40])
        apart.append((audit.std - exact) / audit.std_error)
        assert "std_error_0" in audit.to_frame().columns
    assert np.sqrt(np.mean(np.square(apart))) < 1.5
    nearly = rue.FewerRows(0.999999).fit(model, (X, y)).audit(X[:40])
    assert (nearly.std_error <= 2e-3 * nearly.std).all()


def test_all_rows_are_left_to_the_exact_method():
    with pytest.raises(rue.errors.SettingError, match="use LinearRUE"):
        rue.FewerRows(1)
