"""Losses by name: their values against other libraries', their Hessians against autodiff, the audits made of them."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional

import rue
from rue import losses
from rue.core.errors import DataError, ModelError, SettingError, ShapeError

GENERATOR = torch.Generator().manual_seed(0)
EVERY = {
    **losses.LOSSES,
    "tweedie": losses.tweedie(1.3),
    "smoothed and weighted": losses.cross_entropy(0.1, [1.0, 2.0, 0.5]),
    "weighted yes": losses.bernoulli(pos_weight=3.0),
    "narrow huber": losses.huber(0.2),
}


def example(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs (7, k) and targets for a loss."""
    k = {"gaussian_nll": 2, "cross_entropy": 3, "smoothed and weighted": 3, "ordinal": 3, "cox": 1}.get(name, 2)
    outputs = torch.randn(7, k, generator=GENERATOR, dtype=torch.float64)
    labels = torch.randint(3, (7,), generator=GENERATOR)
    if name in ("cross_entropy", "smoothed and weighted"):
        return outputs, labels
    if name == "ordinal":
        return outputs.sort(descending=True).values, labels
    if name in ("bernoulli", "weighted yes"):
        return outputs, torch.randint(2, (7, k), generator=GENERATOR)
    if name in ("poisson", "negative_binomial", "tweedie"):
        return outputs, torch.randint(5, (7, k), generator=GENERATOR)
    if name == "gamma":
        return outputs, torch.rand(7, k, generator=GENERATOR, dtype=torch.float64) + 0.1
    if name == "cox":
        times = torch.rand(7, generator=GENERATOR, dtype=torch.float64)
        return outputs, torch.stack([times, (times > 0.3).double()], dim=1)
    return outputs, torch.randn(7, 1 if name == "gaussian_nll" else k, generator=GENERATOR, dtype=torch.float64)


@pytest.mark.parametrize("name", [name for name, loss in EVERY.items() if loss.hessian is not None])
def test_output_hessians_are_those_of_autodiff(name):
    loss, (outputs, targets) = EVERY[name], example(name)
    fitted = loss.fit_targets(targets, outputs.shape[1])
    assert loss.value(outputs, fitted).shape == (7,)
    for i in range(7):
        automatic = torch.autograd.functional.hessian(
            lambda at, i=i: loss.value(at[None], fitted[i : i + 1])[0], outputs[i]
        )
        torch.testing.assert_close(loss.hessian(outputs, fitted)[i], automatic, rtol=1e-12, atol=1e-12)


def test_values_are_those_of_torch_and_scipy():
    f, y = example("cross_entropy")
    assert torch.equal(EVERY["cross_entropy"].value(f, y), functional.cross_entropy(f, y, reduction="none"))
    f, y = example("bernoulli")
    wanted = functional.binary_cross_entropy_with_logits(f, y.double(), reduction="none").sum(1)
    torch.testing.assert_close(EVERY["bernoulli"].value(f, y.double()), wanted)
    weighted = functional.binary_cross_entropy_with_logits(
        f, y.double(), reduction="none", pos_weight=torch.tensor(3.0)
    ).sum(1)
    torch.testing.assert_close(EVERY["weighted yes"].value(f, y.double()), weighted)
    f, y = example("poisson")
    mean, counts, constant = f.exp().numpy(), y.numpy(), torch.lgamma(y.double() + 1).sum(1).numpy()
    found = EVERY["poisson"].value(f, y.double()).numpy()
    np.testing.assert_allclose(found, -stats.poisson.logpmf(counts, mean).sum(1) - constant, rtol=1e-10)
    dispersed = EVERY["negative_binomial"].value(f, y.double()).numpy()
    np.testing.assert_allclose(dispersed, -stats.nbinom.logpmf(counts, 1.0, 1 / (1 + mean)).sum(1), rtol=1e-10)
    f, y = example("gamma")
    of_shape_one = -stats.expon.logpdf(y.numpy(), scale=f.exp().numpy()).sum(1)
    np.testing.assert_allclose(EVERY["gamma"].value(f, y).numpy(), of_shape_one, rtol=1e-10)


