"""Deliberate breaks of the mathematics: each must turn a test red.

`make test-slow` applies them one at a time to a copy of the sources. Run this file to rewrite `docs/breaks.md`.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Break:
    """A line of the sources, what it is turned into, and the tests that must notice."""

    what: str
    file: str
    right: str
    wrong: str
    tests: str


ALGORITHM = "tests/paper/test_algorithm_1.py"
SANDWICH = "tests/paper/test_sandwich.py"
LAWS = "tests/laws/test_rue_laws.py"
SOLVE = "tests/test_solve.py"
RESAMPLE = "tests/test_resample.py"
DERIVATIVES = "tests/test_derivatives.py"
TRAINING = "tests/test_training.py"
REFITS = "tests/test_refit_bootstrap.py"
DEEP_ENSEMBLE = "tests/test_deep_ensemble.py"
DROPOUT = "tests/test_mc_dropout.py"

BREAKS = [
    Break("step in the wrong direction", "methods/rue.py", "theta.double() - step", "theta.double() + step", ALGORITHM),
    Break("w for w − 1", "methods/rue.py", "drawn.sub_(1)[", "drawn[", ALGORITHM),
    Break(
        "w − 1 for w in Bootstrap SGD", "methods/bootstrap_sgd.py", "fit.data.unit])", "fit.data.unit] - 1)", ALGORITHM
    ),
    Break("missing centring", "resample.py", "values - _keep(shared) *", "values - 0.0 *", ALGORITHM),
    Break("missing centring while streaming", "influence.py", "moment - shared *", "moment - 0.0 *", LAWS),
    Break(
        "mean for sum",
        "models/module.py",
        'total_weight if self.reduction == "mean"',
        '1.0 if self.reduction == "mean"',
        LAWS,
    ),
    Break(
        "missing penalty",
        "curvature/penalty.py",
        "return torch.diag(diagonal)",
        "return torch.diag(0 * diagonal)",
        DERIVATIVES,
    ),
    Break("missing ½", "models/losses.py", "0.5 * (targets", "1.0 * (targets", ALGORITHM),
    Break("b for b − 1", "methods/ensemble.py", "(len(members) - 1)", "len(members)", ALGORITHM),
    Break("missing jackknife factor", "resample.py", "return (units - 1) ** 2 / units", "return 1.0", RESAMPLE),
    Break("wrong scale of the Bayesian bootstrap", "resample.py", "scale=units / (units + 1)", "scale=1.0", RESAMPLE),
    Break(
        "transposed Cholesky factor",
        "solve/dense.py",
        "self.factor.T, noise, upper=True",
        "self.factor, noise, upper=False",
        SOLVE,
    ),
    Break("missing damping", "solve/dense.py", "matrix.diagonal().add_(damping)", "matrix.diagonal().add_(0.0)", SOLVE),
    Break(
        "missing damping in products",
        "solve/conjugate_gradient.py",
        "+ self.damping * vectors",
        "+ 0.0 * vectors",
        SOLVE,
    ),
    Break("wrong sign in the dual form", "solve/dual.py", "solved = scaled - self", "solved = scaled + self", SOLVE),
    Break("floor for floor minus eigenvalue", "solve/damping.py", "self.floor - smallest", "self.floor", SOLVE),
    Break(
        "missing curvature of the loss",
        "curvature/gauss_newton.py",
        "(curvature @ jacobian)",
        "(1.0 * jacobian)",
        DERIVATIVES,
    ),
    Break("1 + h for 1 − h in HC3", "influence.py", "unit - hat", "unit + hat", SANDWICH),
    Break("groups ignored", "data.py", "ids.numpy() if group is None", "ids.numpy() if True", SANDWICH),
    Break(
        "example weights ignored",
        "derivatives.py",
        "part.weight.unsqueeze(-1) * pulled_back",
        "1.0 * pulled_back",
        SANDWICH,
    ),
    Break("noise divided by n − 1", "methods/fitting.py", "/ float(data.weight.sum())", "/ (data.n - 1)", ALGORITHM),
    Break(
        "half of the noise",
        "result.py",
        "self.covariance + self.noise",
        "self.covariance + 0.5 * self.noise",
        ALGORITHM,
    ),
    Break(
        "outputs crossed",
        "methods/linear_rue.py",
        '"cir,cjr->cij", moved, moved',
        '"cir,cjr->cij", moved, moved.flip(1)',
        ALGORITHM,
    ),
    Break(
        "penalty divided by the batch in training",
        "integrated/training.py",
        "model.penalty(theta) / n",
        "model.penalty(theta) / len(weights)",
        TRAINING,
    ),
    Break(
        "example weights ignored in training",
        "integrated/training.py",
        "(weights * model.loss",
        "(1.0 * model.loss",
        TRAINING,
    ),
    Break(
        "learning rate that does not fall",
        "integrated/training.py",
        "1 / steps if recipe.decay",
        "1.0 if recipe.decay",
        TRAINING,
    ),
    Break(
        "one order of the rows for all training sets",
        "integrated/training.py",
        "randoms = [generator(seed)",
        "randoms = [generator(sets.seeds[0])",
        TRAINING,
    ),
    Break(
        "refits that start from different points",
        "integrated/refit_bootstrap.py",
        "[:, None].repeat(1, weights.shape[1], 1)",
        "[:, None] + torch.arange(weights.shape[1])[:, None]",
        REFITS,
    ),
    Break(
        "example weights ignored in refits",
        "integrated/refit_bootstrap.py",
        "weight[:, None] * torch.stack",
        "1.0 * torch.stack",
        REFITS,
    ),
    Break(
        "refits without their resampler's factor",
        "integrated/refit_bootstrap.py",
        "self.resampler.member_factor(fit.data.units)",
        "1.0",
        REFITS,
    ),
    Break(
        "initial values of parts drawn after those of the whole",
        "integrated/architecture.py",
        "_inside_out(module, set())",
        "module.modules()",
        REFITS,
    ),
    Break(
        "members of an ensemble that share one start",
        "integrated/deep_ensemble.py",
        "initialised(module, seed)",
        "initialised(module, seeds[0])",
        DEEP_ENSEMBLE,
    ),
    Break(
        "adversarial step to where the loss is smaller",
        "integrated/deep_ensemble.py",
        "x + reach[0] *",
        "x - reach[0] *",
        DEEP_ENSEMBLE,
    ),
    Break("l2 without its ½", "integrated/deep_ensemble.py", "self.l2 / (2 * n)", "self.l2 / n", DEEP_ENSEMBLE),
    Break(
        "noise left out of the mixture",
        "integrated/deep_ensemble.py",
        "diag_embed(variances.mean(0))",
        "diag_embed(0 * variances.mean(0))",
        DEEP_ENSEMBLE,
    ),
    Break(
        "b − 1 for b in the mixture", "integrated/deep_ensemble.py", "/ len(means)", "/ (len(means) - 1)", DEEP_ENSEMBLE
    ),
    Break(
        "dropout in training not rescaled",
        "integrated/mc_dropout.py",
        "(uniform >= rate[0]) / (1 - rate[0])",
        "(uniform >= rate[0]).to(uniform)",
        DROPOUT,
    ),
    Break(
        "dropout in prediction not rescaled",
        "integrated/mc_dropout.py",
        "kept.to(theta) / (1 - rate)",
        "kept.to(theta)",
        DROPOUT,
    ),
    Break("the worst rate", "integrated/mc_dropout.py", "[min(found", "[max(found", DROPOUT),
    Break("noise of rows that were seen", "integrated/mc_dropout.py", "order[:, kept:]", "order[:, :kept]", DROPOUT),
    Break(
        "noise chosen as if the members agreed",
        "integrated/mc_dropout.py",
        "spread + torch",
        "0 * spread + torch",
        DROPOUT,
    ),
    Break(
        "penalty of all rows beside the mean loss of fewer",
        "integrated/mc_dropout.py",
        "* kept / sets.n",
        "",
        DROPOUT,
    ),
]


def page() -> str:
    """The list for contributors."""
    rows = "\n".join(f"| {b.what} | `{b.right}` → `{b.wrong}` | `{b.file}` | `{b.tests}` |" for b in BREAKS)
    return (
        "# Breaking the mathematics\n\n"
        "A test suite that stays green when the mathematics is wrong is worth nothing. `make test-slow` makes each of\n"
        f"these {len(BREAKS)} changes in a copy of the sources, one at a time, and insists that the named tests go\n"
        "red. Add yours to `tests/breaks.py` and run that file to rewrite this page.\n\n"
        "| what is broken | how | in | noticed by |\n|---|---|---|---|\n" + rows + "\n"
    )


if __name__ == "__main__":
    (Path(__file__).parent.parent / "docs" / "breaks.md").write_text(page())
