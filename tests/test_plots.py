"""Figures: what is drawn is what was handed in, and what was handed in wrongly is refused."""

import importlib.util
import re
import subprocess
import sys
from math import comb
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from sklearn.linear_model import LogisticRegression, PoissonRegressor

import cases
import rue
from rue import evaluate, plots
from rue.core.errors import InputError, ShapeError
from rue.plots import influence, kernels

ROOT = Path(__file__).parent.parent
DRAWN = [name for name in plots.__all__ if name.islower()]


def explanation(n=50, units=None, seed=0):
    random = np.random.default_rng(seed)
    u = n if units is None else units
    change = random.normal(size=u)
    change[0] = 0.0
    return SimpleNamespace(
        of="the prediction",
        similarity=random.random(n),
        kernel=random.exponential(size=n),
        residual=random.normal(size=n),
        unit=np.arange(n) if units is None else random.permutation(np.arange(n) % u),
        contribution=change**2,
        change=change,
        label=np.array([f"patient {i}" for i in range(u)]),
        variance=float((change**2).sum()),
        prediction=1.5,
    )


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(1)
    X = pd.DataFrame(random.normal(size=(60, 2)), columns=["age", "weight"])
    return X, np.sin(X["age"].to_numpy()) + 0.2 * random.normal(size=60)


@pytest.fixture(scope="module")
def softplus():
    case = cases.softplus()
    return case, rue.RUE(members=20).fit(case.wrap(), (case.X, case.y))


def points(collection):
    return np.asarray(collection.get_offsets())


def rendered(figure, tmp_path):
    figure.savefig(tmp_path / "figure.png", dpi=50)
    return (tmp_path / "figure.png").stat().st_size


# ------------------------------------------------------------------------------------------ all of them


def every_figure(softplus):
    case, sampled = softplus
    random = np.random.default_rng(2)
    y, mean, std = random.normal(size=30), np.zeros(30), np.full(30, 1.2)
    linear = cases.linear()
    return {
        "auc_against_tolerance": plots.auc_against_tolerance({"a": std + y}, y),
        "error_after_deferral": plots.error_after_deferral({"a": std + y}, np.abs(y)),
        "spread_and_error": plots.spread_and_error(random.random(30), y),
        "calibration": plots.calibration(y, mean, std),
        "coverage_by_tercile": plots.coverage_by_tercile(y, mean - 1, mean + 1, random.random(30)),
        "kernel": plots.kernel(explanation(30)),
        "influence_map": plots.influence_map(explanation(30), y, mean),
        "score_along": plots.score_along(
            rue.LinearRUE().fit(linear.wrap(), (linear.X, linear.y)), linear.X_new[0], 1, y
        ),
        "members_spread": plots.members_spread(sampled, case.X),
    }


def test_every_figure_says_its_n_and_can_be_written_and_none_is_kept_by_matplotlib(softplus, tmp_path):
    before = dict(mpl.rcParams)
    figures = every_figure(softplus)
    assert sorted(figures) == sorted(DRAWN)
    for name, figure in figures.items():
        assert isinstance(figure, Figure)
        assert re.search(r"\bn = \d+", figure.get_suptitle()), name
        assert rendered(figure, tmp_path) > 1000
        assert all(axes.get_ylabel() for axes in figure.axes)
    assert dict(mpl.rcParams) == before
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


def test_the_module_of_figures_is_there_without_matplotlib():
    probe = "import sys, rue; rue.plots.calibration; print('matplotlib' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"


def test_the_page_shows_every_figure_and_its_images_are_small():
    page = (ROOT / "docs/figures.md").read_text()
    for name in DRAWN:
        assert f"plots.{name}(" in page
    images = re.findall(r"!\[[^\]]+\]\((figures/\w+\.png)\)", page)
    assert {f"figures/{name}.png" for name in DRAWN} <= set(images)
    for image in images:
        assert (ROOT / "docs" / image).stat().st_size < 60_000
    assert {f"figures/{path.name}" for path in (ROOT / "docs/figures").iterdir()} == set(images)


@pytest.mark.docs
def test_the_script_draws_every_image_of_the_page_from_the_page():
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs" / "figures.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    state = torch.get_rng_state()
    drawn = script.drawn()
    torch.set_rng_state(state)
    assert {f"{name}.png" for name in drawn} == {path.name for path in (ROOT / "docs/figures").iterdir()}


