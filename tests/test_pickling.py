"""Auditors and audits go through plain pickle to other processes and give the same bits there."""

import multiprocessing
import pickle
from operator import methodcaller

import numpy as np
import pytest
import torch
from torch import nn

import pickle_cases as cases
import rue
from rue.core.errors import RueError
from rue.losses import LOSSES
from rue.methods import CLASSIFIER_METHODS, METHODS
from rue.methods.integrated import INTEGRATED, Adam

pytestmark = pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
HIGHEST = pickle.HIGHEST_PROTOCOL
X, y, X_new, X_held, y_held, three = cases.X, cases.y, cases.X_new, cases.X_held, cases.y_held, cases.three
SMALL = {"training": Adam(epochs=3, batch=16, learning_rate=0.01), "epochs": 2, "members": 4, "rates": (0.1, 0.4)}


@pytest.fixture(scope="module", autouse=True)
def few_trees():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rue.calibrate.error_model.TREES", 10)
        yield


def sent(thing):
    """What another process would get."""
    return pickle.loads(pickle.dumps(thing, HIGHEST))


def asked(ask):
    """The answer, or the kind of error."""
    try:
        return ask()
    except RueError as error:
        return type(error)


def answers(audit):
    """Everything an audit says: its numbers, every kind of interval, and why its first row is uncertain."""
    parts = ("prediction", "score", "std", "noise_std", "total_std", "probability", "flip_probability", "scarce")
    said = {part: getattr(audit, part) for part in parts}
    for rule in audit.rules:
        said[rule] = asked(lambda rule=rule: audit.interval(by=rule))
    said["set"] = asked(audit.prediction_set)
    explained = asked(lambda: audit.explain(0))
    if isinstance(explained, rue.Explanation):
        said |= {"contribution": explained.contribution, "why": str(explained), "without": explained.without([1, 2])}
    return said


def assert_same_bits(one, other):
    assert one.keys() == other.keys()
    for part, value in one.items():
        assert type(other[part]) is type(value)
        for a, b in zip(value, other[part], strict=True) if isinstance(value, tuple) else [(value, other[part])]:
            np.testing.assert_array_equal(a, b, err_msg=part, strict=isinstance(a, np.ndarray))


def assert_survives(auditor, inputs):
    audit = auditor.audit(inputs)
    said = answers(audit)
    assert_same_bits(said, answers(sent(audit)))
    assert_same_bits(said, answers(sent(auditor).audit(inputs)))


@pytest.mark.parametrize("name", cases.AUDITORS)
def test_every_kind_of_model_gives_the_same_bits_in_another_process(name):
    library = cases.LIBRARIES.get(name.split(" ")[0].strip(","))
    if library is not None:
        pytest.importorskip(library)
    assert_survives(cases.AUDITORS[name](), cases.inputs_of(name))


def fitted(method):
    small = {field: value for field, value in SMALL.items() if field in getattr(method, "__dataclass_fields__", {})}
    first, _, last = cases.net().layers
    model = rue.wrap(nn.Sequential(first, nn.ReLU(), last), loss="squared_error", l2=0.5)
    return type(method)(**{**vars(method), **small}).fit(model, (X, y))


@pytest.mark.parametrize("name", METHODS | INTEGRATED)
def test_every_method_gives_the_same_bits_in_another_process(name):
    auditor = fitted((METHODS | INTEGRATED)[name]())
    assert_survives(auditor, X_new)
    if auditor.drawn is not None:
        np.testing.assert_array_equal(sent(auditor).members(X_new), auditor.members(X_new))


@pytest.mark.parametrize("name", CLASSIFIER_METHODS)
def test_every_method_for_classes_gives_the_same_bits_in_another_process(name):
    model = rue.wrap(cases.net(3), loss="cross_entropy", l2=0.5)
    auditor = CLASSIFIER_METHODS[name]().fit(model, (X, three))
    assert_survives(auditor.calibrate(X_held, np.arange(30) % 3), X_new)


def test_an_auditor_can_be_checked_calibrated_and_reported_on_elsewhere():
    auditor = rue.CalibratedRUE().fit(cases.trained_by_adamw(), (X, y))
    other = sent(auditor)
    assert str(other.check(X_new)) == str(auditor.check(X_new))
    held = (auditor.calibrate(X_held, y_held), other.calibrate(X_held, y_held))
    assert_same_bits(*(answers(each.audit(X_new)) for each in held))
    here, there = (rue.report(each, X_held, y_held, baselines=False).document for each in (auditor, other))
    assert {**here, "created": None} == {**there, "created": None}


