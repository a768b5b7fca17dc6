"""Laws that every method obeys: a new one in `METHODS` is tested by being listed there."""

import copy
import warnings
from functools import cache

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import cases
import rue
from rue.methods import METHODS

pytestmark = [
    pytest.mark.usefixtures("few_trees"),
    pytest.mark.parametrize("method", METHODS),
    pytest.mark.filterwarnings("ignore::rue.errors.RueWarning"),  # members that drift are not what is tested here
]

FLOAT32 = {"rtol": 2e-3, "atol": 1e-6}  # of scores, for a float32 model against its float64 copy


def audited(method, case, data=None, inputs=None, **settings) -> rue.Audit:
    data = (case.X, case.y) if data is None else data
    inputs = case.X_new if inputs is None else inputs
    return METHODS[method]().fit(case.wrap(**settings), data).audit(inputs)


case_of = cache(lambda name: cases.CASES[name]())  # trained once for all laws


@cache
def plain(method, name) -> tuple[rue.Auditor, rue.Audit]:
    """The auditor and the audit that others are compared with, made once for all laws."""
    case = case_of(name)
    auditor = METHODS[method]().fit(case.wrap(), (case.X, case.y))
    return auditor, auditor.audit(case.X_new)


@pytest.mark.parametrize("name", ["softplus", "convolution", "squeezed"])
def test_predictions_are_the_modules_own(method, name):
    case = case_of(name)
    audit = plain(method, name)[1]
    with torch.no_grad():
        own = case.module(case.X_new).numpy()
    np.testing.assert_array_equal(audit.prediction, own[:, 0] if own.shape[1:] == (1,) else own)


@pytest.mark.parametrize("name", ["softplus", "convolution"])
def test_shapes_are_those_of_the_contract(method, name):
    case = case_of(name)
    audit = plain(method, name)[1]
    m, k = len(case.X_new), 1 if name == "softplus" else 2
    shape = (m,) if k == 1 else (m, k)
    assert audit.prediction.shape == shape
    assert audit.score.shape == (m,)
    for value in (audit.std, audit.noise_std, audit.total_std):
        assert value is None or value.shape == shape
    assert audit.covariance is None or audit.covariance.shape == (m, k, k)
    assert isinstance(audit.score, np.ndarray)
    assert np.isfinite(audit.score).all()


def test_the_score_is_the_root_of_the_covariances_trace_where_there_is_one(method):
    audit = plain(method, "convolution")[1]
    if audit.covariance is None:
        assert audit.std is None
    elif audit.spread.calibrated is not None:
        np.testing.assert_allclose(audit.score**2, (audit.total_std**2).sum(1), rtol=1e-12)
    else:
        np.testing.assert_allclose(audit.score**2, np.einsum("mii->m", audit.covariance), rtol=1e-12)
        np.testing.assert_allclose(audit.score**2, (audit.std**2).sum(1), rtol=1e-12)


@pytest.mark.parametrize("size", [1, 7, 20])
def test_batch_size_does_not_change_the_audit(method, size):
    case = case_of("softplus")
    loader = DataLoader(TensorDataset(case.X, case.y), batch_size=size)
    new = DataLoader(
        TensorDataset(case.X_new), batch_size=size, collate_fn=lambda rows: torch.stack([r[0] for r in rows])
    )
    whole, batched = plain(method, "softplus")[1], audited(method, case, loader, new)
    np.testing.assert_allclose(batched.score, whole.score, rtol=1e-9)
    np.testing.assert_allclose(batched.prediction, whole.prediction, rtol=1e-12)


def test_chunks_of_one_row_do_not_change_the_audit(method, monkeypatch):
    case = case_of("convolution")
    whole = plain(method, "convolution")[1]
    monkeypatch.setattr("rue.core.chunks.CHUNK_BYTES", 1)
    monkeypatch.setattr("rue.data.opening.BATCH_BYTES", 1)
    monkeypatch.setattr("rue.methods.ensemble.MEMBER_BYTES", 1)
    np.testing.assert_allclose(audited(method, case).score, whole.score, rtol=1e-9)


def test_the_same_seed_gives_the_same_bits(method):
    case = case_of("softplus")
    np.testing.assert_array_equal(audited(method, case).score, plain(method, "softplus")[1].score)


def test_audited_rows_do_not_know_of_each_other(method):
    case = case_of("softplus")
    auditor, whole = plain(method, "softplus")
    alone = np.concatenate([auditor.audit(case.X_new[i : i + 1]).score for i in range(len(case.X_new))])
    np.testing.assert_allclose(alone, whole.score, rtol=1e-9)


