"""The objective that each linear regressor of scikit-learn minimised: one line or function for each."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import linear_model, svm

from rue.core.errors import OpaqueError
from rue.losses import Loss, gamma, huber, poisson, squared_epsilon_insensitive, squared_error, tweedie
from rue.models.links import Exponential
from rue.models.sklearn.objective import LinearObjective, liblinear_bias, no_curvature, settled, stochastic


def _least_squares(e: Any) -> LinearObjective:
    return LinearObjective(squared_error(), sparse=bool(e.positive))


def _ridge(e: Any) -> LinearObjective:
    """½‖y − f‖² + ½ alpha‖w‖²; alpha may differ between targets."""
    alpha = np.asarray(settled(e, "alpha"), np.float64)
    return LinearObjective(squared_error(), alpha.reshape(-1, 1), sparse=bool(getattr(e, "positive", False)))


def _elastic_net(e: Any) -> LinearObjective:
    """(1/2n)‖y − f‖² + alpha (l1_ratio‖w‖₁ + ½(1 − l1_ratio)‖w‖²)."""
    l2 = float(settled(e, "alpha")) * (1 - float(settled(e, "l1_ratio")))
    return LinearObjective(squared_error(), l2, mean=True, sparse=True)


def _absolute(e: Any) -> LinearObjective:  # noqa: ARG001  every reader has this form
    """A penalty of absolute values only, or a number of coefficients."""
    return LinearObjective(squared_error(), sparse=True)


def _bayesian_ridge(e: Any) -> LinearObjective:
    """The mean of the posterior: ½ alpha_‖y − f‖² + ½ lambda_‖w‖²; under ARD lambda_ differs between coefficients."""
    return LinearObjective(squared_error(), np.asarray(e.lambda_ / e.alpha_, np.float64), sparse=np.ndim(e.lambda_) > 0)


def _huber(e: Any) -> LinearObjective:
    """(2/σ) Σ huber(y − f, εσ) + alpha‖w‖², at the fitted scale σ."""
    return LinearObjective(huber(delta=float(e.epsilon * e.scale_)), float(e.alpha * e.scale_))


def _log_mean(loss: Callable[[], Loss]) -> Callable[[Any], LinearObjective]:
    """Mean half deviance + ½ alpha‖w‖²; the output is the logarithm of the mean."""
    return lambda e: LinearObjective(loss(), float(e.alpha), mean=True, response=Exponential())


def _tweedie(e: Any) -> LinearObjective:
    log = e.link == "log" or (e.link == "auto" and e.power > 0)
    if e.power == 0 and not log:
        return LinearObjective(squared_error(), float(e.alpha), mean=True)
    if not (log and 1 <= e.power <= 2):
        raise OpaqueError(
            f"TweedieRegressor(power={e.power}, link={e.link!r}) is not supported; the nearest choices are a power "
            "from 1 to 2 with the log link, or power=0 with the identity"
        )
    ends: dict[float, Callable[[], Loss]] = {1: poisson, 2: gamma}
    return _log_mean(ends.get(e.power, lambda: tweedie(float(e.power))))(e)


def _linear_svr(e: Any) -> LinearObjective:
    """½‖w‖² + C Σ max(0, |y − f| − epsilon)²."""
    if e.loss != "squared_epsilon_insensitive":
        raise no_curvature(e, "squared_epsilon_insensitive")
    return LinearObjective(squared_epsilon_insensitive(e.epsilon), 1 / e.C, liblinear_bias(e, 1 / e.C))


def _stochastic(e: Any) -> LinearObjective:
    if e.loss not in STOCHASTIC:
        raise no_curvature(e, "huber")
    return stochastic(e, STOCHASTIC[e.loss](e))


STOCHASTIC: dict[str, Callable[[Any], Loss]] = {
    "squared_error": lambda _: squared_error(),
    "huber": lambda e: huber(delta=e.epsilon),
    "squared_epsilon_insensitive": lambda e: squared_epsilon_insensitive(e.epsilon),
}

REGRESSORS: dict[type, Callable[[Any], LinearObjective]] = {
    linear_model.LinearRegression: _least_squares,
    linear_model.OrthogonalMatchingPursuit: _absolute,
    linear_model.Ridge: _ridge,
    linear_model.RidgeCV: _ridge,
    linear_model.ElasticNet: _elastic_net,
    linear_model.ElasticNetCV: _elastic_net,
    linear_model.Lasso: _absolute,
    linear_model.LassoCV: _absolute,
    linear_model.LassoLars: _absolute,
    linear_model.LassoLarsCV: _absolute,
    linear_model.LassoLarsIC: _absolute,
    linear_model.BayesianRidge: _bayesian_ridge,
    linear_model.ARDRegression: _bayesian_ridge,
    linear_model.HuberRegressor: _huber,
    linear_model.PoissonRegressor: _log_mean(poisson),
    linear_model.GammaRegressor: _log_mean(gamma),
    linear_model.TweedieRegressor: _tweedie,
    linear_model.SGDRegressor: _stochastic,
    svm.LinearSVR: _linear_svr,
}
