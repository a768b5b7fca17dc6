"""What code branches on is a typed value, whatever the words beside it say."""

import copy

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

import rue
from rue.calibrate.conformal import CLASS_SET, HeldOutScores
from rue.calibrate.left_out import Folds, Influence
from rue.core.errors import CrowdedWarning, RueWarning
from rue.core.guarantee import Guarantee

pytestmark = pytest.mark.usefixtures("few_trees")

X = np.random.default_rng(0).normal(size=(60, 3))
y = X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=60)
HELD = np.random.default_rng(2).normal(size=(60, 3))
y_held = HELD[:, 0] + 0.3 * np.random.default_rng(3).normal(size=60)


def test_a_guarantee_is_a_string_that_says_whether_it_holds():
    for promise, holds in (("guaranteed", True), ("approximate", False), ("none", False)):
        made = Guarantee("words", promise)
        assert made == "words"
        assert made.holds is holds
        assert copy.deepcopy(made).promise == made.also(", and more").promise == promise
    assert made.also(", and more") == "words, and more"


@pytest.fixture(scope="module")
def auditor():
    return rue.CalibratedRUE().fit(rue.wrap(Ridge().fit(X, y)), (X, y))


def test_intervals_say_what_they_promise(auditor):
    plain = auditor.audit(X)
    assert plain.interval(by="jackknife+").guarantee.promise == "approximate"
    assert plain.interval(by="full conformal").guarantee.promise == "approximate"
    assert plain.interval(by="distribution").guarantee.promise == "none"
    assert auditor.calibrate(HELD, y_held).audit(X).interval().guarantee.promise == "guaranteed"
    assert auditor.validated((HELD, y_held)).audit(X).interval().guarantee.promise == "approximate"


def test_the_promise_of_several_outputs_outlives_the_remark():
    targets = np.stack([y, X[:, 1] + 0.1 * y], axis=1)
    two = rue.LinearRUE().fit(rue.wrap(Ridge().fit(X, targets)), (X, targets))
    said = two.calibrate(HELD, np.stack([y_held, HELD[:, 1] + 0.1 * y_held], axis=1)).audit(X).interval().guarantee
    assert said.endswith("for each output by itself")
    assert said.holds


def test_copies_promise_by_how_much_they_guarantee():
    model = rue.wrap(KNeighborsRegressor(3).fit(X, y))
    audit = rue.CalibratedRUE().fit(model, (X, y), left_out=Folds(3)).audit(X)
    assert audit.interval(0.9, by="CV+").guarantee.holds
    nothing = audit.interval(0.5, by="CV+").guarantee  # 2 · 0.5 − 1 is nothing
    assert not nothing.holds
    assert nothing.startswith("nothing is guaranteed")


def test_sets_of_classes_are_named_in_their_own_words_and_groups_keep_their_names():
    held = HeldOutScores(np.ones(3), group=np.array(["interval 1"] * 3))
    said = held.guarantee(0.9, np.array(["infinite"]), CLASS_SET)
    assert "sets are of all classes where a group has fewer than the 9 needed: 'interval 1' (n = 3)" in said
    assert said.endswith("'infinite'")


def test_policies_promise_what_they_were_chosen_by():
    auditor = rue.LinearRUE().fit(rue.wrap(Ridge().fit(X[:40], y[:40])), (X[:40], y[:40]))
    audit, held, far = auditor.audit(X[40:]), y[40:], rue.policy.Exceeds(0.0)
    assert rue.Policy.by_share(audit, share=0.3).guarantee.holds
    assert rue.Policy.by_risk(audit, held, rue.policy.Exceeds(9.0), risk=0.3).guarantee.holds
    assert not rue.Policy.by_cost(audit, held, far, error=10, review=1).guarantee.holds  # all is for review
    with pytest.warns(RueWarning, match="training row"):
        assert not rue.Policy.by_share(auditor.audit(X[:40]), share=0.3).guarantee.holds


@pytest.mark.parametrize(
    ("loss", "link", "same_scale"),
    [
        (rue.losses.squared_error(), "identity", True),
        (rue.losses.huber(), "identity", True),
        (rue.losses.squared_epsilon_insensitive(), "identity", True),
        (rue.losses.poisson(), "log", False),
        (rue.losses.gamma(), "log", False),
        (rue.losses.tweedie(1.3), "log", False),
        (rue.losses.cross_entropy(), None, False),
        (rue.losses.Loss("huber of my own", lambda outputs, targets: (outputs - targets).sum(-1)), None, False),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_loss_says_how_outputs_and_predictions_are_linked(loss, link, same_scale):
    assert loss.family.link == link
    assert loss.family.same_scale is same_scale


def test_solvers_say_whether_each_row_takes_iterations():
    model = rue.wrap(Ridge(fit_intercept=False).fit(X, y))
    for solver, iterative in (
        (rue.solve.Cholesky(), False),
        (rue.solve.Eigen(), False),
        (rue.solve.ConjugateGradient(), True),
    ):
        fitted = rue.LinearRUE(solver=solver).fit(model, (X, y))
        assert fitted.trained.inverted.inverse.iterative is iterative
        assert ("leverage" in fitted.check()) is not iterative


def test_a_projection_and_what_is_held_fixed_stand_in_the_family():
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    model = rue.wrap(net, loss="squared_error", l2=1.0)
    whole, seen = (rue.LinearRUE(solver=solver).fit(model, (X, y)) for solver in (None, rue.solve.Projection(8)))
    assert (whole.model.family.projected, seen.model.family.projected) == (False, True)
    assert not seen.model.family.held_fixed


def test_too_many_effective_parameters_are_a_warning_of_their_own():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 30), torch.nn.Tanh(), torch.nn.Linear(30, 1)).double()
    model = rue.wrap(net, loss="squared_error", l2=0.01)
    with pytest.warns(CrowdedWarning):
        rue.CalibratedRUE().fit(model, (X, y), left_out=Influence())