def test_a_float32_model_agrees_with_its_float64_copy(method):
    case = case_of("softplus")
    double = plain(method, "softplus")[1]
    single = copy.deepcopy(case.module).float()
    model = rue.wrap(single, loss=case.loss, l2=case.l2)
    audit = METHODS[method]().fit(model, (case.X, case.y)).audit(case.X_new)
    np.testing.assert_allclose(audit.score, double.score, **FLOAT32)


def test_an_orthogonal_change_of_basis_of_inputs_and_weights_changes_nothing(method):
    if method == "Kernel density" or method.startswith("Nearest"):
        pytest.skip("standardises each feature on its own, so that its axes matter")
    case = case_of("softplus")
    angle = torch.tensor(0.7, dtype=torch.float64)
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    turned = copy.deepcopy(case.module)
    with torch.no_grad():
        turned[0].weight.copy_(case.module[0].weight @ turn)
    model = rue.wrap(turned, loss=case.loss, l2=case.l2)
    audit = METHODS[method]().fit(model, (case.X @ turn, case.y)).audit(case.X_new @ turn)
    if method == "CalibratedRUE":  # its forest and its witness standardise each feature: only influence turns
        asked = {"left_out": rue.left_out.Influence()}
        own, other = (
            METHODS[method]().fit(m, (X, case.y), **asked) for m, X in ((case.wrap(), case.X), (model, case.X @ turn))
        )
        np.testing.assert_allclose(other.audit(case.X_new @ turn).std, own.audit(case.X_new).std, rtol=1e-7)
        one, two = (auditor.assess.known.evidence.slope for auditor in (own, other))
        np.testing.assert_allclose(two, one, rtol=1e-7)
    elif method == "Laplace":  # its draws turn with the basis: only their distribution is the same
        assert np.isfinite(audit.score).all()
    else:
        np.testing.assert_allclose(audit.score, plain(method, "softplus")[1].score, rtol=1e-7)


def test_permuting_the_training_rows_changes_nothing_that_is_not_drawn(method):
    if method in ("RUE", "Bootstrap SGD", "Kernel density", "CalibratedRUE", "Error model"):
        pytest.skip("weights, folds or the rows of trees are drawn for row numbers")
    case = case_of("softplus")
    order = torch.randperm(len(case.y), generator=torch.Generator().manual_seed(1))
    audit = audited(method, case, (case.X[order], case.y[order]))
    np.testing.assert_allclose(audit.score, plain(method, "softplus")[1].score, rtol=1e-7)


def test_facts_say_how_the_audit_was_made(method):
    facts = plain(method, "softplus")[1].facts
    assert facts["n"] == 20
    assert facts["d"] == 17
    assert facts["m"] == 6
    assert {"method", "damping", "residual", "warnings", "seconds_fit", "seconds_audit", "l2", "loss"} <= set(facts)
    assert facts["damping"] is None or facts["damping_reason"]


def test_settings_are_frozen_and_shown(method):
    settings = METHODS[method]()
    with pytest.raises((AttributeError, TypeError)):
        settings.members = 3
    assert type(settings).__name__ in repr(settings)


def test_predict_is_the_modules_and_its_std_the_audits(method):
    case = case_of("softplus")
    auditor, audit = plain(method, "softplus")
    np.testing.assert_array_equal(auditor.predict(case.X_new), audit.prediction)
    spread = audit.std if audit.total_std is None else audit.total_std
    if spread is None:
        with pytest.raises(rue.errors.InputError):
            auditor.predict(case.X_new, return_std=True)
    else:
        np.testing.assert_array_equal(auditor.predict(case.X_new, return_std=True)[1], spread)


def test_every_method_with_a_variance_has_a_predictive_distribution(method):
    case = case_of("softplus")
    audit = plain(method, "softplus")[1]
    if audit.std is not None:
        y = np.zeros(len(case.X_new))
        density = np.exp(-0.5 * ((y - audit.prediction) / audit.total_std) ** 2) / audit.total_std / np.sqrt(2 * np.pi)
        np.testing.assert_allclose(audit.log_prob(y), np.log(density), rtol=1e-10)


def test_no_warning_escapes_but_our_own(method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", rue.errors.RueWarning)
        for name in ("recurrent", "attention"):
            assert np.isfinite(audited(method, case_of(name)).score).all()
