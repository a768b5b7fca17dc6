"""skorch nets: the loss and penalty read off them, against the same objective said by hand."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from skorch import NeuralNet, NeuralNetBinaryClassifier, NeuralNetClassifier, NeuralNetRegressor
from skorch.helper import SliceDict
from torch import nn

import rue
from rue.core.errors import ModelError, RueWarning, SettingError
from snapshot import changed, module_picture, world_picture

METHOD = rue.LinearRUE(damping=rue.solve.Fixed(1e-3))
rng = np.random.default_rng(0)
X = rng.normal(size=(30, 3)).astype(np.float32)
X_new = rng.normal(size=(5, 3)).astype(np.float32)
y = (X[:, :1] - 0.5 * X[:, 1:2]).astype(np.float32)
labels = (X[:, 0] > 0).astype(np.int64) + (X[:, 1] > 0.5)
yes = (X[:, 0] > 0).astype(np.float32)


class Net(nn.Module):
    """With dropout, which skorch leaves in training mode after the last epoch."""

    def __init__(self, outputs=1, end=None):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.1), nn.Linear(4, outputs))
        self.end = end

    def forward(self, x):
        return self.inner(x) if self.end is None else self.end(self.inner(x))


def fitted(kind, targets, inputs=X, **settings):
    given = {
        "max_epochs": 3,
        "lr": 0.05,
        "verbose": 0,
        "train_split": None,
        "optimizer__weight_decay": 0.02,
        **settings,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(**{"module": Net, **given}).fit(inputs, targets)


def by_hand(net, loss, l2, targets):
    """The module, in eval mode, with the objective as `rue.wrap` takes it."""
    module = copy.deepcopy(net.module_).eval()
    return METHOD.fit(rue.wrap(module, loss=loss, l2=l2, reduction="mean"), (X, targets)).audit(X_new)


def test_the_mean_squared_error_is_twice_ours_and_so_its_penalty_is_halved():
    net = fitted(NeuralNetRegressor, y)
    audit = METHOD.fit(rue.wrap(net), (X, y)).audit(X_new)

    def criterion(outputs, targets):
        return (outputs - targets).square().sum(-1)  # the objective itself, as skorch minimised it

    plain = by_hand(net, criterion, 0.02, y)
    scaled = rue.LinearRUE(damping=rue.solve.Fixed(5e-4)).fit(rue.wrap(net), (X, y)).audit(X_new)  # half of it all
    np.testing.assert_allclose(scaled.std, plain.std, rtol=1e-4)
    np.testing.assert_allclose(audit.std, by_hand(net, "squared_error", 0.01, y).std, rtol=1e-5)
    np.testing.assert_allclose(audit.prediction, net.predict(X_new)[:, 0], rtol=1e-6)
    assert audit.facts["l2"] == 0.02
    assert audit.facts["penalty_scale"] == len(X) / 2
    assert audit.facts["loss"] == "squared_error"


def test_a_classifier_with_logits_is_audited_as_its_module_with_cross_entropy():
    net = fitted(NeuralNetClassifier, labels, criterion=nn.CrossEntropyLoss, module__outputs=3)
    audit = METHOD.fit(rue.wrap(net), (X, labels)).audit(X_new)
    np.testing.assert_array_equal(audit.prediction, net.predict(X_new))
    np.testing.assert_allclose(audit.std, by_hand(net, "cross_entropy", 0.02, labels).std, rtol=1e-4)


def test_a_classifier_that_returns_probabilities_is_audited_in_their_logarithms():
    net = fitted(NeuralNetClassifier, labels, module__outputs=3, module__end=nn.Softmax(-1))

    def likelihood(outputs, targets):
        return -torch.log(outputs.gather(1, targets[:, None])[:, 0])

    method = rue.LinearRUE(damping=rue.solve.Fixed(30.0), curvature=rue.curvature.Hessian())
    module = copy.deepcopy(net.module_).eval()
    plain = rue.wrap(module, loss=likelihood, l2=0.02, reduction="mean")
    expected, found = (method.fit(model, (X, labels)).audit(X_new) for model in (plain, rue.wrap(net)))
    shares = net.predict_proba(X_new)  # a logarithm's deviation is the relative one
    np.testing.assert_allclose(found.std, expected.std / shares, rtol=1e-3)
    np.testing.assert_array_equal(found.prediction, net.predict(X_new))
    np.testing.assert_allclose(found.outputs, np.log(shares), atol=1e-5)


def test_a_binary_classifier_is_audited_as_its_module_with_bernoulli():
    net = fitted(NeuralNetBinaryClassifier, yes)
    audit = METHOD.fit(rue.wrap(net), (X, yes)).audit(X_new)
    np.testing.assert_array_equal(audit.prediction, net.predict(X_new))
    np.testing.assert_allclose(audit.std, by_hand(net, "bernoulli", 0.02, yes).std, rtol=1e-5)


def test_a_net_of_no_kind_is_audited_as_its_module():
    net = fitted(NeuralNet, y, criterion=nn.HuberLoss)
    audit = METHOD.fit(rue.wrap(net), (X, y)).audit(X_new)
    np.testing.assert_allclose(audit.std, by_hand(net, "huber", 0.02, y).std, rtol=1e-5)


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_weight_decay_in_the_gradient_is_a_penalty(optimiser):
    assert rue.wrap(fitted(NeuralNetRegressor, y, optimizer=optimiser)).describe()["l2"] == 0.02


def test_weight_decay_apart_from_the_gradient_is_none_and_said():
    net = fitted(NeuralNetRegressor, y, optimizer=torch.optim.AdamW)
    with pytest.warns(RueWarning, match=r"AdamW shrinks the weights apart from the gradient \(weight_decay=0.02\)"):
        model = rue.wrap(net)
    assert model.describe()["l2"] == 0.0
    assert model.describe()["l2_given"] is False


def test_weight_decay_by_parameter_is_read_by_parameter():
    groups = [("*.bias", {"weight_decay": 0.0})]
    net = fitted(NeuralNetRegressor, y, optimizer__param_groups=groups)
    audit = METHOD.fit(rue.wrap(net), (X, y)).audit(X_new)
    expected = by_hand(net, "squared_error", {"*weight": 0.01, "*bias": 0.0}, y)
    np.testing.assert_allclose(audit.std, expected.std, rtol=1e-5)


def test_the_net_and_the_world_are_as_they_were():
    net = fitted(NeuralNetRegressor, y)
    assert net.module_.training
    picture, world, names = module_picture(net.module_), world_picture(), list(vars(net))
    METHOD.fit(rue.wrap(net), (X, y)).audit(X_new)
    assert changed(picture, module_picture(net.module_)) == []
    assert changed(world, world_picture()) == []
    assert list(vars(net)) == names


class Named(nn.Module):
    """Takes its features by name."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(2, 1)

    def forward(self, age, dose):
        return self.net(torch.cat([age, dose], dim=-1))


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # skorch and pandas between themselves
def test_inputs_by_name_and_data_frames_are_taken_as_skorch_takes_them():
    named = SliceDict(age=X[:, :1], dose=X[:, 1:2])
    frame = pd.DataFrame({"age": X[:, 0], "dose": X[:, 1]})
    net = fitted(NeuralNetRegressor, y, named, module=Named)
    by_name = METHOD.fit(rue.wrap(net), (named, y)).audit(named)
    by_column = METHOD.fit(rue.wrap(net), (frame, y)).audit(frame)
    np.testing.assert_allclose(by_name.prediction, net.predict(named)[:, 0], rtol=1e-6)
    np.testing.assert_array_equal(by_name.std, by_column.std)


