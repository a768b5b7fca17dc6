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
LEAVE_ONE_OUT = "tests/test_leave_one_out.py"
PENALTY = "tests/test_choose_penalty.py"
TEMPERATURE = "tests/test_temperature.py"
POLICY = "tests/test_policy.py"
SPLIT = "tests/test_conformal.py"
JACK = "tests/test_jackknife_plus.py"
FULL = "tests/test_full_conformal.py"
EXPLAIN = "tests/test_explain.py"
FOLDS = "tests/test_folds.py"
OUTSIDE = "tests/test_outside.py"
REPORT = "tests/test_report.py"
EVAL = "tests/test_evaluate.py"
CALIBRATED = "tests/test_calibrated_rue.py"
SMOOTHER = "tests/test_smoother.py"
HELD_OUT = "tests/test_held_out.py"
LOSSES = "tests/test_losses.py"
CLASSIFY = "tests/test_classify.py"
CLASSIFIER = "tests/test_classifier_rue.py"
PROJECTION = "tests/test_projection.py"
GLM = "tests/test_glm_oracles.py"
SCIKIT = "tests/test_scikit_learn.py"
TREES = "tests/test_trees.py"
FORESTS = "tests/test_forests.py"
TOKENS = "tests/test_tokens.py"
PLOTS = "tests/test_plots.py"
CHECKS = "tests/test_checks.py"
RECIPES = "tests/test_recipes.py"
SOURCES = "tests/test_left_out_sources.py"

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
        "losses/torch_losses.py",
        'if reduction == "mean" else 1.0',
        "if False else 1.0",
        LAWS,
    ),
    Break(
        "missing penalty",
        "curvature/penalty.py",
        "return torch.diag(diagonal)",
        "return torch.diag(0 * diagonal)",
        DERIVATIVES,
    ),
    Break("missing ½", "losses/regression.py", "0.5 * (targets", "1.0 * (targets", ALGORITHM),
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
    Break("wrong sign in the dual form", "solve/dual.py", "return scaled - self", "return scaled + self", SOLVE),
    Break("floor for floor minus eigenvalue", "solve/damping.py", "self.floor - smallest", "self.floor", SOLVE),
    Break(
        "missing curvature of the loss",
        "curvature/gauss_newton.py",
        "(curvature @ jacobian)",
        "(1.0 * jacobian)",
        DERIVATIVES,
    ),
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
    Break(
        "1 + h for 1 − h where rows are left out",
        "left_out/one_step.py",
        "device=hat.device) - kept",
        "device=hat.device) + kept",
        LEAVE_ONE_OUT,
    ),
    Break(
        "example weights ignored where rows are left out",
        "left_out/one_step.py",
        "slope = batch.weight[:, None] * loss_gradient",
        "slope = 1.0 * loss_gradient",
        LEAVE_ONE_OUT,
    ),
    Break(
        "groups left out row by row",
        "left_out/one_step.py",
        "_rows if data.units == data.n else _groups",
        "_rows if data.units else _groups",
        LEAVE_ONE_OUT,
    ),
    Break(
        "missing curvature of the loss in the leverage",
        "left_out/one_step.py",
        "hat = curvature @ own",
        "hat = 1.0 * own",
        LEAVE_ONE_OUT,
    ),
    Break(
        "left-out residuals at the fit",
        "left_out/one_step.py",
        "loss_gradient(model, prediction[batch.rows]",
        'loss_gradient(model, found["fitted"][batch.rows]',
        LEAVE_ONE_OUT,
    ),
    Break(
        "rows of groups not put back in order", "left_out/one_step.py", "[back] for name", "[:] for name", LEAVE_ONE_OUT
    ),
    Break(
        "predictions compared instead of changes",
        "calibrate/leave_one_out.py",
        "return self.refit - self.fitted",
        "return self.refit",
        LEAVE_ONE_OUT,
    ),
    Break(
        "left-out loss without weights",
        "calibrate/penalty.py",
        "(weight * left_out_losses(bound, rows, found)).sum() / weight.sum()",
        "left_out_losses(bound, rows, found).mean()",
        PENALTY,
    ),
    Break("least evidence chosen", "calibrate/penalty.py", "return -trial.evidence", "return trial.evidence", PENALTY),
    Break(
        "noise variance J/N for 2J/N", "calibrate/evidence.py", "2 * objective / count", "objective / count", PENALTY
    ),
    Break("missing ½ of the determinants", "calibrate/evidence.py", "0.5 * _log_volume", "1.0 * _log_volume", PENALTY),
    Break(
        "missing one in the dual determinant",
        "calibrate/evidence.py",
        "matrix.diagonal().add_(1.0)",
        "matrix.diagonal().add_(0.5)",
        PENALTY,
    ),
    Break(
        "penalty left out of the evidence",
        "calibrate/evidence.py",
        "total + float(model.penalty(",
        "total + 0.0 * float(model.penalty(",
        PENALTY,
    ),
    Break(
        "coldness for temperature",
        "calibrate/temperature.py",
        "float(unit / coldness)",
        "float(coldness / unit)",
        TEMPERATURE,
    ),
    Break(
        "another logit than the label's",
        "calibrate/temperature.py",
        "_labels(labels, scores)][:, None]",
        "0 * _labels(labels, scores)][:, None]",
        TEMPERATURE,
    ),
    Break("the new row's loss forgotten", "policy/risk_control.py", "rows.total + 1 <=", "rows.total + 0 <=", POLICY),
    Break(
        "the new row's referral forgotten",
        "policy/risk_control.py",
        "rows.accepted + 1 <=",
        "rows.accepted + 0 <=",
        POLICY,
    ),
    Break(
        "the threshold's own row as witness",
        "policy/error_rate_control.py",
        "rows.accepted[index]) - 1",
        "rows.accepted[index])",
        POLICY,
    ),
    Break("three starts at the full level", "policy/error_rate_control.py", "> tail / len(STARTS):", "> tail:", POLICY),
    Break(
        "testing on after a failure",
        "policy/error_rate_control.py",
        "                break",
        "                continue",
        POLICY,
    ),
    Break("a cost limit for one threshold only", "policy/bounds.py", "<= tail / len(LEVELS)", "<= tail", POLICY),
    Break("Bentkus without e", "policy/bounds.py", "bentkus = e * float", "bentkus = 1.0 * float", POLICY),
    Break("ties accepted in part", "policy/held_out.py", "score[1:] != score[:-1]", "score[1:] >= score[:-1]", POLICY),
    Break("scarce inputs accepted", "policy/policy.py", "scarce | (score > self.limit)", "score > self.limit", POLICY),
    Break(
        "a rank without its + 1",
        "calibrate/conformal.py",
        "_share(level) * (count + 1)",
        "_share(level) * count",
        SPLIT,
    ),
    Break(
        "one-sided quantile for a two-sided interval",
        "calibrate/conformal.py",
        "ceil(_share(level) * (count + 1))",
        "ceil((1 + _share(level)) / 2 * (count + 1))",
        SPLIT,
    ),
    Break(
        "the largest score where there are too few",
        "calibrate/conformal.py",
        "if position <= scores.size else inf",
        "if position <= scores.size else float(scores.max())",
        SPLIT,
    ),
    Break(
        "groups pooled",
        "calibrate/conformal.py",
        "quantile(np.array(scores), level) for",
        "quantile(self.scores, level) for",
        SPLIT,
    ),
    Break(
        "left-out residual with 1 + h",
        "calibrate/jackknife_plus.py",
        "residual / (1 - leverage)",
        "residual / (1 + leverage)",
        JACK,
    ),
    Break(
        "prediction moved towards the row left out",
        "calibrate/jackknife_plus.py",
        "prediction[:, None] - cross",
        "prediction[:, None] + cross",
        JACK,
    ),
    Break(
        "jackknife+ with half of α at each end",
        "calibrate/jackknife_plus.py",
        "position = rank(n, level)",
        "position = rank(n, (1 + level) / 2)",
        JACK,
    ),
    Break(
        "jackknife+ without the + 1",
        "calibrate/jackknife_plus.py",
        "position = rank(n, level)",
        "position = rank(n - 1, level)",
        JACK,
    ),
    Break(
        "full conformal without the + 1",
        "calibrate/full_conformal.py",
        "position = rank(n, level)",
        "position = rank(n - 1, level)",
        FULL,
    ),
    Break(
        "the new row left out of its own fit",
        "calibrate/full_conformal.py",
        "cross / (1 + leverage_new)[:, None]",
        "cross / np.ones_like(leverage_new)[:, None]",
        FULL,
    ),
    Break(
        "ends of full conformal swapped",
        "calibrate/full_conformal.py",
        "np.where(residual < 0, -1, 1)",
        "np.where(residual < 0, 1, -1)",
        FULL,
    ),
    Break(
        "a bounded interval for an unbounded set",
        "calibrate/full_conformal.py",
        "bounded = np.abs(pull) < own",
        "bounded = own > 0",
        FULL,
    ),
    Break("infinite limits refused", "evaluate.py", "columns(endless=True, y", "columns(y", EVAL),
    Break(
        "a row's own residual kept in its neighbours' mean",
        "calibrate/smoother.py",
        "torch.where(units == unit[:, None], 0.0, found)",
        "torch.where(units == -unit[:, None], 0.0, found)",
        CALIBRATED,
    ),
    Break(
        "cosines that are not squared",
        "calibrate/smoother.py",
        "(jacobian[:, 0] @ self.solved[:, 0].T).square()",
        "(jacobian[:, 0] @ self.solved[:, 0].T).abs()",
        CALIBRATED,
    ),
    Break("smoother without example weights", "calibrate/smoother.py", "share * (raised", "1.0 * (raised", SMOOTHER),
    Break(
        "a row's own influence kept in left-out resampling",
        "calibrate/left_out_terms.py",
        "/ units - outer(own)",
        "/ units - 0 * outer(own)",
        CALIBRATED,
    ),
    Break(
        "left-out resampling without its turn",
        "calibrate/left_out_terms.py",
        "turned = turn @ kept @ turn.mT",
        "turned = kept",
        CALIBRATED,
    ),
    Break(
        "resampling taken apart in the undamped metric",
        "methods/calibrated_rue.py",
        "known.rest.left if same else left_out_of(known.objective, fit.data, inverted.inverse)",
        "known.rest.left",
        CALIBRATED,
    ),
    Break(
        "no guard beyond the training rows",
        "methods/calibrated_spread.py",
        "torch.where(beyond, lacking,",
        "torch.where(beyond, 0 * lacking,",
        CALIBRATED,
    ),
    Break(
        "half-way guard without its root",
        "methods/calibrated_spread.py",
        "torch.sqrt(variance * torch.maximum(variance, overall)) - variance",
        "torch.maximum(variance, overall) - variance",
        CALIBRATED,
    ),
    Break(
        "scarcity in units of the residuals, not their variance",
        "methods/calibrated_spread.py",
        "self.known.variance * own,",
        "self.known.variance**0.5 * own,",
        CALIBRATED,
    ),
    Break(
        "groups that stay in the forest that judges them",
        "calibrate/error_model.py",
        "grouped = len(np.unique(group)) < n",
        "grouped = False",
        SMOOTHER,
    ),
    Break(
        "forest fitted values for out-of-bag ones",
        "calibrate/error_model.py",
        "_columns(forest.oob_prediction_)",
        "_columns(forest.predict(narrow))",
        SMOOTHER,
    ),
    Break(
        "one range for each feature instead of all together",
        "calibrate/scarcity.py",
        "(1 - USUAL) / points.shape[1]",
        "(1 - USUAL)",
        SMOOTHER,
    ),
    Break(
        "Student-t with its scale for its deviation",
        "calibrate/variance.py",
        "np.log1p(distance / (degrees - 2))",
        "np.log1p(distance / degrees)",
        SMOOTHER,
    ),
    Break(
        "gradient of another Student-t",
        "calibrate/variance.py",
        "(degrees + k) / (degrees - 2 + distance)",
        "(degrees + k) / (degrees + distance)",
        SMOOTHER,
    ),
    Break(
        "example weights ignored by the likelihood",
        "calibrate/variance.py",
        "shares = weight / weight.sum()",
        "shares = np.ones_like(weight) / len(weight)",
        SMOOTHER,
    ),
    Break(
        "left-out rows that move predictions the wrong way",
        "calibrate/left_out_intervals.py",
        "+ (part @ self.steps.T)",
        "- (part @ self.steps.T)",
        CALIBRATED,
    ),
    Break(
        "intervals that leave rows out where groups should leave",
        "methods/calibrated_rue.py",
        "steps=steps[as_trained.unit[rows]]",
        "steps=pulled[rows]",
        CALIBRATED,
    ),
    Break(
        "held-out factor of the deviation for that of the variance",
        "held_out.py",
        "return float(white.mean()) / errors.shape[1]",
        "return float(white.mean() ** 0.5) / errors.shape[1]",
        HELD_OUT,
    ),
    Break(
        "conformal scores of the spread before it is scaled",
        "held_out.py",
        "np.sqrt(factor * np.diagonal(covariance",
        "np.sqrt(np.diagonal(covariance",
        HELD_OUT,
    ),
    Break(
        "scarcity left unscaled by held-out rows",
        "auditor.py",
        "None if scarcity is None else factor * scarcity",
        "scarcity",
        HELD_OUT,
    ),
    Break(
        "distribution intervals by the scale of the Student-t",
        "result.py",
        "* sqrt((degrees - 2) / degrees)",
        "",
        CALIBRATED,
    ),
    Break(
        "a share of one class for its variance",
        "losses/classes.py",
        "share.unsqueeze(-1) * share.unsqueeze(-2)",
        "0 * share.unsqueeze(-1)",
        LOSSES,
    ),
    Break(
        "a wider straight line in Huber's Hessian", "losses/regression.py", "<= delta).to", "<= 2 * delta).to", LOSSES
    ),
    Break("the wrong sign in the ordinal loss", "losses/classes.py", "logsigmoid(-below)", "logsigmoid(below)", LOSSES),
    Break(
        "Cox's own term alone for the score residual",
        "losses/survival.py",
        "- torch.diag(event) + curvature",
        "- torch.diag(event)",
        LOSSES,
    ),
    Break("later rows at risk only", "losses/survival.py", ">= targets[:, 0, None]", "> targets[:, 0, None]", LOSSES),
    Break("π/8 left out", "classify.py", "(unit + pi / 8 * pair_variance", "(unit + pair_variance", CLASSIFY),
    Break(
        "covariances of logits left out of differences", "classify.py", "- covariance - covariance.mT)", ")", CLASSIFY
    ),
    Break(
        "the epistemic part twice", "classify.py", "0.5 * ((share * variance)", "1.0 * ((share * variance)", CLASSIFY
    ),
    Break(
        "flips by variance for deviation",
        "classify.py",
        "variance.clamp_min(TINY).sqrt())",
        "variance.clamp_min(TINY))",
        CLASSIFY,
    ),
    Break(
        "flat directions kept",
        "solve/pseudo_inverse.py",
        "felt = values > FLAT * values[-1]",
        "felt = values > -values[-1]",
        CLASSIFIER,
    ),
    Break(
        "sets of the unlikely classes", "held_out.py", "1 - probability <= reach", "probability <= reach", CLASSIFIER
    ),
    Break(
        "directions without the penalty's units",
        "solve/projection.py",
        "@ rows[:, columns] * scale[columns]",
        "@ rows[:, columns]",
        PROJECTION,
    ),
    Break(
        "a projected model without its penalty",
        "solve/projection.py",
        "0.5 * self.weight * away",
        "0.0 * self.weight * away",
        PROJECTION,
    ),
    Break(
        "twice the ridge penalty",
        "models/scikit_learn_regressors.py",
        "alpha.reshape(-1, 1), sparse",
        "2 * alpha.reshape(-1, 1), sparse",
        SCIKIT,
    ),
    Break(
        "C for 1/C",
        "models/scikit_learn_classifiers.py",
        'strength = 1 / float(np.ravel(settled(e, "C"))[0])',
        'strength = float(np.ravel(settled(e, "C"))[0])',
        SCIKIT,
    ),
    Break(
        "the slope of the log link left out",
        "respond.py",
        "spread * slope[:, :, None] * slope[:, None, :]",
        "spread",
        GLM,
    ),
    Break(
        "l2 of a tree not divided by its rate",
        "models/trees.py",
        "return ensemble.l2 / rate",
        "return ensemble.l2",
        TREES,
    ),
    Break(
        "half of a leaf's length in a projection",
        "models/leaf_projection.py",
        "generator=source).double() - 0.5",
        "generator=source).double() / 2 - 0.25",
        TREES,
    ),
    Break(
        "leaf means pulled by rows in full",
        "models/leaf_influence.py",
        "/ np.bincount(place, used[inside])[place])",
        "+ 0 * place)",
        FORESTS,
    ),
    Break(
        "ignored tokens counted",
        "tokens.py",
        "view(counts.shape).masked_fill(~counts, 0.0)",
        "view(counts.shape)",
        TOKENS,
    ),
    Break(
        "influences that are not centred",
        "explain/explain.py",
        "parts = spread(self.lens.resampler, torch.from_numpy(sight.pull)).square().numpy()",
        "parts = sight.pull**2",
        EXPLAIN,
    ),
    Break(
        "example weights left out of an explanation",
        "explain/gradients.py",
        "return self.data.weight.to(self._slopes)[:, None] * self._slopes",
        "return self._slopes",
        EXPLAIN,
    ),
    Break(
        "a unit left out as if it had no leverage",
        "explain/gradients.py",
        "return self._pulls if self._left is None else self._left.pull",
        "return self._pulls",
        EXPLAIN,
    ),
    Break(
        "rows left out together as if alone",
        "left_out/one_step.py",
        'slope.reshape(1, -1))["pull"][0]',
        'slope.reshape(1, -1))["pull"][0] * 0 + slope.flatten()',
        EXPLAIN,
    ),
    Break(
        "a training row compared with itself",
        "explain/gradients.py",
        "reach = self._left.reach[rows.to(self._left.reach.device)]",
        "reach = (self._left.turn.inverse() @ self._left.reach)[rows]",
        EXPLAIN,
    ),
    Break(
        "the slope of a link left out of an explanation",
        "auditor.py",
        "contrast=target.contrast * slope,",
        "contrast=target.contrast,",
        EXPLAIN,
    ),
    Break(
        "a reason by percentile alone",
        "explain/explanation.py",
        "few, bad = self.split.density.times, self.split.misfit.times",
        "few, bad = self.split.density.percentile, self.split.misfit.percentile",
        EXPLAIN,
    ),
    Break(
        "residuals of all outputs in the split of one",
        "explain/lens.py",
        "return values if output == ALL else",
        "return values if True else",
        EXPLAIN,
    ),
    Break(
        "another order of inputs explained",
        "auditor.py",
        "not np.allclose(found, prediction[rows], 1e-4, rounding)",
        "False",
        EXPLAIN,
    ),
    Break(
        "Student-t tails of another std",
        "evaluate.py",
        "stdtrit(degrees, share) * sqrt((degrees - 2) / degrees)",
        "stdtrit(degrees, share)",
        EVAL,
    ),
    Break(
        "members before the link",
        "auditor.py",
        "self.model.response.value(found.reshape(-1, found.shape[-1]))",
        "found.reshape(-1, found.shape[-1])",
        PLOTS,
    ),
    Break("a band of 90 %", "plots/coverage.py", "CONFIDENCE = 0.95", "CONFIDENCE = 0.9", PLOTS),
    Break(
        "thirds of the rows as they come",
        "plots/coverage.py",
        'np.argsort(scores, kind="stable")',
        "np.arange(scores.size)",
        PLOTS,
    ),
    Break("rise drawn as fall", "plots/influence.py", "np.sign(change) == sign", "np.sign(change) == -sign", PLOTS),
    Break("residuals that are not squared", "plots/kernels.py", "residual**2, shade", "residual, shade", PLOTS),
    Break("members out of the order of x", "plots/members.py", "members[:, order].T", "members.T", PLOTS),
    Break(
        "ties that count as won",
        "report/estimates.py",
        "below = (upto - beside / 2)[:, self.group]",
        "below = upto[:, self.group]",
        REPORT,
    ),
    Break("failed rows that beat themselves", "report/estimates.py", "- failing**2 / 2", "", REPORT),
    Break(
        "rows beyond, by the binomial of a known share",
        "report/shift.py",
        "betabinom.sf(count - 1, found.n, top, s + 1 - top)",
        "betabinom.sf(count - 1, found.n, 1e6 * top, 1e6 * (s + 1 - top))",
        REPORT,
    ),
    Break(
        "R² against zero", "report/regression.py", "columns[..., 4] - columns[..., 3] ** 2", "columns[..., 4]", REPORT
    ),
    Break("a hash that batches change", "report/fingerprints.py", "found = found or [", "found = [", REPORT),
    Break(
        "frozen weights left out of the hash",
        "report/fingerprints.py",
        'getattr(core, "fixed", {})',
        'getattr(core, "unknown", {})',
        REPORT,
    ),
    Break(
        "the most reliable rows in the table",
        "report/predictions.py",
        "np.argsort(-case.audit.score",
        "np.argsort(case.audit.score",
        REPORT,
    ),
    Break(
        "alarms as if a share were known",
        "report/monitoring.py",
        "betabinom(batch, count + 0.5, n - count + 0.5)",
        "betabinom(batch, 1e4 * (count + 0.5), 1e4 * (n - count + 0.5))",
        REPORT,
    ),
    Break("a light that is the best", "report/verdict.py", "worst = max(", "worst = min(", REPORT),
    Break("penalty against the gradient", "left_out/rest.py", "size(1.0 if stated", "size(-1.0 if stated", CHECKS),
    Break(
        "decrement not in resampling steps",
        "left_out/rest.py",
        "sqrt(decrement / typical) if",
        "sqrt(decrement) if",
        CHECKS,
    ),
    Break("other penalty with its sign turned", "left_out/rest.py", "factor = -across", "factor = across", CHECKS),
    Break("early stopping taken for a penalty", "checks/at_rest.py", "ALL = 0.99999", "ALL = 0.9", CHECKS),
    Break(
        "w for w − 1 in a resampling step",
        "left_out/rest.py",
        "generator(seed)).sub_(1)[",
        "generator(seed))[",
        CHECKS,
    ),
    Break(
        "leverages twice as large",
        "checks/hat.py",
        "hat = weighted_hessian(",
        "hat = 2 * weighted_hessian(",
        CHECKS,
    ),
    Break(
        "a constant fitted without row weights",
        "checks/training_fit.py",
        "mean + (weight * losses.double())",
        "mean + (losses.double())",
        CHECKS,
    ),
    Break(
        "refits compared with other weights",
        "checks/refits.py",
        "(drawn - 1)[:, subject",
        "(drawn.flip(0) - 1)[:, subject",
        CHECKS,
    ),
    Break("step off the tangent", "checks/linearisation.py", ".double() + steps)", ".double() - steps)", CHECKS),
    Break("rounding taken for a distance", "checks/subject.py", "UNITS = 32.0", "UNITS = 0.0", CHECKS),
    Break(
        "rows of weight zero counted",
        "checks/leverage.py",
        "(subject.data.weight > 0)",
        "(subject.data.weight >= 0)",
        CHECKS,
    ),
    Break(
        "a constant better by any account",
        "checks/training_fit.py",
        "MATTERS = 1e-3",
        "MATTERS = 0.0",
        CHECKS,
    ),
    Break("−0 unlike 0", "checks/duplicates.py", "coordinates(inputs)) + 0.0", "coordinates(inputs))", CHECKS),
    Break(
        "MSELoss read with a ½",
        "losses/torch_losses.py",
        "Scale(factor=2.0, each_output=True)  #",
        "ELEMENTWISE  #",
        RECIPES,
    ),
    Break(
        "a mean over rows only",
        "losses/torch_losses.py",
        "rows * k if self.each_output",
        "rows if self.each_output",
        RECIPES,
    ),
    Break(
        "SmoothL1Loss times beta",
        "losses/torch_losses.py",
        "factor=1 / criterion.beta",
        "factor=criterion.beta",
        RECIPES,
    ),
    Break(
        "class weights left out of a mean",
        "losses/torch_losses.py",
        "return rule, Scale(count=count)",
        "return rule, OURS",
        RECIPES,
    ),
    Break(
        "AdamW's decay as a penalty",
        "models/optimizer.py",
        "tuple(found), None, _unknown(",
        "tuple(found), found, _unknown(",
        RECIPES,
    ),
    Break(
        "ASGD's own decay forgotten", "models/optimizer.py", 'decay += float(group["lambd"])', "decay += 0.0", RECIPES
    ),
    Break(
        "what was not trained audited",
        "models/parameters.py",
        "if optimized is None else {name",
        "if True else {name",
        RECIPES,
    ),
    Break(
        "centre ignored",
        "models/module.py",
        "theta - self.centre.to(theta)",
        "theta - 0 * self.centre.to(theta)",
        RECIPES,
    ),
    Break(
        "directions taken for orthonormal",
        "solve/projection.py",
        "torch.linalg.pinv(gram, hermitian=True) @ moved",
        "moved",
        RECIPES,
    ),
    Break(
        "tangent searched without its offset",
        "left_out/tangent.py",
        "outputs(model, kept).double() - features @ moved",
        "outputs(model, kept).double() - 0 * features @ moved",
        SOURCES,
    ),
    Break(
        "tangent shrunk towards zero, whatever its centre",
        "left_out/tangent.py",
        "(theta - self.centre.to(theta)).square()",
        "(theta - 0 * self.centre.to(theta)).square()",
        SOURCES,
    ),
    Break(
        "example weights ignored in a spectrum",
        "left_out/spectrum.py",
        "scaled = weight.sqrt()[:, None] * rows",
        "scaled = 1.0 * rows",
        SOURCES,
    ),
    Break("trust in crowded tangents", "left_out/sources.py", "LEAK = 3.0", "LEAK = 0.0", SOURCES),
    Break(
        "crowded models at rest left to influence",
        "left_out/sources.py",
        "share <= CROWDED or is_linear",
        "share <= 1.0 or is_linear",
        SOURCES,
    ),
    Break(
        "an inferred penalty with its sign turned",
        "left_out/sources.py",
        "l2 = max(0.0, -float(seen.whole @ away) / size)",
        "l2 = max(0.0, float(seen.whole @ away) / size)",
        SOURCES,
    ),
    Break(
        "shares of tangent and witness exchanged",
        "left_out/honest.py",
        "return share * first + (1 - share) * second",
        "return share * second + (1 - share) * first",
        SOURCES,
    ),
    Break(
        "shares of two models' classes exchanged",
        "left_out/honest.py",
        "(share * first.softmax(-1) + (1 - share) * second.softmax(-1))",
        "(share * second.softmax(-1) + (1 - share) * first.softmax(-1))",
        SOURCES,
    ),
    Break(
        "a witness that has seen the rows",
        "left_out/witness.py",
        "prediction[inside] = best.left.prediction",
        "prediction[inside] = best.left.fitted",
        SOURCES,
    ),
    Break(
        "strange inputs judged by a witness without limit",
        "methods/outside_numbers.py",
        "apart / times * (1 + times.log() / 2).sqrt(), apart",
        "apart, apart",
        SOURCES,
    ),
    Break(
        "tangent shrunk in the parameters' own units",
        "left_out/tangent.py",
        "found = gradients.square().amax(0)",
        "found = torch.ones_like(gradients[0])",
        SOURCES,
    ),
    Break(
        "errors that trees take for equal",
        "calibrate/error_model.py",
        "unit = float(np.average(np.abs(errors), axis=0, weights=weight).mean()) or 1.0",
        "unit = 1.0",
        SMOOTHER,
    ),
    Break(
        "judge tilted by the weights of classes",
        "left_out/witness.py",
        "best_refit(model if model.family.gaussian else LabelLoss.of(model), rows,",
        "best_refit(model, rows,",
        "tests/test_classifier_rue.py",
    ),
    Break(
        "second opinion surer than its rows allow",
        "methods/second_opinion.py",
        "return (self.rows * said + self.usual.to(said)) / (self.rows + 1)",
        "return said",
        "tests/test_classifier_rue.py",
    ),
    Break(
        "temperature of the tangent given to the network",
        "methods/classifier_rue.py",
        "fit_shrinkage(decision, logits, resampling, left.reach[at], wanted, weight), entropy",
        "fit_shrinkage(decision, left.prediction[at], resampling, left.reach[at], targets, weight), entropy",
        "tests/test_classifier_rue.py",
    ),
    Break(
        "rows that are all told right taken for a temperature",
        "calibrate/shrinkage.py",
        "abs(found.x) > NEAR * limit or endless",
        "abs(found.x) > NEAR * limit",
        "tests/test_classifier_rue.py",
    ),
    Break(
        "poor witness kept",
        "left_out/sources.py",
        "poor = judged > MUCH * alone",
        "poor = False",
        SOURCES,
    ),
    Break(
        "disagreement left away",
        "methods/outside_numbers.py",
        "return outer(torch.where(strange[:, None], apart / times * (1 + times.log() / 2).sqrt(), apart))",
        "return 0.0 * outer(apart)",
        SOURCES,
    ),
    Break(
        "error model told what rows were fitted to",
        "methods/calibrated_rue.py",
        "errors = error_model(points, evidence.prediction.cpu().numpy(), slope,",
        "errors = error_model(points, evidence.rest.left.fitted.cpu().numpy(), slope,",
        SOURCES,
    ),
    Break(
        "ranks of misses in units of a variance",
        "methods/calibrated_rue.py",
        "return RankedRows(np.abs(missed) / np.sqrt(total))",
        "return RankedRows(np.abs(missed) / total)",
        SOURCES,
    ),
    Break(
        "trees that have drawn a row speak for it",
        "left_out/forest.py",
        "unseen[drawn] = False",
        "unseen[drawn] = True",
        OUTSIDE,
    ),
    Break(
        "groups stay in the forests that speak for them",
        "left_out/forest.py",
        "if data.units == data.n",
        "if data.units <= data.n",
        OUTSIDE,
    ),
    Break(
        "groups are torn apart by folds",
        "left_out/splits.py",
        "grouped = data.unit.numpy(), data.units < data.n",
        "grouped = data.unit.numpy(), data.units < 0",
        OUTSIDE,
    ),
    Break(
        "copies are trained on the rows they are to predict",
        "left_out/folds.py",
        "ids[rows]) for (rows, _), one in",
        "ids[rows]) for (_, rows), one in",
        OUTSIDE,
    ),
    Break(
        "CV+ by one copy for all rows",
        "calibrate/cv_plus.py",
        "said[self.refits.fold, rows, j]",
        "said[0 * self.refits.fold, rows, j]",
        FOLDS,
    ),
    Break(
        "CV+ guarantees as much as jackknife+",
        "calibrate/cv_plus.py",
        "return 2 * level - 1 - cost",
        "return 2 * level - 1",
        FOLDS,
    ),
    Break(
        "copies in time order know the future",
        "left_out/splits.py",
        "np.flatnonzero(block < number)",
        "np.flatnonzero(block != number)",
        FOLDS,
    ),
    Break(
        "rows that no copy speaks for count",
        "left_out/folds.py",
        "weight = data.weight * torch.from_numpy(fold >= 0)",
        "weight = data.weight",
        FOLDS,
    ),
    Break(
        "kept predictions of other targets are taken",
        "left_out/kept.py",
        "(outputs(model, batch.inputs), *leaves(batch.targets))",
        "(outputs(model, batch.inputs),)",
        FOLDS,
    ),
    Break(
        "votes of a forest as they are",
        "methods/forest_rue.py",
        "self.usual) / self.unit**0.5).softmax(-1)",
        "self.usual) / 1.0).softmax(-1)",
        "tests/test_forests.py",
    ),
    Break(
        "rounding is weighed like a term",
        "calibrate/variance.py",
        "sizes <= NOTHING * noise",
        "sizes <= 0 * noise",
        "tests/test_calibrated_rue.py",
    ),
    Break(
        "a linear model has nobody beside it",
        "methods/calibrated_rue.py",
        "if simple else None",
        "if not simple else None",
        "tests/test_calibrated_rue.py",
    ),
    Break(
        "disagreement with witnesses does not count",
        "methods/outside_numbers.py",
        "np.append(found.values, [1.0, 0.0]",
        "np.append(found.values, [0.0, 0.0]",
        OUTSIDE,
    ),
    Break(
        "a classifier is compared with witnesses on the rows it has learnt by heart",
        "methods/crossed.py",
        "return model.read(_put_together(raw, np.where(first, own[:, None], other[:, None])))",
        "return next(iter(data.batches())).inputs",
        OUTSIDE,
    ),
    Break(
        "categories are taken for numbers",
        "features.py",
        "standardise = Standardiser.of(raw, named=_named(next(iter(data.batches())).inputs))",
        "standardise = Standardiser.of(raw)",
        OUTSIDE,
    ),
    Break(
        "trees of small targets take all of them for equal",
        "left_out/forest.py",
        "values = units(codes[place]) if decision is None else codes[place]",
        "values, units = codes[place], Standardiser(np.zeros(1), np.ones(1))",
        OUTSIDE,
    ),
    Break(
        "early stopping is forgotten by copies",
        "models/again.py",
        "kept = fitted.best_iteration_ or fitted.n_estimators",
        "kept = fitted.n_estimators",
        OUTSIDE,
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
