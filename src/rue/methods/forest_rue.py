"""RUE of a forest: the infinitesimal jackknife over every tree's leaf means, calibrated by rows out of the bag."""

import warnings
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from rue.auditing.assessment import Assessment, CalibratedParts, ClassShares
from rue.auditing.auditor import Auditor
from rue.auditing.meaning import REWEIGHTED, Meaning, ScoreMeaning
from rue.calibrate.error_model import ErrorModel, error_covariance, error_model
from rue.calibrate.left_out.evidence import Honest
from rue.calibrate.left_out.outside import kernel_beside
from rue.calibrate.left_out_terms import outer
from rue.calibrate.shrinkage import best_temperature, tempered_nll
from rue.calibrate.variance import DEGREES, fit_weights
from rue.core.arrays import Array, Whole
from rue.core.classify import wrong
from rue.core.concepts import Facts, Inputs, Resampler, WeightCovariance
from rue.core.derivatives import outputs
from rue.core.errors import ModelError, RueWarning, SettingError
from rue.core.influence import Meat
from rue.core.model import Model
from rue.core.resample import Multinomial, generator
from rue.core.stored import storable, storable_rows
from rue.data.features import Standardiser, coordinates, training_points
from rue.data.rows import sample_numbers
from rue.explain.leaves import LeafLens
from rue.methods.fitting import Fitting, fitting
from rue.models.trees.forest import ForestCore
from rue.models.trees.leaf_influence import LeafInfluence, SampledTrees, leaf_influence

TERMS = ("noise", "resampling", "error model", "disagreement")
ROWS = 2_500  # at most so many out-of-bag rows are used to fit the weights
FEWEST = 20  # with fewer out-of-bag rows nothing is fitted
BLOCK = 2**21  # so many influences of units on rows are held at once

MEANING = Meaning(
    made="The training rows are re-weighted; the leaf means of every tree follow, its structure does not.",
    score=ScoreMeaning(
        "For numbers the size of error to expect, weighed on rows out of the bag; for classes the probability "
        "that the decision is wrong: the trees' votes, as sure as rows out of the bag were told.",
        "What other splits of the trees would do: their structure is held fixed.",
    ),
    spread=REWEIGHTED._replace(
        does_not_say="What other splits of the trees would do: their structure is held fixed.",
        limitation="The spread is that of re-weighting the training rows in the leaves of grown trees. Other splits, "
        "other settings or another search are no part of it.",
        probability="Of the predicted class: the trees' votes, as sure as rows out of the bag were told.",
    ),
)


@dataclass(frozen=True)
class ForestRUE:
    """How other weights of the training rows would move the leaf means, and through them the forest's prediction.

    With `meat="HC0"` a row pulls on a leaf by its residual there: the exact derivative, which is zero in fully grown
    trees. With "HC3" it pulls by its out-of-bag residual: the default for forests with a bootstrap. For regression,
    out-of-bag rows also weigh noise, resampling, an error model and the disagreement with a kernel model of the same
    rows, which is smooth where trees have steps, into a predictive variance; `score` is then `total_std`, else the
    standard deviation under resampling. For classes `score` is the probability that the decision is wrong: the trees'
    votes, at the temperature that suits out-of-bag rows.
    """

    resampler: Resampler = field(default_factory=Multinomial)
    meat: Meat | None = None
    seed: int = 0
    meaning: ClassVar[Meaning] = MEANING

    def __post_init__(self) -> None:
        if self.meat not in ("HC0", "HC3", None):
            raise SettingError(f'meat must be "HC0" or "HC3" (out-of-bag residuals), got {self.meat!r}')

    def fit(self, model: Model, data: Any) -> Auditor:
        """Compute all leaf means again, with the influence of each row on them."""
        with fitting(self, model, data) as fit:
            known = _known(fit, self.resampler, self.meat)
            spread, sampled = ForestSpread(known), _sampled_trees(known)
            facts = _facts(known, sampled)
            lens = LeafLens(known.forest, known.influence, known.leaf, known.targets, fit.data, self.resampler)
            if not fit.model.family.gaussian:
                if self.meat is None and not known.influence.left_out:
                    text = (
                        "every tree of this forest has seen all rows, so that its leaves leave no residuals and "
                        "resampling seems to change nothing: grow the forest with bootstrap=True to know how far "
                        "its decisions would change"
                    )
                    fit.warned.append(text)
                    warnings.warn(text, RueWarning, stacklevel=2)
                judged = _out_of_bag(known, sample_numbers(fit.data))
                votes = None if len(judged.rows) < FEWEST else _tempered(known, judged)
                facts = facts if votes is None else {**facts, **votes.describe()}
                spread = replace(spread, votes=votes)
                return fit.auditor(spread, facts, noise=False, lens=lens, sampled_trees=sampled)
            judged = _out_of_bag(known, sample_numbers(fit.data))
            if len(judged.rows) < FEWEST:
                text = (
                    f"only {len(judged.rows)} training rows are out of the bag of some tree, too few to know the "
                    "forest's errors by: the audit has the spread of resampling alone; grow the forest with "
                    "bootstrap=True and more trees, or calibrate on held-out rows"
                )
                fit.warned.append(text)
                warnings.warn(text, RueWarning, stacklevel=2)
                return fit.auditor(spread, facts, noise=False, lens=lens, sampled_trees=sampled)
            errors, weighed, degrees = _weigh(fit, known, judged, self.seed)
            spread, facts = replace(spread, errors=errors), {**facts, **weighed}
            return fit.auditor(spread, facts, noise=False, degrees=degrees, lens=lens, sampled_trees=sampled)