def test_what_cannot_be_read_is_refused_with_advice():
    with pytest.raises(ModelError, match=r"not fitted yet; call net.fit"):
        rue.wrap(NeuralNetRegressor(Net))
    with pytest.raises(ModelError, match=r"criterion L1Loss is not known; say loss="):
        rue.wrap(fitted(NeuralNetRegressor, y, criterion=nn.L1Loss))
    with pytest.raises(ModelError, match=r"reduction='sum'.*depends on the batches"):
        rue.wrap(fitted(NeuralNetRegressor, y, criterion__reduction="sum"))
    with pytest.raises(ModelError, match=r"decides at 0.3 rather than 0.5"):
        rue.wrap(fitted(NeuralNetBinaryClassifier, yes, threshold=0.3))
    with pytest.raises(SettingError, match=r"penalty, select, reduction"):
        rue.wrap(fitted(NeuralNetRegressor, y), select="*weight")
    weighed = {"criterion": nn.CrossEntropyLoss, "criterion__weight": torch.tensor([1.0, 2.0, 3.0])}
    with pytest.raises(ModelError, match=r"divides by the class weights of each batch"):
        rue.wrap(fitted(NeuralNetClassifier, labels, module__outputs=3, **weighed))


def test_a_mean_over_several_outputs_too_is_read_as_such():
    two = np.concatenate([y, -y], axis=1)
    net = fitted(NeuralNetRegressor, two, module__outputs=2)
    audit = METHOD.fit(rue.wrap(net), (X, two)).audit(X_new)
    np.testing.assert_allclose(audit.std, by_hand(net, "squared_error", 0.02, two).std, rtol=1e-5)  # 2 outputs, a half


def test_a_criterion_of_torch_may_be_said_as_for_a_module():
    net = fitted(NeuralNetRegressor, y)
    said = METHOD.fit(rue.wrap(net, loss=nn.MSELoss(), l2=0.02), (X, y)).audit(X_new)
    np.testing.assert_array_equal(said.std, METHOD.fit(rue.wrap(net), (X, y)).audit(X_new).std)


def test_a_loss_and_a_penalty_may_be_said():
    net = fitted(NeuralNetRegressor, y, criterion=nn.L1Loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "training fit")
        audit = METHOD.fit(rue.wrap(net, loss="huber", l2=0.1), (X, y)).audit(X_new)
    np.testing.assert_allclose(audit.std, by_hand(net, "huber", 0.1, y).std, rtol=1e-5)


def test_a_net_at_the_end_of_a_pipeline_is_read_through_it():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), fitted(NeuralNetRegressor, y))
    pipeline[0].fit(X)
    mode = pipeline[-1].module_.training
    audit = METHOD.fit(rue.wrap(pipeline), (X, y)).audit(X_new)
    assert pipeline[-1].module_.training is mode
    np.testing.assert_array_equal(audit.prediction, pipeline.predict(X_new)[:, 0])
