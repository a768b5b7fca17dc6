"""Models that are not what they seem."""

import copy
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from catboost import CatBoost, CatBoostRanker
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, IterableDataset

import rue
from attacks.attack import Attack, Refused, Right, Warned
from attacks.kinds import problem, trained
from rue.core.errors import DataError, ModelError, SettingError


@cache
def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Standardised inputs, numbers and classes, as tensors."""
    X, y, labels, _ = problem()
    return torch.tensor(((X - X.mean()) / X.std()).to_numpy()), torch.tensor(y), torch.tensor(labels)


def learnt(net: nn.Module, loss: Callable[[torch.Tensor], torch.Tensor], *, steps: int = 150) -> nn.Module:
    """The module, trained on all rows; also what it does not list among its parameters."""
    found = {id(p): p for part in net.modules() for p in (*part.parameters(), *_hidden(part)) if p.requires_grad}
    optimizer = torch.optim.Adam(found.values(), lr=0.02)
    with torch.enable_grad():
        for _ in range(steps):
            optimizer.zero_grad()
            loss(net(data()[0])).backward()
            optimizer.step()
    return net.eval()


def _hidden(part: nn.Module) -> list[torch.Tensor]:
    held = [value for value in vars(part).values() if isinstance(value, list | dict)]
    layers = [layer for value in held for layer in (value.values() if isinstance(value, dict) else value)]
    own = [value for value in vars(part).values() if isinstance(value, torch.Tensor)]
    return [*own, *(p for layer in layers if isinstance(layer, nn.Module) for p in layer.parameters())]


def made(build: Callable[[], nn.Module]) -> nn.Module:
    """A module in float64, always the same, without a trace in the global random state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build().double()


def numbers(outputs: torch.Tensor) -> torch.Tensor:
    return (outputs[:, 0] - data()[1]).square().mean()


def fitted(net: nn.Module, loss: Any = "squared_error", targets: Any = None, **told: Any) -> rue.Auditor:
    X, y, _ = data()
    wrapped = rue.wrap(net, loss=loss, l2=0.1, **told)
    return rue.LinearRUE().fit(wrapped, (X, y if targets is None else targets))


# ------------------------------------------------------------------------------------------ modules


class Two(nn.Module):
    """Two layers, with whatever is between them and after them."""

    def __init__(
        self, between: Callable[[Any], Any] = torch.tanh, after: Callable[[Any], Any] = lambda x: x, outputs=1
    ):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, outputs)
        self.between, self.after = between, after

    def forward(self, x):
        return self.after(self.last(self.between(self.first(x))))