@storable_rows
@dataclass(frozen=True)
class ForestFacts:
    """The training rows in the leaves of the forest, and their influence on the leaf means."""

    forest: ForestCore = field(repr=False)
    influence: LeafInfluence = field(repr=False)
    leaf: Whole = field(repr=False)  # (n, T)
    targets: Array = field(repr=False)  # (n, k)
    weight: Array = field(repr=False)  # (n,)
    resampling: WeightCovariance

    def covariance(self, leaf: Whole, use: Any = None) -> Array:
        """The covariance under resampling (c, k, k), computed for a block of rows at a time."""
        size = max(1, BLOCK // self.influence.pulls[0].shape[1])
        parts = [
            self.influence.covariance(leaf[a : a + size], self.resampling, None if use is None else use[a : a + size])
            for a in range(0, len(leaf), size)
        ]
        return np.concatenate(parts)


@dataclass(frozen=True)
class Judged:
    """Out-of-bag predictions of training rows: by the trees that were grown without the row's unit."""

    rows: Whole = field(repr=False)  # (s,)
    prediction: Array = field(repr=False)  # (s, k)
    residual: Array = field(repr=False)  # (s, k)


@storable
@dataclass(frozen=True)
class WeighedErrors:
    """The parts of the predictive variance beside resampling, and the weights of all parts."""

    standardise: Standardiser = field(repr=False)
    model: ErrorModel = field(repr=False)
    noise: Array = field(repr=False)  # (k, k)
    weights: Array = field(repr=False)  # (4,)
    witness: Honest | None = field(repr=False)


@storable
@dataclass(frozen=True)
class TemperedVotes:
    """Class probabilities: the trees' votes and one vote by class frequencies, at the best out-of-bag temperature."""

    trees: int
    usual: Tensor = field(repr=False)  # (k,), the frequencies of the classes
    unit: float  # a squared temperature
    nll: float  # of rows out of the bag

    def __call__(self, shares: Tensor) -> Tensor:
        """Probabilities from the shares (c, k) of the votes of all trees."""
        return (_logits(shares.double(), self.trees, self.usual) / self.unit**0.5).softmax(-1)

    def describe(self) -> Facts:
        """The entries for an audit's facts."""
        return {"temperature": self.unit**0.5, "out_of_bag_nll": self.nll}


@storable
@dataclass(frozen=True)
class ForestSpread:
    """The spread under resampling, and the weighed errors or tempered votes where they could be fitted."""

    known: ForestFacts = field(repr=False)
    errors: WeighedErrors | None = field(default=None, repr=False)
    votes: "TemperedVotes | None" = None

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """The spread of the mean of the leaves that each row falls into."""
        predicted = outputs(model, inputs)
        covariance = self.known.covariance(self.known.forest.leaf(inputs).numpy())
        if model.family.decision is not None:
            shares = predicted if self.votes is None else self.votes(predicted)
            against = wrong(model.family.decision, shares, predicted)
            return Assessment(predicted, torch.from_numpy(covariance), score=against, classes=ClassShares(shares))
        if self.errors is None:
            return Assessment(predicted, torch.from_numpy(covariance))
        squares = self.errors.model(self.errors.standardise(coordinates(inputs)), predicted.numpy())
        expected = error_covariance(torch.from_numpy(squares), torch.from_numpy(self.errors.noise)).numpy()
        steady, resampling, local, apart = self.errors.weights
        noise = steady * self.errors.noise + local * expected
        if self.errors.witness is not None:
            noise = noise + apart * outer(predicted.double() - self.errors.witness(inputs)).numpy()
        total = noise + resampling * covariance
        return Assessment(
            predicted,
            torch.from_numpy(covariance),
            torch.from_numpy(noise),
            score=torch.from_numpy(np.sqrt(np.trace(total, axis1=1, axis2=2))),
            calibrated=CalibratedParts(torch.from_numpy(total)),
        )


def _known(fit: Fitting, resampler: Resampler, meat: Meat | None) -> ForestFacts:
    if not fit.model.family.gradients:
        known = fit.model.describe()
        raise ModelError(
            f"ForestRUE takes the leaf means of a forest apart, and knows of {known['estimator']} "
            f"{known['known_of_it']}; or use rue.audit, ClassifierRUE() for classes or CalibratedRUE() for numbers, "
            "which audit it as it is"
        )
    if fit.model.family.joint:
        raise ModelError("ForestRUE takes the leaf means of a forest apart; for any other model use LinearRUE")
    forest = cast(ForestCore, fit.model.core)  # what is not joint is a forest
    bagged = forest.forest.bootstrap
    if meat == "HC3" and not bagged:
        raise SettingError(
            'meat="HC3" takes residuals out of the bag, and every tree of this forest has seen all rows '
            '(bootstrap=False); use meat="HC0"'
        )
    batches = list(fit.data.batches())
    leaf = torch.cat([forest.leaf(batch.inputs) for batch in batches]).numpy()
    targets: Tensor = torch.cat([batch.targets for batch in batches])
    weight, unit = fit.data.weight.numpy(), fit.data.unit.numpy()
    influence = leaf_influence(forest.forest, leaf, targets.numpy(), weight, unit, left_out=bagged and meat != "HC0")
    return ForestFacts(forest, influence, leaf, targets.numpy(), weight, resampler.covariance(fit.data.units))


def _out_of_bag(known: ForestFacts, sample: Whole) -> Judged:
    """Those rows of a sample that some tree has not drawn; rows are numbered among all training rows."""
    rows = sample[known.influence.unseen[sample].any(1) & (known.weight[sample] > 0)]
    prediction = known.influence.out_of_bag[rows]
    return Judged(rows, prediction, known.targets[rows] - prediction)


def _tempered(known: ForestFacts, judged: Judged) -> TemperedVotes:
    weight = torch.from_numpy(known.weight[judged.rows])
    targets, share = torch.from_numpy(known.targets[judged.rows]), weight / weight.sum()
    trees = torch.from_numpy(known.influence.unseen[judged.rows].sum(1))
    usual = share @ targets
    logits = _logits(torch.from_numpy(judged.prediction), trees[:, None], usual)
    unit, limit = best_temperature("largest", logits, targets, share)
    unit = 1.0 if limit else unit
    nll = tempered_nll("largest", logits, targets, share, unit)
    return TemperedVotes(known.leaf.shape[1], usual, unit, nll)


def _logits(shares: Tensor, trees: Tensor | int, usual: Tensor) -> Tensor:
    """Logits of the votes and one more, split by class frequencies: no class gets a probability of zero."""
    return (trees * shares + usual).log()


def _weigh(fit: Fitting, known: ForestFacts, judged: Judged, seed: int) -> tuple[WeighedErrors, Facts, float]:
    """Weights of the terms under which the out-of-bag residuals are most likely."""
    standardise, points = training_points(fit.data)
    weight, unit = known.weight[judged.rows], fit.data.unit.numpy()[judged.rows]
    errors = error_model(points[judged.rows], judged.prediction, judged.residual, weight, unit, seed)
    noise = (judged.residual * (weight / weight.sum())[:, None]).T @ judged.residual
    drawn = torch.randperm(len(judged.rows), generator=generator(seed))[:ROWS].sort().values.numpy()
    rows = judged.rows[drawn]
    resampling = known.covariance(known.leaf[rows], known.influence.unseen[rows])
    local = error_covariance(torch.from_numpy(errors.out_of_bag[drawn]), torch.from_numpy(noise)).numpy()
    terms = [np.broadcast_to(noise, resampling.shape), resampling, local]
    witness = kernel_beside(fit.model, fit.data.sample, seed)
    if witness is not None:
        at = torch.from_numpy(np.searchsorted(sample_numbers(fit.data), rows))
        terms.append(outer(torch.from_numpy(judged.prediction[drawn]) - witness.prediction[at]).numpy())
    weights = fit_weights(np.stack(terms), judged.residual[drawn], weight[drawn], [0.0] * len(terms), DEGREES)
    values = np.append(weights.values, [0.0] * (len(TERMS) - len(terms)))
    facts: Facts = {
        "weights": dict(zip(TERMS, values.tolist(), strict=True)),
        "out_of_bag_rows": len(judged.rows),
        "out_of_bag_nll": weights.nll,
        "degrees": None if weights.degrees == inf else weights.degrees,
    }
    witness_says = None if witness is None else witness.says
    return WeighedErrors(standardise, errors, noise, values, witness_says), facts, weights.degrees


def _facts(known: ForestFacts, sampled: SampledTrees) -> Facts:
    return {
        "meat": "HC3: residuals out of the bag" if known.influence.left_out else "HC0: residuals in the leaves",
        "monte_carlo_share": sampled.share,
    }


def _sampled_trees(known: ForestFacts) -> SampledTrees:
    """The share of the resampling variance that is due to the finite number of trees, at some training rows.

    It is not subtracted: a forest grown on other rows would have as few trees.
    """
    some = slice(None, None, max(1, len(known.leaf) // 500))
    unseen = known.influence.unseen[some]
    leaf, use = known.leaf[some], unseen | (unseen.sum(1) < 2)[:, None]
    covariance = known.covariance(leaf, use)
    extra = known.influence.monte_carlo(leaf, covariance, known.resampling.scale, use)
    whole = np.trace(covariance, axis1=1, axis2=2).sum()
    share = float(np.trace(extra, axis1=1, axis2=2).sum() / whole) if whole > 0 else 0.0
    return SampledTrees(known.leaf.shape[1], share)
