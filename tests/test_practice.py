"""The benchmark of practice: its tables, its rivals against other implementations, and one tiny cell of each kind."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import recipes as other_recipes
import refits
import simulations
import torch
from practice_parts import collect, cross_validation_plus, ibug, page, prepare, recipes, scale, summary, whole_rivals
from practice_parts.cases import Case, draw
from practice_parts.networks import Architecture, mean_loss
from practice_parts.run import Wanted, run
from practice_parts.stored import read_json, write_arrays
from practice_parts.tables import CLASSES, REGRESSION, TABLES, Table, chosen, halves
from scipy import stats

RESERVED = {"ggplot2", "ISLR", "modeldata", "Ecdat", "openintro", "wooldridge"}  # for independent tests alone


def test_tables_are_named_once_and_none_is_of_a_reserved_package():
    assert len({table.name for table in TABLES}) == len(TABLES)
    assert not {table.package for table in TABLES} & RESERVED


def test_halves_are_alike_in_size_and_never_divide_a_family():
    place = halves()
    for kind in (REGRESSION, CLASSES):
        settle, report = (len(chosen(half, kind)) for half in ("settle", "report"))
        assert min(settle, report) >= 8
        assert abs(settle - report) <= 1
    for family in {table.family for table in TABLES} - {""}:
        assert len({place[table.name] for table in TABLES if table.family == family}) == 1


def test_preparing_drops_leaks_gaps_and_wide_text_and_codes_levels():
    generator = np.random.default_rng(0)
    y = generator.normal(size=600)
    frame = pd.DataFrame(
        {
            "y": y,
            "number": generator.normal(size=600),
            "leak": 2 * y + 1,
            "gaps": np.where(np.arange(600) % 2, np.nan, 1.0),
            "names": [f"row {i}" for i in range(600)],
            "two": np.where(np.arange(600) % 3, "a", "b"),
            "three": np.array(["a", "b", "c"])[np.arange(600) % 3],
            "constant": 1.0,
        }
    )
    frame.loc[0, "number"] = np.nan
    X, target, names = prepare.cleaned(frame, Table(REGRESSION, "made", "up", "y"))
    assert names == ["number", "two_b", "three_a", "three_b", "three_c"]
    assert X.shape == (599, 5)
    assert np.allclose(target, y[1:])


def test_rows_of_a_case_are_disjoint_and_standardised_by_those_trained_on(tables_file):
    case = draw(tables_file, chosen(names=("ChickWeight",))[0], 400, 0)
    assert torch.allclose(case.X.mean(0), torch.zeros(3), atol=1e-5)
    assert torch.allclose(case.y.std(correction=0), torch.ones(()), atol=1e-5)
    together = torch.cat([case.X, case.X_test])
    assert len(torch.unique(together, dim=0)) == len(together) == 600


def test_cv_plus_is_that_of_mapie():
    from mapie.regression import CrossConformalRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import PredefinedSplit

    generator = np.random.default_rng(0)
    X, X_new = generator.normal(size=(97, 3)), generator.normal(size=(20, 3))
    y = X @ [1.0, -1.0, 0.5] + generator.standard_t(3, size=97)
    fold = generator.permutation(97) % 4
    models = [LinearRegression().fit(X[fold != k], y[fold != k]) for k in range(4)]
    left_out = np.array([models[fold[i]].predict(X[i : i + 1])[0] for i in range(97)])
    lower, upper = cross_validation_plus.intervals(left_out, y, fold, np.stack([m.predict(X_new) for m in models]))
    other = CrossConformalRegressor(LinearRegression(), confidence_level=0.9, method="plus", cv=PredefinedSplit(fold))
    theirs = other.fit_conformalize(X, y).predict_interval(X_new)[1][..., 0]
    assert np.allclose(theirs, np.column_stack([lower, upper]))


def test_the_nearest_rows_share_most_leaves():
    new = np.array([[1, 1, 1], [2, 2, 0]])
    rows = np.array([[1, 1, 0], [1, 1, 1], [2, 2, 2], [2, 0, 0]])
    assert ibug._nearest(new, rows)[:, :2].tolist() == [[1, 0], [2, 3]]


def test_a_quantile_forest_knows_uneven_noise():
    source = np.random.default_rng(0)
    X = source.uniform(size=(900, 2)).astype(np.float32)
    y = (0.1 + X[:, 0]) * source.normal(size=900)
    parts = [torch.tensor(part, dtype=torch.float32) for part in (X[:400], y[:400], X[400:], y[400:])]
    found = whole_rivals.quantile_forest(Case(None, 400, 0, *parts, None))
    wide = np.quantile(np.abs(y[400:]) / (0.1 + X[400:, 0]), 0.9) * 2 * (0.1 + X[400:, 0]).mean()
    assert 0.85 < found["coverage"] < 0.97
    assert found["width"] == pytest.approx(wide, rel=0.2)
    assert found["auc"] > 0.65
    truth = stats.norm.logpdf(y[400:], 0, 0.1 + X[400:, 0]).mean()
    assert -truth < found["nll"] < -truth + 0.25


def test_a_scale_is_found_again_in_residuals_of_known_tails():
    generator = np.random.default_rng(0)
    sizes = np.exp(generator.normal(size=20_000))
    found = scale.fitted(2.5 * sizes * generator.standard_t(4, size=20_000), sizes)
    assert found.degrees == 4
    assert found.factor == pytest.approx(2.5, rel=0.03)
    assert found.rank == pytest.approx(2.5 * stats.t(4).ppf(0.95), rel=0.05)
    spread = found.spread(np.zeros(1), np.ones(1), np.full(1, 3.0))
    assert spread.log_density[0] == pytest.approx(stats.t(4, scale=found.factor).logpdf(3.0))
    assert spread.std[0] == pytest.approx(found.factor * 2**0.5)


def test_training_to_rest_ends_where_the_gradient_of_the_stated_objective_vanishes():
    X, y = torch.randn(80, 3, generator=torch.Generator().manual_seed(0)), torch.linspace(-1, 1, 80)
    trained = recipes.RECIPES["to rest"].train(X, y, None, 0)
    net = trained.net.double()
    penalty = 0.5 * trained.statement["l2"] * sum(p.square().sum() for p in net.parameters())
    slopes = torch.autograd.grad(80 * mean_loss(net(X.double()), y.double()) + penalty, list(net.parameters()))
    assert trained.facts["gradient"] < 1e-6
    assert max(float(slope.abs().max()) for slope in slopes) < 1e-4  # float32 weights


def test_stopping_restores_the_best_weights_and_divides_the_rows():
    X, y = torch.randn(100, 3, generator=torch.Generator().manual_seed(0)), torch.linspace(-1, 1, 100)
    short = recipes.Stopped(Architecture(1, "ReLU"), most_epochs=3)
    long = recipes.Stopped(Architecture(1, "ReLU"), most_epochs=200)
    losses = [
        float(mean_loss(made.net(X[made.stop_rows]), y[made.stop_rows]).detach())
        for made in (recipe.train(X, y, None, 0) for recipe in (short, long))
    ]
    assert losses[1] <= losses[0]
    made = long.train(X, y, None, 0)
    assert sorted([*made.fit_rows, *made.stop_rows]) == list(range(100))
    assert len(made.stop_rows) == 20


@pytest.mark.parametrize(("table", "recipe"), [("ChickWeight", "stopped, one"), ("biopsy", "penalised")])
def test_a_cell_is_trained_once_and_audited_once_for_each_label(tables_file, tmp_path, table, recipe):
    wanted = Wanted(tables_file, tmp_path, "first", recipe=recipe, tables=(table,), n=400, splits=(0,))
    run(wanted, jobs=1)
    made = {path: path.stat().st_mtime_ns for path in Path(tmp_path).rglob("*.*") if path.suffix in (".json", ".npz")}
    assert len(made) == (4 if table == "ChickWeight" else 3)  # whole alternatives are of numbers
    run(wanted, jobs=1)
    assert all(path.stat().st_mtime_ns == before for path, before in made.items())
    stored = read_json(next((tmp_path / "ours/first").glob("*.json")))
    assert np.isfinite(stored["audits"]["nothing stated"]["nll"])
    assert stored["audits"]["refits allowed"]["facts"]["trainings"] == 8
    cells = collect.cells(tmp_path, "first")
    reference = cells[cells["audit"] == collect.REFERENCE[cells["kind"].iloc[0]]]
    assert (reference["nll_lead"] == 0).all()
    shown = summary.markdown(collect.by_table(cells), halves()[table], cells["kind"].iloc[0])
    assert "| rue, nothing stated |" in shown


def test_a_lead_is_the_mean_over_tables_with_its_t_interval():
    leads = np.random.default_rng(0).normal(0.1, 0.2, size=9)
    low, high = stats.t.interval(0.95, 8, loc=leads.mean(), scale=stats.sem(leads))
    said = summary.COLUMNS[REGRESSION]["NLL less the forest's"](pd.DataFrame({"nll_lead": leads}))
    assert said == f"{leads.mean():+.3f} ± {(high - low) / 2:.3f}"


def test_the_page_shows_the_results_kept_beside_it():
    assert page.renewed() == page.PAGE.read_text(), "run python benchmarks/practice.py page --label NAME"


@pytest.mark.parametrize("world", simulations.WORLDS)
def test_coverage_in_a_simulated_world_is_that_of_new_targets(world):
    made, source = simulations.WORLDS[world], np.random.default_rng(0)
    X = source.random((5, simulations.COLUMNS))
    lower, upper = made.truth(X) - made.spread(X), made.truth(X) + 2 * made.spread(X)
    drawn = made.draw(np.tile(X, (20_000, 1)), source).reshape(20_000, len(X))
    inside = ((lower <= drawn) & (drawn <= upper)).mean(0)
    np.testing.assert_allclose(made.coverage(X, lower, upper), inside, atol=0.015)


@pytest.mark.parametrize("trial", [other_recipes, refits, simulations])
def test_the_page_shows_the_trials_kept_beside_it(trial):
    assert trial.renewed() == page.PAGE.read_text(), f"run python benchmarks/{trial.__name__}.py page"


@pytest.mark.parametrize("recipe", other_recipes.TRIED)
def test_every_other_recipe_fits_better_than_a_constant(recipe):
    X = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] > 0).long() if recipe == "label smoothing" else X[:, 0] + X[:, 1]
    classes = 2 if recipe == "label smoothing" else None
    net = other_recipes.TRIED[recipe](other_recipes.Task(X, y, classes, 0, (X, y))).net
    constant = torch.zeros(80, classes or 1)
    assert float(mean_loss(net(X), y).detach()) < 0.5 * float(mean_loss(constant, y))


def test_weights_of_eight_bits_are_left_alone_by_rounding_them_again():
    values = torch.randn(50, 20, generator=torch.Generator().manual_seed(0))
    once = other_recipes.rounded(values)
    assert len(once.unique()) <= 255
    assert torch.allclose(other_recipes.rounded(once), once)
    assert (once - values).abs().max() <= values.abs().max() / 254 + 1e-6


def test_rows_that_stop_a_refit_have_no_copies_among_those_it_is_fitted_to():
    X, y = torch.randn(100, 2, generator=torch.Generator().manual_seed(0)), torch.linspace(-1, 1, 100)
    recipe = recipes.Stopped(Architecture(1, "ReLU"), most_epochs=1)
    rows = refits.resampled(recipe, 100, 7, np.random.default_rng(0))
    made = recipe.train(X[rows], y[rows], None, 7)
    assert not set(rows[made.fit_rows]) & set(rows[made.stop_rows])
    assert len(set(rows)) < 80


@pytest.fixture(scope="module")
def tables_file(tmp_path_factory):
    """Two made-up tables under names of the list."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(600, 3)).astype(np.float32)
    y = (X[:, 0] + generator.normal(size=600)).astype(np.float32)
    path = tmp_path_factory.mktemp("practice") / "tables.npz"
    named = {"ChickWeight": y, "biopsy": (y > 0).astype(np.int64)}
    write_arrays(path, {f"{name}/{part}": v for name, own in named.items() for part, v in (("X", X), ("y", own))})
    return path