class InList(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.last = [nn.Linear(4, 8).double()], nn.Linear(8, 1)

    def forward(self, x):
        return self.last(self.layers[0](x).tanh())


class InDict(InList):
    def __init__(self):
        super().__init__()
        self.layers = dict(enumerate(self.layers))


class PlainTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.randn(4, 8, dtype=torch.float64).requires_grad_()
        self.last = nn.Linear(8, 1)

    def forward(self, x):
        return self.last((x @ self.first).tanh())


class Tied(nn.Module):
    """Two layers of one weight: one parameter, or two that share their memory."""

    def __init__(self, by_memory: bool):
        super().__init__()
        self.one, self.two, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        self.double()
        if by_memory:
            self.two.weight.data = self.one.weight.data
        else:
            self.two.weight = self.one.weight

    def forward(self, x):
        return self.last(self.two(self.one(x).tanh()).tanh())


class _Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x.tanh()

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        return ctx.factor * slope * (1 - x.tanh().square()), None


def _straight_through(x):
    return x + (torch.round(2 * x) / 2 - x).detach()


def _half_inside(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return functional.linear(x.float(), torch.eye(8)).tanh().to(x)


def _like(plain: Callable[[], rue.Audit]) -> Right:
    def check(audit: rue.Audit) -> None:
        np.testing.assert_allclose(audit.prediction, plain().prediction, rtol=1e-9)
        np.testing.assert_allclose(audit.std, plain().std, rtol=1e-6)

    return Right("the audit of the same network written plainly", check)


@cache
def plain() -> rue.Audit:
    return fitted(learnt(made(Two), numbers)).audit(data()[0][:9])


def audited(net: nn.Module) -> rue.Audit:
    return fitted(net).audit(data()[0][:9])


def _under_autocast() -> rue.Audit:
    net = learnt(made(Two), numbers)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return audited(net)


def _trained_on() -> rue.Audit:
    net = learnt(made(Two), numbers)
    auditor = fitted(net)
    learnt(net, numbers, steps=20)
    return auditor.audit(data()[0][:9])


def _switched() -> rue.Audit:
    net = made(lambda: nn.Sequential(nn.Dropout(0.5), Two())).eval()
    model = rue.wrap(net, loss="squared_error", l2=0.1)
    net.train()
    return rue.LinearRUE().fit(model, data()[:2]).audit(data()[0][:9])


def _steady(audit: rue.Audit) -> None:
    """Training mode would drop units: the same rows would never get the same numbers twice."""
    again = _switched()
    np.testing.assert_array_equal(audit.prediction, again.prediction)


def _changed_in_place(change: Callable[[Any, Any], None], ask: Callable[[rue.Auditor], Any]) -> Callable[[], Any]:
    def do() -> Any:
        X, y, _ = data()
        rows, targets = X.clone().numpy(), y.clone().numpy()
        auditor = rue.LinearRUE().fit(
            rue.wrap(learnt(made(Two), numbers), loss="squared_error", l2=0.1), (rows, targets)
        )
        change(rows, targets)
        return ask(auditor)

    return do


def _standardise(rows, targets):
    rows *= 3
    targets -= 5


def _shuffle(rows, targets):
    np.random.default_rng(0).shuffle(targets)


def _probabilities(outputs: int) -> nn.Module:
    labels = data()[2]
    if outputs == 1:
        net = made(lambda: Two(after=torch.sigmoid))
        return learnt(net, lambda p: functional.binary_cross_entropy(p[:, 0], labels.double()))
    net = made(lambda: Two(after=lambda z: z.softmax(-1), outputs=2))
    return learnt(net, lambda p: functional.nll_loss(p.log(), labels))


def _counts() -> torch.Tensor:
    return (data()[1] - data()[1].min()).round()


def _means(after: Callable[[Any], Any]) -> nn.Module:
    return learnt(
        made(lambda: Two(after=after)), lambda m: functional.poisson_nll_loss(m[:, 0], _counts(), log_input=False)
    )


def _log_probabilities() -> tuple[nn.Module, nn.Module]:
    labels = data()[2]
    net = learnt(made(lambda: Two(outputs=2)), lambda z: functional.cross_entropy(z, labels))
    return net, nn.Sequential(net, nn.LogSoftmax(-1))


def _same_classes(audit: rue.Audit) -> None:
    logits, _ = _log_probabilities()
    other = fitted(logits, "cross_entropy", data()[2]).audit(data()[0][:9])
    np.testing.assert_allclose(audit.probability, other.probability, atol=1e-6)


UNLISTED = Refused(ModelError, "not among the module's parameters")
WRONG = Refused(ModelError, "backward pass is not the derivative")
CHANGED = Refused(DataError, "not what they were when the audit was fitted")

MODULES = [
    Attack("A layer is held in a list", lambda: audited(learnt(made(InList), numbers)), UNLISTED),
    Attack("A layer is held in a dict", lambda: audited(learnt(made(InDict), numbers)), UNLISTED),
    Attack("A weight is a plain tensor", lambda: audited(learnt(made(PlainTensor), numbers)), UNLISTED),
    Attack(
        "A weight is reached by a closure",
        lambda: audited(made(lambda: Two(between=_closure()))),
        UNLISTED,
    ),
    Attack(
        "Two parameters share their memory",
        lambda: audited(learnt(made(lambda: Tied(by_memory=True)), numbers)),
        Refused(ModelError, "share their memory"),
    ),
    Attack(
        "Two layers share one parameter",
        lambda: audited(learnt(made(lambda: Tied(by_memory=False)), numbers)),
        Right("the number of parameters, the shared ones once", lambda audit: _is(audit.facts["d"], 16 + 4 + 4 + 5)),
    ),
    Attack(
        "A backward pass of the user's own is half the derivative",
        lambda: audited(learnt(made(lambda: Two(between=lambda x: _Tanh.apply(x, 0.5))), numbers)),
        WRONG,
    ),
    Attack(
        "A backward pass of the user's own is a tenth off",
        lambda: audited(learnt(made(lambda: Two(between=lambda x: _Tanh.apply(x, 1.1))), numbers)),
        WRONG,
    ),
    Attack(
        "A backward pass of the user's own has the wrong sign",
        lambda: audited(made(lambda: Two(between=lambda x: _Tanh.apply(x, -1.0)))),
        WRONG,
    ),
    Attack(
        "A backward pass of the user's own is right",
        lambda: audited(learnt(made(lambda: Two(between=lambda x: _Tanh.apply(x, 1.0))), numbers)),
        _like(plain),
    ),
    Attack(
        "Rounding has a straight-through gradient",
        lambda: audited(learnt(made(lambda: Two(between=_straight_through)), numbers)),
        WRONG,
    ),
    Attack(
        "Half of the signal is detached",
        lambda: audited(learnt(made(lambda: Two(between=lambda x: 0.5 * x.tanh() + 0.5 * x.tanh().detach())), numbers)),
        WRONG,
    ),
    Attack(
        "Activations are computed again in the backward pass",
        lambda: audited(
            learnt(made(lambda: Two(between=lambda x: checkpoint(torch.tanh, x, use_reentrant=False))), numbers)
        ),
        _like(plain),
    ),
    Attack("Half precision is switched on around the audit", _under_autocast, _like(plain)),
    Attack(
        "Half precision is switched on inside the module",
        lambda: audited(made(lambda: Two(between=_half_inside))),
        WRONG,
    ),
    Attack(
        "The module is in bfloat16",
        lambda: rue.LinearRUE().fit(
            rue.wrap(made(Two).bfloat16(), loss="squared_error", l2=0.1), (data()[0].bfloat16(), data()[1])
        ),
        Refused(ModelError, "too coarse"),
    ),
    Attack("The module is trained on after the fit", _trained_on, _like(plain)),
    Attack(
        "The module is put into training mode after wrap",
        _switched,
        Right("a second audit with the same numbers", _steady),
    ),
    Attack(
        "The network ends in a sigmoid under a loss of logits",
        lambda: fitted(_probabilities(1), "bernoulli", data()[2]),
        Refused(ModelError, "probabilities"),
    ),
    Attack(
        "The network ends in a sigmoid under BCEWithLogitsLoss",
        lambda: fitted(_probabilities(1), nn.BCEWithLogitsLoss(), data()[2].double()),
        Refused(ModelError, "probabilities"),
    ),
    Attack(
        "The network ends in a softmax under a loss of logits",
        lambda: fitted(_probabilities(2), "cross_entropy", data()[2]),
        Refused(ModelError, "probabilities"),
    ),
    Attack(
        "Class-wise sigmoids stand under a loss of logits",
        lambda: fitted(
            learnt(
                made(lambda: Two(after=torch.sigmoid, outputs=2)),
                lambda p: functional.binary_cross_entropy(p, functional.one_hot(data()[2], 2).double()),
            ),
            "cross_entropy",
            data()[2],
        ),
        Refused(ModelError, "probabilities"),
    ),
    Attack(
        "The network ends in a logarithm of the softmax",
        lambda: fitted(_log_probabilities()[1], "cross_entropy", data()[2]).audit(data()[0][:9]),
        Right("the probabilities of its logits", _same_classes),
    ),
    Attack(
        "The network ends in an exponential under a loss of logarithms",
        lambda: fitted(_means(torch.exp), "poisson", _counts()),
        Refused(ModelError, "means"),
    ),
    Attack(
        "The network ends in a softplus under a loss of logarithms",
        lambda: fitted(_means(functional.softplus), "poisson", _counts()),
        Refused(ModelError, "means"),
    ),
    *(
        Attack(f"Training arrays are {how} in place, then {what}", _changed_in_place(change, ask), CHANGED)
        for how, change in {"standardised": _standardise, "shuffled": _shuffle}.items()
        for what, ask in {
            "a prediction is explained": lambda auditor: auditor.audit(data()[0][:3]).explain(0),
            "checks are made": lambda auditor: auditor.check(),
            "held-out rows are given": lambda auditor: auditor.calibrate(2 * data()[0][:60], data()[1][:60]),
        }.items()
    ),
    Attack(
        "Training arrays are standardised in place, then rows are audited",
        _changed_in_place(_standardise, lambda auditor: auditor.audit(data()[0][:9])),
        _like(plain),
    ),
]


def _closure() -> Callable[[torch.Tensor], torch.Tensor]:
    scale = torch.ones(8, dtype=torch.float64, requires_grad=True)
    return lambda x: (scale * x).tanh()


def _is(found: Any, wanted: Any) -> None:
    assert found == wanted


# ------------------------------------------------------------------------------------------ estimators


def _noisy(X):
    return X + 0.1 * np.random.default_rng().normal(size=X.shape)


def _by_batch(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


class OwnThreshold(LogisticRegression):
    """Says yes from a fifth on."""

    def predict(self, X):
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.2).astype(int)]


def _table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y, labels = data()
    return X.numpy(), y.numpy(), labels.numpy()


def _audit(model: Any, y: Any, **told: Any) -> rue.Audit:
    X = _table()[0]
    return rue.audit(model, train=(X, y), inputs=X[:30], **told)


def _refitted(before_fit: bool, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[], Any]:
    def do() -> Any:
        X, _, labels = _table()
        estimator = LogisticRegression().fit(X, labels)
        model = rue.wrap(estimator)
        if before_fit:
            estimator.fit(X, change(labels))
        auditor = rue.ClassifierRUE().fit(model, (X, labels))
        estimator.fit(X, change(labels))
        return auditor.audit(X[:30])

    return do


def _with_settings(estimator: Any, **changes: Any) -> Any:
    X, y, _ = _table()
    return estimator.fit(X, y).set_params(**changes)


def _edited(name: str, factor: float) -> Ridge:
    X, y, _ = _table()
    estimator = Ridge().fit(X, y)
    setattr(estimator, name, factor * getattr(estimator, name))
    return estimator


def _lightgbm(**changes: Any) -> Any:
    from lightgbm import LGBMRegressor

    return _with_settings(LGBMRegressor(n_estimators=40, num_leaves=7, min_child_samples=5, verbose=-1), **changes)


def _with_start(library: str) -> Any:
    X, y, _ = _table()
    start = 5 * X[:, 0] + y.mean()
    if library == "LightGBM":
        from lightgbm import LGBMRegressor

        return LGBMRegressor(n_estimators=30, verbose=-1).fit(X, y, init_score=start)
    if library == "XGBoost":
        from xgboost import XGBRegressor

        return XGBRegressor(n_estimators=30, max_depth=3).fit(X, y, base_margin=start)
    from catboost import CatBoostRegressor, Pool

    settings = {"iterations": 30, "verbose": False, "allow_writing_files": False, "boost_from_average": False}
    return CatBoostRegressor(**settings).fit(Pool(X, y, baseline=start))


def _validated_twice() -> Any:
    X, y, _ = data()
    net = learnt(made(Two), lambda outputs: (outputs[:100, 0] - y[:100]).square().mean())
    auditor = rue.CalibratedRUE().fit(
        rue.wrap(net, loss=nn.MSELoss()), (X[:100], y[:100]), validation=(X[100:], y[100:])
    )
    return auditor.calibrate(X[100:], y[100:])


WEIGHTS = np.random.default_rng(3).uniform(0.05, 6, 160)
OTHER_LABELS = Refused(ModelError, "labels that are not its most probable ones|labels that it did not know")

QUIET_CAT = {"iterations": 5, "depth": 2, "verbose": False, "thread_count": 1, "allow_writing_files": False}


def _wide(model: Any) -> rue.Audit:
    """An audit of a model that has more columns than rows."""
    X, y = _table()[0][:25], _table()[1][:25]
    X = np.column_stack([X, np.random.default_rng(6).normal(size=(25, 30))])
    return rue.LinearRUE().fit(rue.wrap(model.fit(X, y)), (X, y)).audit(X[:5])


def _ranks(model: Any) -> rue.Audit:
    """An audit of a model that was trained on queries of sixteen rows."""
    grades = np.digitize(_table()[1], np.quantile(_table()[1], [0.3, 0.6, 0.9]))
    return _audit(model.fit(_table()[0], grades, group_id=np.repeat(np.arange(10), 16)), grades)


ESTIMATORS = [
    Attack(
        "A step of the pipeline adds noise",
        lambda: _audit(make_pipeline(FunctionTransformer(_noisy), Ridge()).fit(*_table()[:2]), _table()[1]),
        Refused(ModelError, "read twice"),
    ),
    Attack(
        "A step of the pipeline standardises by the rows it gets",
        lambda: _audit(make_pipeline(FunctionTransformer(_by_batch), Ridge()).fit(*_table()[:2]), _table()[1]),
        Refused(ModelError, "read twice"),
    ),
    Attack(
        "A classifier has a threshold of its own",
        lambda: _audit(OwnThreshold().fit(_table()[0], _table()[2]), _table()[2]),
        OTHER_LABELS,
    ),
    Attack(
        "FixedThresholdClassifier decides from a fifth on",
        lambda: _audit(
            FixedThresholdClassifier(LogisticRegression(), threshold=0.2).fit(_table()[0], _table()[2]), _table()[2]
        ),
        OTHER_LABELS,
    ),
    Attack("A classifier is fitted again after wrap", _refitted(True, lambda labels: 1 - labels), OTHER_LABELS),
    Attack(
        "A classifier is fitted again after the audit's fit", _refitted(False, lambda labels: 1 - labels), OTHER_LABELS
    ),
    Attack(
        "A classifier is fitted again with other classes", _refitted(False, lambda labels: labels + 5), OTHER_LABELS
    ),
    Attack(
        "Ridge gets another alpha after its fit",
        lambda: _audit(_with_settings(Ridge(), alpha=300.0), _table()[1]),
        Warned("at rest"),
    ),
    Attack(
        "LogisticRegression gets another C after its fit",
        lambda: _audit(LogisticRegression().fit(_table()[0], _table()[2]).set_params(C=1e-3), _table()[2]),
        Warned("at rest"),
    ),
    Attack("Coefficients are edited", lambda: _audit(_edited("coef_", 1.5), _table()[1]), Warned("training fit")),
    Attack("The intercept is edited", lambda: _audit(_edited("intercept_", 1.2), _table()[1]), Warned("at rest")),
    Attack(
        "Ridge was trained with weights that nobody states",
        lambda: _audit(Ridge().fit(*_table()[:2], sample_weight=WEIGHTS), _table()[1]),
        Warned("at rest"),
    ),
    Attack(
        "LogisticRegression was trained with weights that nobody states",
        lambda: _audit(LogisticRegression().fit(_table()[0], _table()[2], sample_weight=WEIGHTS), _table()[2]),
        Warned("at rest"),
    ),
    *(
        Attack(f"{name} has more columns than rows", lambda build=build: _wide(build()), Warned("interpolation"))
        for name, build in {
            "Least squares": LinearRegression,
            "Ridge without a penalty to speak of": lambda: Ridge(alpha=1e-12),
            "A polynomial": lambda: make_pipeline(PolynomialFeatures(2), LinearRegression()),
        }.items()
    ),
    *(
        Attack(f"{name} orders the rows of a query", lambda build=build: _ranks(build()), Refused(ModelError, "ranks"))
        for name, build in {
            "CatBoost by pairs": lambda: CatBoost({**QUIET_CAT, "loss_function": "PairLogit"}),
            "CatBoost by errors within queries": lambda: CatBoost({**QUIET_CAT, "loss_function": "QueryRMSE"}),
            "CatBoostRanker": lambda: CatBoostRanker(**QUIET_CAT),
        }.items()
    ),
    Attack(
        "Weights are stated that were not trained with",
        lambda: rue.audit(
            Ridge().fit(*_table()[:2]), train=rue.Data(*_table()[:2], weight=WEIGHTS), inputs=_table()[0][:30]
        ),
        Warned("at rest"),
    ),
    *(
        Attack(
            f"{name} gets other settings after its fit",
            lambda build=build: _audit(build(), _table()[1]),
            Warned("not trained as"),
        )
        for name, build in {
            "ExtraTreesRegressor": lambda: _with_settings(ExtraTreesRegressor(30, random_state=0), max_depth=1),
            "HistGradientBoostingRegressor": lambda: _with_settings(
                HistGradientBoostingRegressor(random_state=0), max_iter=2
            ),
            "LGBMRegressor": lambda: _lightgbm(n_estimators=2, num_leaves=2),
        }.items()
    ),
    Attack(
        "A refit= trains another model",
        lambda: _audit(
            ExtraTreesRegressor(30, random_state=0).fit(*_table()[:2]),
            _table()[1],
            refit=lambda rows: Ridge(alpha=1e4).fit(_table()[0][rows], _table()[1][rows]),
        ),
        Warned("not trained as"),
    ),
    *(
        Attack(
            f"{library} was trained from a start of its own",
            lambda library=library: _audit(_with_start(library), _table()[1], refit=False),
            Warned("training fit"),
        )
        for library in ("LightGBM", "XGBoost", "CatBoost")
    ),
    Attack(
        "Rows to calibrate by have stopped training already", _validated_twice, Refused(DataError, "validation row")
    ),
    Attack(
        "Rows to calibrate by were trained on",
        lambda: fitted(learnt(made(Two), numbers)).calibrate(*data()[:2]),
        Refused(DataError, "training row"),
    ),
]

# ------------------------------------------------------------------------------------------ nothing wrong


def _silent(audit: rue.Audit) -> None:
    assert audit.facts["warnings"] == ()


def _early(kind: type[torch.optim.Optimizer], steps: int) -> rue.Audit:
    X, y, _ = data()
    net = made(Two)
    optimizer = kind(net.parameters(), lr=0.02)
    with torch.enable_grad():
        for _ in range(steps):
            optimizer.zero_grad()
            numbers(net(X)).backward()
            optimizer.step()
    return rue.audit(net, train=(X, y), inputs=X[:9], loss=nn.MSELoss())


def _from_zero(steps: int) -> rue.Audit:
    """Stopping early looks like shrunken targets then, but is not."""
    X, targets = data()[0], _size()
    net = made(lambda: nn.Linear(4, 1))
    for p in net.parameters():
        p.data.zero_()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with torch.enable_grad():
        for _ in range(steps):
            optimizer.zero_grad()
            (net(X)[:, 0] - targets).square().mean().backward()
            optimizer.step()
    return rue.audit(net, train=(X, targets), inputs=X[:9], loss=nn.MSELoss())


SOUND = [
    *(
        Attack(f"{kind}, as it should be", lambda kind=kind: trained(kind).audit(), Right("no warning", _silent))
        for kind in (
            "a network",
            "Ridge",
            "a pipeline",
            "LogisticRegression",
            "a random forest",
            "LightGBM",
            "XGBoost",
            "CatBoost",
            "HistGradientBoosting",
            "a black box",
        )
    ),
    Attack("A network by AdamW, stopped early", lambda: _early(torch.optim.AdamW, 120), Right("no warning", _silent)),
    *(
        Attack(
            f"A linear model by {steps} steps of gradient descent from zero",
            lambda steps=steps: _from_zero(steps),
            Right("no warning", _silent),
        )
        for steps in (3, 30)
    ),
    Attack("A network by Adam, trained long", lambda: _early(torch.optim.Adam, 800), Right("no warning", _silent)),
    Attack(
        "A standardised pipeline of logistic regression with strings as labels",
        lambda: _audit(
            make_pipeline(StandardScaler(), LogisticRegression()).fit(
                _table()[0], np.where(_table()[2], "ill", "well")
            ),
            np.where(_table()[2], "ill", "well"),
        ),
        Right("no warning", _silent),
    ),
]

# ------------------------------------------------------------------------------------------ stated, and not so


@cache
def rested(loss: Callable[[torch.Tensor], torch.Tensor], outputs: int = 1) -> nn.Module:
    """A small network at the minimum of a summed loss and ¼‖θ‖², an l2 of a half."""
    net = made(lambda: Two(outputs=outputs))
    search = torch.optim.LBFGS(
        net.parameters(), max_iter=500, tolerance_grad=1e-10, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def closure() -> torch.Tensor:
        search.zero_grad()
        value = loss(net(data()[0])) + 0.25 * sum(p.square().sum() for p in net.parameters())
        value.backward()
        return value

    with torch.enable_grad():
        search.step(closure)
    return net.eval()


def _size() -> torch.Tensor:
    return (data()[1] - data()[1].mean()) / data()[1].std()


def _both() -> torch.Tensor:
    return torch.stack([_size(), data()[0][:, 0] + _size()], 1)


def _squares(f: torch.Tensor) -> torch.Tensor:
    return 0.5 * (f[:, 0] - _size()).square().sum()


def _two_squares(f: torch.Tensor) -> torch.Tensor:
    return 0.5 * (f - _both()).square().sum()


def _events(f: torch.Tensor) -> torch.Tensor:
    return (f[:, 0].exp() - _counts() * f[:, 0]).sum()


def _yes(f: torch.Tensor, smoothing: float = 0.0, pos_weight: float = 1.0) -> torch.Tensor:
    targets, heavy = data()[2] * (1 - smoothing) + smoothing / 2, torch.tensor(pos_weight, dtype=torch.float64)
    return functional.binary_cross_entropy_with_logits(f[:, 0], targets, pos_weight=heavy, reduction="sum")


def _smoothed_yes(f: torch.Tensor) -> torch.Tensor:
    return _yes(f, smoothing=0.2)


RARE = torch.tensor([1.0, 2.5], dtype=torch.float64)


def _classes(f: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(f, data()[2], reduction="sum")


def _rare(f: torch.Tensor) -> torch.Tensor:
    """What CrossEntropyLoss(RARE) and a decay of 0.5/n minimise, times a number."""
    return len(f) * functional.cross_entropy(f, data()[2], RARE)


def _said(net: nn.Module, targets: torch.Tensor, loss: Any, **told: Any) -> rue.Audit:
    return rue.audit(net, train=(data()[0], targets), inputs=data()[0][:9], loss=loss, **{"l2": 0.5, **told})


class Scaling(nn.Module):
    """A copy of it has another scale."""

    def __init__(self):
        super().__init__()
        self.inner, self.factor = nn.Linear(4, 1), 2.0

    def __deepcopy__(self, memo):
        other = Scaling.__new__(Scaling)
        other.__dict__ = {**copy.deepcopy(self.__dict__, memo), "factor": 1.0}
        return other

    def forward(self, x):
        return self.factor * self.inner(x)


class TooLong(IterableDataset):
    """Goes on beyond its length."""

    def __len__(self) -> int:
        return 160

    def __iter__(self) -> Iterator[Any]:
        for i in range(100_000):
            yield data()[0][i % 160], data()[1][i % 160]


def fitted_rest(loss: Callable[[torch.Tensor], torch.Tensor], targets: torch.Tensor, name: str) -> rue.Audit:
    """By the closed form of resampling, for losses that the default does not take."""
    wrapped = rue.wrap(rested(loss), loss=name, l2=0.5)
    return rue.LinearRUE().fit(wrapped, (data()[0], targets)).audit(data()[0][:9])


def _weights(*weights: float) -> nn.Module:
    return nn.CrossEntropyLoss(torch.tensor(weights, dtype=torch.float64))


STATED = [
    Attack(
        "A network's targets are in Fahrenheit, and training had Celsius",
        lambda: _said(rested(_squares), 1.8 * _size() + 0.32, "squared_error"),
        Warned(r"at rest with targets 0\.5556 times those given -0\.1778"),
    ),
    Attack(
        "One of two outputs has its targets in other units",
        lambda: _said(rested(_two_squares, 2), _both() * torch.tensor([1.0, 1.2]), "squared_error"),
        Warned(r"rest with targets 1 times those given [-+]\S+, 0\.8333 times"),
    ),
    Attack(
        "Counts are given by the pair, and were trained one by one",
        lambda: fitted_rest(_events, _counts() / 2, "poisson"),
        Warned("rest with targets 2 times those given"),
    ),
    Attack(
        "Targets of a network are decimal logarithms, and training had natural ones",
        lambda: _said(rested(_squares), _size() / np.log(10), "squared_error"),
        Warned("rest with targets 2.303 times those given .logarithms of base 10"),
    ),
    Attack(
        "Labels of yes and no were smoothed in training, and it is not stated",
        lambda: _said(rested(_smoothed_yes), data()[2].double(), "bernoulli"),
        Warned(r"rest with labels smoothed by 0\.2"),
    ),
    Attack(
        "Label smoothing is stated, and was not trained with",
        lambda: _said(rested(_classes, 2), data()[2], nn.CrossEntropyLoss(reduction="sum", label_smoothing=0.2)),
        Warned("rest with labels smoothed less"),
    ),
    Attack(
        "Class weights were trained with in a mean, and are not stated",
        lambda: _said(rested(_rare, 2), data()[2], nn.CrossEntropyLoss(), l2=0.5 / 160),
        Warned(r"rest with class weights 1 : 2\.5 beside"),
    ),
    Attack(
        "Class weights are stated for a mean, and were not trained with",
        lambda: _said(rested(_classes, 2), data()[2], nn.CrossEntropyLoss(RARE), l2=0.5 / 160),
        Warned(r"rest with class weights 1 : 0\.4 beside"),
    ),
    Attack(
        "A weight of positives is stated, and was not trained with",
        lambda: _said(
            rested(_yes),
            data()[2].double(),
            nn.BCEWithLogitsLoss(reduction="sum", pos_weight=torch.tensor(1.3, dtype=torch.float64)),
        ),
        Warned(r"rest with class weights 1 : 0\.769 beside"),
    ),
    Attack(
        "A network was pulled to zero, and the centre is stated to be where it started",
        lambda: _said(rested(_squares), _size(), "squared_error", centre=made(Two)),
        Warned("rest with the stated penalty, pulling to zero"),
    ),
    Attack(
        "A class weight is infinite",
        lambda: _said(rested(_classes, 2), data()[2], _weights(1.0, float("inf"))),
        Refused(SettingError, "class_weight must be finite"),
    ),
    Attack(
        "All class weights are zero",
        lambda: _said(rested(_classes, 2), data()[2], _weights(0.0, 0.0)),
        Refused(SettingError, "class_weight must be finite, at least 0 and not all 0"),
    ),
    Attack(
        "A copy of the module has another factor",
        lambda: fitted(made(Scaling)),
        Refused(ModelError, "a copy of the module, which audits are made on, has lost 'factor'"),
    ),
    Attack(
        "A stream goes on beyond its length",
        lambda: rue.LinearRUE().fit(rue.wrap(rested(_squares), loss="squared_error"), DataLoader(TooLong(), 16)),
        Refused(DataError, "more than 3220 rows, and 160 is its length"),
    ),
]

SECTIONS = {
    "Networks that are not what they seem": MODULES,
    "Statements about training that are not true": STATED,
    "Estimators that are not what they seem": ESTIMATORS,
    "Nothing wrong": SOUND,
}