# ------------------------------------------------------------------------------------------ scores


def test_bins_that_leave_no_two_rows_are_refused():
    with pytest.raises(InputError, match="bins is 8"):
        plots.spread_and_error(np.arange(9.0), np.ones(9))


def test_an_error_for_every_deviation_is_drawn_without_its_sign():
    std, error = np.arange(20.0), np.linspace(-1, 1, 20)
    found = points(plots.spread_and_error(std, error).axes[0].collections[0])
    np.testing.assert_array_equal(found, np.column_stack([std, np.abs(error)]))


# ------------------------------------------------------------------------------------------ coverage


@pytest.mark.parametrize("n", [1, 7, 40])
def test_the_band_of_calibration_holds_an_exact_binomial_share_of_at_least_95_per_cent(n):
    y = np.random.default_rng(n).normal(size=n)
    axes = plots.calibration(y, np.zeros(n), np.ones(n)).axes[0]
    outline = axes.collections[0].get_paths()[0].vertices
    for level in evaluate.calibration_curve(y, np.zeros(n), np.ones(n)).nominal:
        heights = outline[np.isclose(outline[:, 0], level), 1]
        low, high = round(n * heights.min()), round(n * heights.max())
        chance = [comb(n, k) * level**k * (1 - level) ** (n - k) for k in range(n + 1)]
        assert sum(chance[:low]) < 0.025 <= sum(chance[: low + 1]) + 1e-12
        assert sum(chance[: high + 1]) >= 0.975 - 1e-12
        assert high == 0 or sum(chance[:high]) < 0.975


@pytest.mark.parametrize("degrees", [4.0, np.inf])
def test_calibration_draws_the_curve_under_the_given_tails_beside_the_diagonal(degrees):
    y = np.random.default_rng(0).normal(size=80)
    figure = plots.calibration(y, np.zeros(80), np.ones(80), degrees=degrees)
    diagonal, observed = figure.axes[0].lines
    curve = evaluate.calibration_curve(y, np.zeros(80), np.ones(80), degrees=degrees)
    np.testing.assert_array_equal(observed.get_xydata(), np.column_stack([curve.nominal, curve.observed]))
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    assert "n = 80" in figure.get_suptitle()


def test_coverage_is_that_of_the_rows_with_the_lowest_middle_and_highest_scores():
    random = np.random.default_rng(3)
    y, half, score = random.normal(size=50), random.random(50) + 0.5, random.permutation(50)
    figure = plots.coverage_by_tercile(y, -half, half, score, level=0.8)
    axes = figure.axes[0]
    (marks, _, (bars,)) = axes.containers[0]
    thirds = [score < 17, (score >= 17) & (score < 34), score >= 34]
    for place, (third, bar) in enumerate(zip(thirds, bars.get_segments(), strict=True)):
        wanted = evaluate.coverage(y[third], -half[third], half[third])
        assert marks.get_xydata()[place].tolist() == [place, wanted.value]
        np.testing.assert_allclose(bar, [[place, wanted.low], [place, wanted.high]])
        assert f"n = {third.sum()}" in axes.get_xticklabels()[place].get_text()
    nominal = next(line for line in axes.lines if "nominal" in str(line.get_label()))
    assert set(nominal.get_ydata()) == {0.8}
    low, high = axes.get_ylim()
    assert all(low < y < high for bar in bars.get_segments() for y in bar[:, 1])


def test_intervals_without_an_end_cover():
    figure = plots.coverage_by_tercile([0, 0, 0], [-np.inf] * 3, [np.inf] * 3, [1, 2, 3])
    assert figure.axes[0].containers[0][0].get_ydata().tolist() == [1, 1, 1]


# ------------------------------------------------------------------------------------------ kernels


def test_the_kernel_along_one_input_stands_over_its_training_rows_with_the_squared_residuals_below():
    found, x = explanation(40), np.random.default_rng(4).normal(size=40)
    figure = plots.kernel(found, x, at=0.25)
    order = np.argsort(x)
    above, below = figure.axes[:2]
    np.testing.assert_array_equal(points(above.collections[-1]), np.column_stack([x, found.kernel])[order])
    np.testing.assert_allclose(points(below.collections[-1]), np.column_stack([x, found.residual**2])[order])
    for axes in (above, below):
        (mark,) = axes.lines
        assert set(mark.get_xdata()) == {0.25}
    assert plots.kernel(found, x).axes[0].lines[:] == []
    assert "n = 40" in figure.get_suptitle()


