"""The same audit on a GPU: skipped where there is none."""

import copy

import numpy as np
import pytest
import torch

import cases
import rue
from rue.methods import METHODS
from rue.methods.integrated import PBP, Adam, DeepEnsemble, MCDropout, RefitBootstrap

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
    pytest.mark.filterwarnings("ignore::rue.errors.RueWarning"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),  # torch, in the first product of a thread
]

TOLERANCE = {"rtol": 1e-6, "atol": 1e-9}  # of scores in float64, CPU against GPU


def scores(method, case, device, solver=None):
    module = copy.deepcopy(case.module).to(device)
    model = rue.wrap(module, loss=case.loss, l2=case.l2)
    settings = METHODS[method]() if solver is None else rue.LinearRUE(solver=solver)
    audit = settings.fit(model, (case.X, case.y)).audit(case.X_new)
    assert isinstance(audit.score, np.ndarray)
    return audit.score


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["softplus", "convolution", "batch_norm", "attention", "softmax"])
def test_a_gpu_gives_the_audit_of_a_cpu(method, name):
    if name == "softmax" and method in ("CalibratedRUE", "Error model"):
        pytest.skip("these are about the residuals of squared error")
    if (name, method) == ("attention", "CalibratedRUE"):
        pytest.skip("12 rows, 85 parameters: rounding decides which penalty is found, on one machine too")
    case = cases.CASES[name]()
    np.testing.assert_allclose(scores(method, case, "cuda"), scores(method, case, "cpu"), **TOLERANCE)


def test_a_recurrent_net_is_audited_on_a_gpu():
    case = cases.CASES["recurrent"]()
    np.testing.assert_allclose(scores("LinearRUE", case, "cuda"), scores("LinearRUE", case, "cpu"), **TOLERANCE)


@pytest.mark.parametrize("solver", [rue.solve.Eigen(), rue.solve.Dual(), rue.solve.ConjugateGradient(1e-10)], ids=repr)
def test_every_solver_works_on_a_gpu(solver):
    case = cases.CASES["convolution"]()
    found = scores("LinearRUE", case, "cuda", solver)
    np.testing.assert_allclose(found, scores("LinearRUE", case, "cpu"), **TOLERANCE)


def test_lanczos_finds_the_smallest_eigenvalue_on_a_gpu(monkeypatch):
    case = cases.CASES["softplus"]()
    dense = scores("RUE", case, "cpu")
    monkeypatch.setattr("rue.solve.damping.DENSE_SIZE", 1)
    np.testing.assert_allclose(scores("RUE", case, "cuda"), dense, rtol=1e-3)


def test_inputs_already_on_the_gpu_are_taken_and_the_random_state_is_kept():
    case = cases.CASES["softplus"]()
    module = copy.deepcopy(case.module).cuda()
    before = torch.cuda.get_rng_state()
    model = rue.wrap(module, loss=case.loss, l2=case.l2)
    audit = rue.LinearRUE().fit(model, (case.X.cuda(), case.y.cuda())).audit(case.X_new.cuda())
    np.testing.assert_allclose(audit.score, scores("LinearRUE", case, "cpu"), **TOLERANCE)
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_inputs_on_the_gpu_with_a_model_on_the_cpu_are_refused():
    case = cases.CASES["softplus"]()
    with pytest.raises(rue.errors.DeviceError, match="move one"):
        rue.LinearRUE().fit(case.wrap(), (case.X.cuda(), case.y))


@pytest.mark.parametrize(
    "method",
    [
        RefitBootstrap(members=3, training=Adam(epochs=4, batch=8)),
        DeepEnsemble(members=2, training=Adam(epochs=4, batch=8), adversarial=0.01),
        MCDropout(members=4, training=Adam(epochs=4, batch=8), rates=(0.1, 0.3)),
        PBP(epochs=2),
    ],
    ids=lambda method: type(method).__name__,
)
def test_networks_trained_on_a_gpu_are_those_of_a_cpu(method):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(30, 2, generator=generator, dtype=torch.float64)
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).double()
    audits = {}
    for device in ("cpu", "cuda"):
        model = rue.wrap(copy.deepcopy(net).to(device), loss="squared_error", l2=0.1)
        audits[device] = method.fit_many([model] * 2, [(X[:20], X[:20, 0]), (X[10:], X[10:, 1])])[1].audit(X)
    for field in ("prediction", "score", "total_std"):
        found, wanted = (getattr(audits[device], field) for device in ("cuda", "cpu"))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-8, err_msg=field)


@pytest.mark.parametrize("name", ["softplus", "convolution", "attention", "softmax"])
@pytest.mark.parametrize("grouped", [False, True], ids=["rows", "groups"])
def test_a_gpu_gives_the_reasons_of_a_cpu(name, grouped):
    case = cases.CASES[name]()
    found = {}
    for device in ("cpu", "cuda"):
        model = rue.wrap(copy.deepcopy(case.module).to(device), loss=case.loss, l2=case.l2)
        data = rue.Data(case.X, case.y, group=[i // 2 for i in range(len(case.y))] if grouped else None)
        auditor = rue.LinearRUE().fit(model, data)
        one = auditor.audit(case.X_new).explain(0)
        found[device] = one, one.without(one.order[:2]), auditor.audit(case.X_new).explain(), auditor.check(case.X_new)
    (cpu, out, every, fit), (gpu, gpu_out, gpu_every, gpu_fit) = found["cpu"], found["cuda"]
    np.testing.assert_allclose(gpu.contribution, cpu.contribution, **TOLERANCE)
    np.testing.assert_allclose(gpu.change, cpu.change, **TOLERANCE)
    np.testing.assert_allclose(gpu.similarity, cpu.similarity, **TOLERANCE)
    assert gpu_out == pytest.approx(out, rel=1e-6)
    assert gpu_every.reason == every.reason
    assert {check.name: check.light for check in gpu_fit} == {check.name: check.light for check in fit}


def test_a_report_is_made_of_a_model_on_a_gpu():
    case = cases.CASES["softplus"]()
    model = rue.wrap(copy.deepcopy(case.module).to("cuda"), loss=case.loss, l2=case.l2)
    made = rue.report(rue.CalibratedRUE().fit(model, (case.X, case.y)), case.X_new)
    assert made.document["predictions"]["count"] == len(case.X_new)


@pytest.mark.parametrize("method", ["LinearRUE", "CalibratedRUE", "RUE"])
def test_a_stored_audit_gives_the_same_bits_on_a_gpu_and_nearly_the_same_on_a_cpu(method, tmp_path):
    case = cases.CASES["softplus"]()
    there = rue.wrap(copy.deepcopy(case.module).to("cuda"), loss=case.loss, l2=case.l2)
    auditor = METHODS[method]().fit(there, (case.X, case.y))
    auditor.save(tmp_path / "a.rue")
    score = auditor.audit(case.X_new).score
    np.testing.assert_array_equal(rue.load(tmp_path / "a.rue", there).audit(case.X_new).score, score)
    here = rue.wrap(case.module, loss=case.loss, l2=case.l2)
    np.testing.assert_allclose(rue.load(tmp_path / "a.rue", here).audit(case.X_new).score, score, rtol=1e-5)
    plain = rue.LinearRUE().fit(here, (case.X, case.y))
    plain.save(tmp_path / "b.rue")
    with pytest.raises(rue.errors.DeviceError, match="cpu"):
        rue.load(tmp_path / "b.rue", there)