def test_ordinal_probabilities_are_differences_of_cumulative_ones():
    f, y = example("ordinal")
    above = torch.cat([torch.ones(7, 1), f.sigmoid(), torch.zeros(7, 1)], dim=1)
    wanted = -(above[:, :-1] - above[:, 1:]).gather(1, y[:, None])[:, 0].log()
    torch.testing.assert_close(losses.ordinal().value(f, y), wanted)
    with pytest.raises(DataError, match="must fall from class to class"):
        losses.ordinal().value(f.flip(1), y)


@pytest.mark.parametrize("name", ["huber", "bernoulli", "poisson", "gamma", "negative_binomial", "cross_entropy"])
def test_a_named_loss_and_the_same_as_a_callable_give_the_same_audit(name):
    loss, (_, targets) = EVERY[name], example(name)
    k = 3 if name == "cross_entropy" else 2
    torch.manual_seed(1)
    net, X = nn.Linear(2, k).double(), torch.randn(7, 2, generator=GENERATOR, dtype=torch.float64)
    fitted = loss.fit_targets(targets, k)
    known = rue.LinearRUE().fit(rue.wrap(net, loss=name, l2=1.0), (X, targets)).audit(X)
    plain = rue.LinearRUE().fit(rue.wrap(net, loss=loss.value, l2=1.0), (X, fitted)).audit(X)
    np.testing.assert_allclose(known.std, plain.std, rtol=1e-10)


def test_a_loss_that_is_not_convex_is_damped_and_says_so():
    X = torch.randn(12, 1, generator=GENERATOR, dtype=torch.float64)
    net = nn.Linear(1, 2).double()
    with torch.no_grad():
        net.weight.zero_()
        net.bias.zero_()
    with pytest.warns(rue.errors.RueWarning, match=r"points downwards .* not convex in the outputs"):
        audit = rue.audit(net, train=(X, 5 + X), inputs=X, loss="gaussian_nll", l2=0.1)
    assert audit.facts["damping"] > 0
    assert np.isfinite(audit.std).all()


# Cox


def survival(n=120, ties=False):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    event, censored = rng.exponential(np.exp(-X @ [0.5, -0.3, 0.2])), rng.exponential(2.0, size=n)
    times = np.minimum(event, censored)
    return X, np.c_[np.ceil(5 * times) if ties else times, event <= censored].astype(float)