def test_the_column_of_a_frame_names_the_axis():
    found = explanation(5)
    assert plots.kernel(found, pd.Series(np.arange(5.0), name="dose")).axes[1].get_xlabel() == "dose"
    assert plots.kernel(found, np.arange(5.0)).axes[1].get_xlabel() == "x"


@pytest.mark.parametrize("n", [3, 30, 80])
def test_the_strip_ranks_the_largest_kernels_by_name_and_shades_them_by_residual(n):
    found = explanation(n)
    figure = plots.kernel(found)
    axes = figure.axes[0]
    ranked = np.argsort(-found.kernel)[: kernels.SHOWN]
    bars = sorted(axes.patches, key=lambda bar: bar.get_y())
    np.testing.assert_array_equal([bar.get_width() for bar in bars], found.kernel[ranked])
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"patient {row}" for row in ranked]
    low, high = axes.get_ylim()
    assert low > high  # the first is on top
    darkness = [-sum(bar.get_facecolor()[:3]) for bar in bars]
    assert np.argmax(darkness) == np.argmax(np.abs(found.residual[ranked]))
    assert f"n = {n}" in figure.get_suptitle()


def test_rows_of_one_unit_are_told_apart_by_their_numbers():
    found = explanation(20, units=4)
    names = [label.get_text() for label in plots.kernel(found).axes[0].get_yticklabels()]
    first = int(np.argmax(found.kernel))
    assert names[0] == f"patient {found.unit[first]}, row {first}"
    assert len(set(names)) == 20


def test_a_kernel_of_zeros_without_residuals_is_drawn(tmp_path):
    found = explanation(4)
    found.kernel, found.residual = np.zeros(4), np.zeros(4)
    assert rendered(plots.kernel(found), tmp_path)
    assert rendered(plots.kernel(found, np.arange(4.0)), tmp_path)


# ------------------------------------------------------------------------------------------ influence


def test_markers_of_the_map_lie_at_their_rows_with_areas_in_the_ratio_of_the_shares():
    found = explanation(40)
    x, y = np.random.default_rng(5).normal(size=(2, 40))
    axes = plots.influence_map(found, x, y).axes[0]
    for collection, (sign, _, colour, words) in zip(axes.collections, influence.KINDS, strict=True):
        some = np.sign(found.change) == sign
        np.testing.assert_allclose(points(collection), np.column_stack([x, y])[some])
        assert to_hex(collection.get_facecolor()[0]).upper() == colour
        assert collection.get_label() == f"{words} ({some.sum()})"
        share = found.contribution[some] / found.contribution.max()
        seen = share * influence.LARGEST > influence.SMALLEST
        np.testing.assert_allclose(collection.get_sizes()[seen], influence.LARGEST * share[seen])
    shapes = {str(collection.get_paths()[0].vertices.tolist()) for collection in axes.collections}
    assert len(shapes) == 3  # the sign is not told by colour alone


def test_the_ten_largest_parts_are_named_and_point_to_their_rows():
    found = explanation(40)
    x, y = np.random.default_rng(5).normal(size=(2, 40))
    axes = plots.influence_map(found, x, y, labels=("age", "weight")).axes[0]
    largest = np.argsort(-found.contribution)[:10]
    share = 100 * found.contribution / found.contribution.sum()
    named = {text.get_text(): text.xy for text in axes.texts}
    assert named == {f"patient {unit}: {share[unit]:.1f} %": (x[unit], y[unit]) for unit in largest}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("age", "weight")


def test_names_beside_the_map_do_not_hide_each_other(tmp_path):
    found = explanation(40)
    figure = plots.influence_map(found, np.zeros(40), np.zeros(40))
    rendered(figure, tmp_path)
    boxes = [Text.get_window_extent(text) for text in figure.axes[0].texts]  # without the lines to the markers
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(box.x1 <= figure.bbox.x1 + 1 for box in boxes)