def test_what_is_made_of_an_audit_can_be_sent_too():
    auditor = fitted(rue.LinearRUE())
    audit = auditor.audit(X_held)
    policy = rue.Policy.by_share(audit, y_held, rue.policy.Exceeds(1.0), share=0.4)
    checkup, report = auditor.check(), rue.report(auditor, X_held, baselines=False)
    assert sent(policy) == policy
    np.testing.assert_array_equal(sent(policy.decide(audit)).tier, policy.decide(audit).tier)
    assert str(sent(checkup)) == str(checkup)
    assert sent(report).json() == report.json()
    assert sent(audit.explain()).to_frame().equals(audit.explain().to_frame())
    assert sent(rue.wrap(cases.net(), loss="huber", l2=1.0)).describe()["loss"] == "huber"
    assert isinstance(sent(rue.LinearRUE(resampler=rue.resample.Jackknife())).fit(auditor.model, (X, y)), rue.Auditor)


LABELS = torch.tensor([0.0, 1.0, 1.0])
OTHER_LOSSES = {
    "tweedie": (rue.losses.tweedie(1.3), LABELS[:, None]),
    "squared_hinge": (rue.losses.squared_hinge(), LABELS[:, None]),
    "modified_huber": (rue.losses.modified_huber(), LABELS[:, None]),
    "signed_squared_error": (rue.losses.signed_squared_error(), LABELS[:, None]),
    "squared_epsilon_insensitive": (rue.losses.squared_epsilon_insensitive(0.2), LABELS[:, None]),
    "row_weighted": (rue.losses.row_weighted(rue.losses.bernoulli(2.0)), (LABELS[:, None], LABELS + 1)),
    "one_vs_rest": (rue.losses.one_vs_rest(rue.losses.squared_hinge()), LABELS.long()),
    "gaussian_nll_of_variance": (rue.losses.stated(nn.GaussianNLLLoss()).loss, LABELS),
    "summed over tokens": (rue.tokens.summed("cross_entropy"), torch.tensor([[0], [1], [-100]])),
}


@pytest.mark.parametrize("name", [*LOSSES, *OTHER_LOSSES])
def test_every_loss_and_its_second_derivative_can_be_sent(name):
    two = name in ("gaussian_nll", "gaussian_nll_of_variance", "cross_entropy", "one_vs_rest", "summed over tokens")
    outputs = torch.tensor([[0.3, 0.1], [0.2, 0.4], [0.7, 0.2]])[:, : 2 if two else 1]
    if name in LOSSES:
        loss = LOSSES[name]
        raw = torch.tensor([[1.0, 1.0], [2.0, 0.0], [3.0, 1.0]]) if name == "cox" else LABELS + (name == "gamma")
        targets = loss.fit_targets(raw, outputs.shape[1])
        torch.testing.assert_close(sent(loss).fit_targets(raw, outputs.shape[1]), targets, rtol=0, atol=0)
    else:
        loss, targets = OTHER_LOSSES[name]
    assert sent(loss).family == loss.family
    torch.testing.assert_close(sent(loss)(outputs, targets), loss(outputs, targets), rtol=0, atol=0)
    if loss.hessian is not None:
        again = sent(loss).hessian(outputs, targets)
        torch.testing.assert_close(again, loss.hessian(outputs, targets), rtol=0, atol=0)


def test_a_pickle_names_what_cannot_be_sent():
    model = rue.wrap(cases.net(), loss=lambda outputs, targets: (outputs - targets) ** 2, l2=1.0)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(rue.LinearRUE().fit(model, (X, y)), HIGHEST)


def test_a_pickle_does_not_grow_with_the_batches_that_rows_are_read_in():
    """A batch is a view of all rows: were views kept, each would be stored with all of them."""
    many = np.tile(X, (200, 1)), np.tile(y, 200)
    auditor = rue.LinearRUE().fit(rue.wrap(cases.net(), loss="squared_error", l2=1.0), many)
    assert len(pickle.dumps(auditor, HIGHEST)) < 6 * (many[0].nbytes + many[1].nbytes)


@pytest.mark.training
def test_a_spawned_process_loads_and_uses_auditors_without_importing_anything_first():
    auditor = rue.LinearRUE().fit(rue.wrap(cases.net(), loss=cases.log_cosh, penalty=cases.sizes), (X, y))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        back = pool.apply(pickle.loads, (pickle.dumps(auditor, HIGHEST),))
        audit = pool.apply(methodcaller("audit", X_new), (auditor,))
    assert_same_bits(answers(back.audit(X_new)), answers(auditor.audit(X_new)))
    assert_same_bits(answers(audit), answers(auditor.audit(X_new)))


@pytest.mark.training
def test_auditors_go_to_the_processes_of_joblib():
    joblib = pytest.importorskip("joblib")
    auditor = cases.AUDITORS["Ridge by default"]()
    parts = [X_new[:3], X_new[3:]]
    audits = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(auditor.audit)(part) for part in parts)
    for audit, part in zip(audits, parts, strict=True):
        np.testing.assert_array_equal(audit.score, auditor.audit(part).score)