def cox_net(weights) -> nn.Module:
    net = nn.Linear(3, 1, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(torch.as_tensor(weights))
    return net


@pytest.mark.filterwarnings("ignore")  # lifelines warns of pandas' and NumPy's ways
def test_cox_has_the_robust_variance_of_lifelines():
    from lifelines import CoxPHFitter

    X, y = survival()
    frame = pd.DataFrame(X, columns=list("abc")).assign(time=y[:, 0], event=y[:, 1], patient=np.arange(120) // 2)
    options = {"precision": 1e-14}
    plain = CoxPHFitter().fit(frame.drop(columns="patient"), "time", "event", robust=True, fit_options=options)
    grouped = CoxPHFitter().fit(frame, "time", "event", cluster_col="patient", fit_options=options)
    for fit, group in ((plain, None), (grouped, frame["patient"])):
        model = rue.wrap(cox_net(fit.params_.to_numpy()), loss="cox", l2=0.0)
        std = rue.LinearRUE().fit(model, rue.Data(X, y, group=group)).audit(np.eye(3)).std
        np.testing.assert_allclose(std, fit.standard_errors_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:copies")
def test_cox_counts_a_weight_of_two_as_a_row_twice():
    X, y = survival(30, ties=True)
    model = rue.wrap(cox_net([0.5, -0.3, 0.2]), loss="cox", l2=0.5)
    twice = np.r_[np.arange(30), 4]
    weight = np.ones(30)
    weight[4] = 2.0
    method = rue.Laplace(linearised=True)
    by_weight = method.fit(model, rue.Data(X, y, weight=weight)).audit(X)
    repeated = method.fit(model, (X[twice], y[twice])).audit(X)
    np.testing.assert_allclose(by_weight.std, repeated.std, rtol=1e-9)


def test_cox_gauss_newton_products_are_the_dense_matrix():
    from rue.core.curvature import GaussNewton, Hessian
    from rue.data.opening import training_rows

    X, y = survival(25)
    rows, model = training_rows((X, y), rue.wrap(cox_net([0.5, -0.3, 0.2]), loss="cox", l2=0.5))
    for rule in (GaussNewton(), Hessian()):  # a linear predictor: the two are one
        curvature = rule.at(model, rows)
        dense = GaussNewton().at(model, rows).dense()
        torch.testing.assert_close(curvature.product(torch.eye(3, dtype=torch.float64)), dense, rtol=1e-9, atol=1e-9)


def test_rows_that_are_coupled_are_neither_left_out_nor_streamed():
    X, y = survival(25)
    model = rue.wrap(cox_net([0.5, -0.3, 0.2]), loss="cox", l2=0.5)
    with pytest.raises(ModelError, match=r"cannot be left out .* use LinearRUE"):
        rue.LinearRUE(meat="HC3").fit(model, (X, y))
    dataset = torch.utils.data.TensorDataset(torch.as_tensor(X), torch.as_tensor(y))
    with pytest.raises(DataError, match=r"read together; give arrays"):
        rue.LinearRUE().fit(model, dataset)


# Advice


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: losses.as_loss("quantile"), ModelError, "'huber'"),
        (lambda: losses.as_loss("bce"), ModelError, "'bernoulli'"),
        (lambda: losses.as_loss(nn.L1Loss(reduction="none")), ModelError, "huber"),
        (lambda: losses.as_loss(nn.BCEWithLogitsLoss()), ModelError, "say loss='bernoulli'"),
        (lambda: losses.huber(0.0), SettingError, "delta must be above 0"),
        (lambda: losses.tweedie(2.0), SettingError, "between 1 and 2"),
        (lambda: losses.negative_binomial(0.0), SettingError, "dispersion must be above 0"),
        (lambda: losses.bernoulli(0.0), SettingError, "pos_weight must be above 0"),
        (lambda: losses.bernoulli([1.0, float("inf")]), SettingError, "and finite"),
        (lambda: losses.cross_entropy(1.0), SettingError, "label_smoothing must be"),
        (lambda: losses.cross_entropy(0.0, [1.0, float("nan")]), SettingError, "class_weight must be finite"),
        (lambda: losses.cross_entropy(0.0, [1.0]).fit_targets(torch.tensor([0]), 2), SettingError, "one for each"),
        (lambda: losses.cross_entropy().fit_targets(torch.tensor([0, 3]), 3), DataError, "whole numbers 0 to 2"),
        (lambda: losses.cross_entropy().fit_targets(torch.tensor([0, 1]), 1), ShapeError, 'use loss="bernoulli"'),
        (lambda: losses.bernoulli().fit_targets(torch.tensor([0, 2]), 1), DataError, "0 or 1, or a probability"),
        (
            lambda: losses.gamma().fit_targets(torch.tensor([0.0, 2.0]), 1),
            DataError,
            "1 of 2 targets are not above zero",
        ),
        (lambda: losses.gaussian_nll().fit_targets(torch.tensor([0.0]), 1), ShapeError, "needs two outputs"),
        (lambda: losses.cox().fit_targets(torch.tensor([0.0]), 1), ShapeError, r"\(1,\)"),
        (lambda: losses.cox().fit_targets(torch.tensor([[1.0, 2.0]]), 1), DataError, "events 0 or 1"),
        (lambda: losses.poisson().fit_targets({"y": torch.ones(2)}, 1), ShapeError, "expected one array"),
    ],
)
def test_what_a_loss_cannot_take_is_refused_with_advice(make, error, said):
    with pytest.raises(error, match=said):
        make()