def test_a_unit_of_several_rows_lies_at_their_mean():
    found = explanation(20, units=4)
    x, y = np.random.default_rng(6).normal(size=(2, 20))
    figure = plots.influence_map(found, x, y, at=(0.5, -0.5))
    *markers, star = figure.axes[0].collections
    drawn = {tuple(place) for collection in markers for place in points(collection).round(9)}
    assert drawn == {(x[found.unit == u].mean().round(9), y[found.unit == u].mean().round(9)) for u in range(4)}
    np.testing.assert_array_equal(points(star), [[0.5, -0.5]])
    assert "n = 20 training rows in 4 units" in figure.get_suptitle()


# ------------------------------------------------------------------------------------------ along a feature


def test_prediction_bands_and_score_along_a_feature_are_those_of_the_audit():
    case = cases.softplus()
    auditor = rue.CalibratedRUE().fit(case.wrap(), (case.X, case.y))
    row, grid = case.X_new[0].numpy(), np.linspace(-2, 2, 9)
    varied = np.repeat(row[None], 9, axis=0)
    varied[:, 1] = grid
    audit = auditor.audit(varied)
    above, below = plots.score_along(auditor, row, 1, grid[::-1], training=case.X[:, 1]).axes
    lines = {line.get_label(): line for line in above.lines}
    np.testing.assert_array_equal(lines["prediction"].get_xydata(), np.column_stack([grid, audit.prediction]))
    np.testing.assert_array_equal(below.lines[0].get_xydata(), np.column_stack([grid, audit.score]))
    lower, upper, _ = audit.interval(0.9)
    one_std = (audit.prediction - audit.std, audit.prediction + audit.std)
    ends = {"90 % interval": (lower, upper), "1 std of resampling": one_std}
    for band in above.collections:
        outline = band.get_paths()[0].vertices
        for place, low, high in zip(grid, *ends[band.get_label()], strict=True):
            heights = outline[np.isclose(outline[:, 0], place), 1]
            np.testing.assert_allclose((heights.min(), heights.max()), (low, high))
    for axes in (above, below):
        np.testing.assert_array_equal(axes.lines[-1].get_xdata(), case.X[:, 1])


@pytest.mark.parametrize("feature", ["age", 0])
def test_a_frame_keeps_its_columns_and_the_feature_its_name(table, feature):
    X, y = table
    label = np.where(y > 0, "ill", "well")
    auditor = rue.ClassifierRUE().fit(rue.wrap(LogisticRegression().fit(X, label)), (X, label))
    above, below = plots.score_along(auditor, X.iloc[[3]], feature, [-1.0, 0.0, 1.0]).axes
    varied = X.iloc[[3, 3, 3]].assign(age=[-1.0, 0.0, 1.0])
    audit = auditor.audit(varied)
    assert below.get_xlabel() == "age"
    assert [line.get_label() for line in above.lines] == ["class ill", "class well"]
    for line, share in zip(above.lines, audit.probability.T, strict=True):
        np.testing.assert_allclose(line.get_ydata(), share)


def test_a_method_that_only_ranks_has_a_line_without_bands():
    case = cases.linear()
    auditor = rue.KernelDensity().fit(case.wrap(loss=lambda f, t: (f[:, 0] - t) ** 2), (case.X, case.y))
    above, _ = plots.score_along(auditor, case.X_new[0], 0, [0.0, 1.0]).axes
    assert len(above.lines) == 1
    assert list(above.collections) == []


def test_whole_numbers_stay_whole_in_a_frame():
    frame = pd.DataFrame({"stage": [1, 2, 3, 4, 2, 3], "dose": [0.1, 0.3, 0.2, 0.5, 0.4, 0.1]})
    seen = []

    class Spy:
        def audit(self, inputs):
            seen.append(inputs)
            raise InputError("far enough; stop here")

    for values in ([1, 2, 3], [1.5, 2.5]):
        with pytest.raises(InputError):
            plots.score_along(Spy(), frame.iloc[[0]], "stage", values)
    assert seen[0].dtypes.tolist() == frame.dtypes.tolist()
    assert seen[1]["stage"].tolist() == [1.5, 2.5]
    assert frame["stage"].tolist() == [1, 2, 3, 4, 2, 3]


# ------------------------------------------------------------------------------------------ members


@pytest.mark.parametrize(
    "method",
    [
        rue.RUE(members=7),
        rue.RUE(resampler=rue.resample.Jackknife(), members=7),
        rue.BootstrapSGD(members=7),
        rue.Laplace(members=7),
    ],
    ids=str,
)
@pytest.mark.parametrize("case", [cases.softplus(), cases.convolution()], ids=lambda case: case.name)
def test_the_members_variance_is_that_of_the_audit(method, case):
    auditor = method.fit(case.wrap(), (case.X, case.y))
    members, audit = auditor.members(case.X_new), auditor.audit(case.X_new)
    assert members.shape[1:] == audit.prediction.shape
    np.testing.assert_allclose(auditor.assess.factor * members.var(axis=0, ddof=1), audit.std**2, rtol=1e-9)


@pytest.mark.parametrize("kind", ["RefitBootstrap", "MCDropout"])
def test_methods_that_train_show_their_members_too(kind):
    case = cases.softplus()
    method = getattr(rue.integrated, kind)(members=3, training=rue.integrated.Adam(epochs=2))
    auditor = method.fit(case.wrap(), (case.X, case.y))
    spread = auditor.assess.ensemble.factor * auditor.members(case.X_new).var(axis=0, ddof=1)
    np.testing.assert_allclose(spread, auditor.audit(case.X_new).std ** 2, rtol=1e-9)


def test_members_of_a_link_are_predictions_and_those_of_a_classifier_logits(table):
    X, y = table
    counts = np.round(np.exp(y)).clip(0)
    estimator = PoissonRegressor().fit(X, counts)
    auditor = rue.RUE(members=400, resampler=rue.resample.BayesianBootstrap()).fit(rue.wrap(estimator), (X, counts))
    members = auditor.members(X[:5])
    assert (members > 0).all()
    np.testing.assert_allclose(np.log(members).mean(axis=0), np.log(estimator.predict(X[:5])), atol=0.1)
    label = y > 0
    classifier = LogisticRegression().fit(X, label)
    logits = rue.RUE(members=400).fit(rue.wrap(classifier), (X, label))
    np.testing.assert_allclose(logits.members(X[:5]).mean(axis=0), classifier.decision_function(X[:5]), atol=0.3)
    axes = plots.members_spread(logits, X[:5]).axes[0]
    assert axes.get_ylabel() == "logit"
    np.testing.assert_allclose(points(axes.collections[1])[:, 1], classifier.decision_function(X[:5]))


@pytest.mark.parametrize("batch", [1, 3])
def test_members_do_not_depend_on_how_inputs_are_batched(softplus, batch):
    case, auditor = softplus
    loader = torch.utils.data.DataLoader(case.X_new, batch_size=batch)
    np.testing.assert_allclose(auditor.members(loader), auditor.members(case.X_new), rtol=1e-10)


@pytest.mark.parametrize(
    "method", [rue.LinearRUE(), rue.Laplace(linearised=True), rue.CalibratedRUE(), rue.KernelDensity()], ids=str
)
def test_methods_without_members_name_one_that_has_some(method):
    case = cases.linear()
    auditor = method.fit(case.wrap(), (case.X, case.y))
    with pytest.raises(InputError, match=r"draws no members.*fit rue\.RUE"):
        auditor.members(case.X_new)


def test_members_are_lines_along_x_in_its_order(softplus):
    case, auditor = softplus
    x = np.random.default_rng(7).permutation(len(case.X)).astype(float)
    figure = plots.members_spread(auditor, case.X, x=x)
    *lines, own = figure.axes[0].lines
    order = np.argsort(x)
    np.testing.assert_array_equal([line.get_ydata() for line in lines], auditor.members(case.X)[:, order])
    np.testing.assert_array_equal(own.get_xydata(), np.column_stack([x, auditor.predict(case.X)])[order])
    assert f"b = {len(lines)}" in figure.get_suptitle()


def test_members_are_strips_of_dots_with_the_prediction_marked(softplus):
    case, auditor = softplus
    dots, own = plots.members_spread(auditor, case.X).axes[0].collections
    places = np.arange(len(case.X))
    np.testing.assert_array_equal(points(own), np.column_stack([places, auditor.predict(case.X)]))
    members = auditor.members(case.X)
    wanted = np.column_stack([np.tile(places, len(members)), members.ravel()])
    np.testing.assert_array_equal(points(dots), wanted)


# ------------------------------------------------------------------------------------------ mistakes

three, linear_case = np.arange(3.0), cases.linear()


def linear_auditor():
    return rue.LinearRUE().fit(linear_case.wrap(), (linear_case.X, linear_case.y))


def convolution_auditor():
    case = cases.convolution()
    return rue.RUE(members=3).fit(case.wrap(), (case.X, case.y)), case.X_new


mistakes = {
    "a shorter x of a kernel": (
        lambda: plots.kernel(explanation(5), three),
        ShapeError,
        r"x has shape \(3,\)",
    ),
    "a table on the map": (
        lambda: plots.influence_map(explanation(3), three, np.ones((3, 2))),
        ShapeError,
        r"y has shape \(3, 2\)",
    ),
    "nan on the map": (
        lambda: plots.influence_map(explanation(3), three, [0, np.nan, 1]),
        InputError,
        r"y is nan at row 1 .*; drop or repair",
    ),
    "fewer scores than intervals": (
        lambda: plots.coverage_by_tercile(three, three, three, [1, 2]),
        InputError,
        "score has 2",
    ),
    "two rows in three parts": (
        lambda: plots.coverage_by_tercile([1, 2], [0, 0], [3, 3], [1, 2]),
        InputError,
        "there are 2",
    ),
    "a level in per cent": (
        lambda: plots.coverage_by_tercile(three, three, three, three, level=90),
        InputError,
        r"level is 90, expected strictly between 0 and 1; write 90 % as 0.9",
    ),
    "fewer deviations than targets": (
        lambda: plots.calibration(three, three, [1, 1]),
        InputError,
        r"std has 2 rows and y has 3, expected as many; pass",
    ),
    "several rows to vary": (
        lambda: plots.score_along(linear_auditor(), linear_case.X_new, 0, three),
        ShapeError,
        "row has shape",
    ),
    "a frame of several rows": (
        lambda: plots.score_along(linear_auditor(), pd.DataFrame(np.ones((2, 3))), 0, three),
        ShapeError,
        r"row has 2 rows, expected one; pass frame.iloc\[\[i\]\]",
    ),
    "a name in an array": (
        lambda: plots.score_along(linear_auditor(), linear_case.X_new[0], "age", three),
        InputError,
        "'age'",
    ),
    "an unknown name": (
        lambda: plots.score_along(linear_auditor(), pd.DataFrame({"a": [1.0], "b": [2.0]}), "age", three),
        InputError,
        r"feature is 'age', expected one of a, b; name a column",
    ),
    "a feature too far": (
        lambda: plots.score_along(linear_auditor(), linear_case.X_new[0], 3, three),
        InputError,
        "feature is 3",
    ),
    "several outputs along a feature": (
        lambda: plots.score_along(two_outputs(), linear_case.X_new[0], 0, three),
        ShapeError,
        r"the model has 2 outputs, expected one to draw; wrap",
    ),
    "several outputs of members": (
        lambda: plots.members_spread(*convolution_auditor()),
        ShapeError,
        "members predict 2",
    ),
    "an x of another length": (
        lambda: plots.members_spread(
            rue.RUE(members=3).fit(linear_case.wrap(), (linear_case.X, linear_case.y)), linear_case.X, x=three
        ),
        InputError,
        "24",
    ),
    "too many strips": (
        lambda: plots.members_spread(
            rue.RUE(members=3).fit(linear_case.wrap(), (linear_case.X, linear_case.y)), linear_case.X.repeat(2, 1)
        ),
        InputError,
        "48",
    ),
}


def two_outputs():
    net = torch.nn.Linear(3, 2).double()
    return rue.LinearRUE().fit(
        rue.wrap(net, loss="squared_error", l2=1.0), (linear_case.X, torch.stack([linear_case.y] * 2, 1))
    )


@pytest.mark.parametrize(("call", "error", "message"), mistakes.values(), ids=mistakes.keys())
def test_a_figure_of_wrong_inputs_is_refused_with_advice(call, error, message):
    with pytest.raises(error, match=message):
        call()
