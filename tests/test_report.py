"""The content of reports: every section, honest numbers, plain words, the same bytes twice."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import rue
from rue import evaluate
from rue.core.errors import DataError, InputError, SettingError, ShapeError
from rue.reports import estimates, fingerprints

SCHEMA = Path(rue.__file__).parent / "reports" / "schema.json"
SECTIONS = [
    *("identity", "use", "method", "fitness", "performance", "errors", "subgroups", "shift", "predictions"),
    *("limitations", "signoff", "monitoring", "crosswalk"),
]
TRAIN = 300


def patients():
    shipped = load_diabetes(as_frame=True, scaled=False)
    frame = shipped.data.set_axis([f"P{i}" for i in range(442)])
    return frame.rename_axis("patient"), shipped.target.set_axis(frame.index)


def ridge():
    X, y = patients()
    fitted = Ridge(1.0).fit(X[:TRAIN], y[:TRAIN])
    auditor = rue.CalibratedRUE().fit(rue.wrap(fitted), (X[:TRAIN], y[:TRAIN]))
    return auditor, X[TRAIN:], y[TRAIN:]


def network():
    X, y = patients()
    X, y = torch.tensor(((X - X.mean()) / X.std()).to_numpy()), torch.tensor((y / 100).to_numpy())
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(10, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
    optimiser = torch.optim.LBFGS(net.parameters(), max_iter=100)

    def objective():
        optimiser.zero_grad()
        weights = sum(part.square().sum() for part in net.parameters())
        loss = 0.5 * (net(X[:200])[:, 0] - y[:200]).square().sum() + 0.5 * weights
        loss.backward()
        return loss

    optimiser.step(objective)
    return rue.RUE(members=20).fit(rue.wrap(net, loss="squared_error", l2=1.0), (X[:200], y[:200])), X[200:], y[200:]


def classes():
    shipped = load_iris(as_frame=True)
    order = np.random.default_rng(0).permutation(150)
    X, y = shipped.data.iloc[order], shipped.target_names[shipped.target.to_numpy()[order]]
    fitted = LogisticRegression().fit(X[:80], y[:80])
    return rue.ClassifierRUE().fit(rue.wrap(fitted), (X[:80], y[:80])), X[80:], y[80:]


def sets_of_classes():
    auditor, X, y = classes()
    return auditor.calibrate(X[:35], y[:35]), X[35:], y[35:]


def counts():
    X, _ = patients()
    X = X[["age", "bmi"]]
    y = np.random.default_rng(0).poisson(np.exp(X["bmi"].to_numpy() / 20))
    fitted = PoissonRegressor().fit(X[:200], y[:200])
    return rue.LinearRUE().fit(rue.wrap(fitted), (X[:200], y[:200])), X[200:], y[200:]


def rates():
    """A module that returns logarithms: targets cannot be subtracted from its outputs."""
    X = torch.randn(120, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.poisson(X[:, 0].exp(), generator=torch.Generator().manual_seed(1))
    net = torch.nn.Linear(2, 1).double()
    torch.nn.init.constant_(net.weight, 0.5)
    return rue.LinearRUE().fit(rue.wrap(net, loss="poisson", l2=1.0), (X[:80], y[:80])), X[80:], y[80:]


def several_outputs():
    draw = np.random.default_rng(0)
    X = draw.normal(size=(150, 3))
    y = X @ draw.normal(size=(3, 2)) + 0.3 * draw.normal(size=(150, 2))
    return rue.CalibratedRUE().fit(rue.wrap(Ridge(1.0).fit(X[:100], y[:100])), (X[:100], y[:100])), X[100:], y[100:]


def forest():
    X, y = patients()
    fitted = RandomForestRegressor(30, random_state=0, n_jobs=1).fit(X[:200], y[:200])
    return rue.ForestRUE().fit(rue.wrap(fitted), (X[:200], y[:200])), X[200:], y[200:]


def forest_of_classes():
    _, X, y = classes()
    fitted = RandomForestClassifier(30, random_state=0, n_jobs=1).fit(X[:40], y[:40])
    return rue.ForestRUE().fit(rue.wrap(fitted), (X[:40], y[:40])), X[40:], y[40:]


def boosted():
    import lightgbm

    X, y = patients()
    fitted = lightgbm.LGBMRegressor(n_estimators=20, num_leaves=6, n_jobs=1, verbose=-1).fit(X[:200], y[:200])
    return rue.CalibratedRUE().fit(rue.wrap(fitted), (X[:200], y[:200])), X[200:], y[200:]


MAKERS = (ridge, network, classes, sets_of_classes, counts, rates, several_outputs, forest, forest_of_classes, boosted)


@pytest.fixture(scope="module", params=[*MAKERS, "no targets"], ids=lambda maker: getattr(maker, "__name__", maker))
def document(request):
    if request.param == "no targets":
        auditor, X, _ = ridge()
        return rue.report(auditor, X).document
    return rue.report(*request.param()).document


@pytest.fixture(scope="module")
def fitted():
    return ridge()


@pytest.fixture(scope="module")
def made(fitted):
    return rue.report(*fitted, group={"sex": fitted[1]["sex"], "old": fitted[1]["age"] > 68}, noun="patients")


def strings(value):
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(part)


def block(document, name):
    return next(b for part in document["sections"] for b in part["blocks"] if b["id"] == name)


def lead(document, name):
    return next(part["lead"] for part in document["sections"] if part["id"] == name)


def fact(document, name, label):
    return next(item["value"] for item in block(document, name)["items"] if item["label"] == label)


def row(document, name, **where):
    key, wanted = next(iter(where.items()))
    return next(one for one in block(document, name)["rows"] if one[key] == wanted)


# --- every document -------------------------------------------------------------------------------


def test_every_section_is_there_with_a_lead_and_blocks(document):
    assert [part["id"] for part in document["sections"]] == SECTIONS
    assert all(part["lead"] and part["blocks"] for part in document["sections"])
    ids = [b["id"] for part in document["sections"] for b in part["blocks"]]
    assert len(ids) == len(set(ids))
    assert 4 <= len(document["highlights"]) <= 6


def test_a_document_is_valid_under_the_published_schema(document):
    import jsonschema

    found = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).iter_errors(document)
    assert [error.message for error in found] == []


def test_json_is_the_document_and_has_nothing_but_numbers_of_six_digits(document):
    text = rue.Report(document).json()
    assert json.loads(text) == document
    assert "NaN" not in text
    assert "Infinity" not in text
    for number in re.findall(r"(?<=[\[:,])-?\d+\.\d+(?:e[+-]\d+)?(?=[,\]}])", text):
        assert float(f"{float(number):.6g}") == float(number)


def test_no_word_promises_what_no_audit_can(document):
    for said in strings(document):
        assert "safe" not in said.lower()
        assert "trustworthy" not in said.lower()
        if "guaranteed" in said.lower():
            assert any(word in said for word in ("marginal", "not guaranteed", "Nothing is guaranteed"))


def test_a_percentage_in_a_lead_or_highlight_comes_with_its_n(document):
    for said in [part["lead"] for part in document["sections"]] + [h["note"] for h in document["highlights"]]:
        if "%" in said:
            assert re.search(r"n = \d|of \d+|\d+ rows", said), said


def test_lists_of_predictions_have_one_entry_for_each(document):
    found = document["predictions"]
    m = found["count"]
    assert len(found["id"]) == m
    assert all(len(values) == m for values in found["values"].values())
    assert {c["key"] for c in [*found["columns"], *found["card"]]} <= set(found["values"])
    assert set(found["values"]["tier"]) <= {"accept", "review", "refuse"}
    for part in ("axes", "sentence"):
        assert found[part] is None or len(found[part]) in (3, m)
    if found["influential"] is not None:
        named = len(found["training"]["id"])
        assert all(0 <= i < named for rows in found["influential"]["row"] for i in rows)
        assert len(found["training"]["values"]) == named
    if found["inputs"] is not None:
        assert len(found["inputs"]["values"]) == m


def test_limitations_are_never_empty(document):
    assert len(block(document, "limits")["items"]) >= 4
    assert len(block(document, "not-tested")["items"]) >= 4


def test_every_chart_says_its_n(document):
    for part in document["sections"]:
        for one in part["blocks"]:
            if one["kind"] == "chart":
                assert "n = " in one["note"]
                assert all(len(s["x"]) == len(s["y"]) for s in one["series"])


# --- identity -------------------------------------------------------------------------------------


def test_the_same_audit_gives_the_same_bytes(fitted, made):
    auditor, X, y = fitted
    again = rue.report(auditor, X, y, group={"sex": X["sex"], "old": X["age"] > 68}, noun="patients")
    assert again.document.keys() == made.document.keys()
    first, second = ({**one.document, "created": None} for one in (made, again))
    assert rue.Report(first).json() == rue.Report(second).json()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made.document["created"]["date"])


def test_the_id_is_the_hash_of_all_but_the_date_and_itself_as_anyone_can_find_from_the_file(made, tmp_path):
    from hashlib import sha256

    document = json.loads(made.save(tmp_path / "audit")[1].read_text(encoding="utf-8"))
    del document["created"]
    item = next(item for item in block(document, "report")["items"] if item["label"] == "Report id")
    found, item["value"] = item["value"], None
    text = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert found == sha256(text.encode()).hexdigest()


def test_the_hash_of_the_weights_changes_with_a_weight_and_with_nothing_else(fitted):
    net = torch.nn.Linear(2, 1)
    first, again = (fingerprints.weights(rue.wrap(net, loss="squared_error")) for _ in range(2))
    assert first == again == fingerprints.weights(rue.wrap(net, loss="squared_error", l2=3.0))
    with torch.no_grad():
        net.weight[0, 0] += 1e-6
    assert fingerprints.weights(rue.wrap(net, loss="squared_error")) != first


def test_the_hash_of_the_weights_sees_frozen_ones_and_those_behind_a_projection():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    kept = rue.wrap(net, loss="squared_error", select="1.*")
    before = fingerprints.weights(kept)
    X, y = torch.randn(9, 2), torch.randn(9)
    projected = rue.LinearRUE(solver=rue.solve.Projection(3)).fit(rue.wrap(net, loss="squared_error", l2=1.0), (X, y))
    behind = fingerprints.weights(projected.model)
    assert behind == fingerprints.weights(rue.wrap(net, loss="squared_error"))
    with torch.no_grad():
        net[0].weight[0, 0] += 1
    assert fingerprints.weights(rue.wrap(net, loss="squared_error", select="1.*")) != before
    assert fingerprints.weights(rue.wrap(net, loss="squared_error")) != behind


def test_the_hash_of_the_data_does_not_see_batches_but_sees_a_value_a_weight_and_a_group():
    from torch.utils.data import DataLoader, TensorDataset

    X, y = torch.arange(12.0).reshape(6, 2), torch.arange(6.0)
    model = rue.wrap(torch.nn.Linear(2, 1), loss="squared_error", l2=1.0)

    def digest(data):
        return fingerprints.training(rue.LinearRUE().fit(model, data).trained.data)

    whole = digest((X, y))
    assert whole == digest(DataLoader(TensorDataset(X, y), batch_size=4))
    other = X.clone()
    other[3, 1] += 1e-3
    weight, group = np.array([1, 1, 1, 1, 1, 2.0]), np.arange(6) // 2
    changed = [digest((other, y)), digest(rue.Data(X, y, weight=weight)), digest(rue.Data(X, y, group=group))]
    assert len({whole, *changed}) == 4


def test_neither_the_auditor_nor_the_random_state_changes(fitted):
    auditor, X, y = fitted
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), auditor.model.theta.clone(), auditor.audit(X).score  # noqa: NPY002
    rue.report(auditor, X, y)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002
    assert torch.equal(before[2], auditor.model.theta)
    assert (before[3] == auditor.audit(X).score).all()


def test_a_previous_report_is_named_and_compared(fitted, made, tmp_path):
    auditor, X, y = fitted
    path = tmp_path / "old.json"
    path.write_text(made.json())
    same = rue.report(auditor, X, y, previous=path).document
    assert fact(same, "previous", "Previous report") == fact(made.document, "report", "Report id")
    assert fact(same, "previous", "Weights") == "the same"
    X_train, y_train = (each[:200] for each in patients())
    refitted = rue.CalibratedRUE().fit(rue.wrap(Ridge(1.0).fit(X_train, y_train)), (X_train, y_train))
    other = rue.report(refitted, X, y, previous=made.document).document
    assert fact(other, "previous", "Weights") == fact(other, "previous", "Training data") == "changed"
    assert fact(other, "previous", "Audited data") == "the same"
    changed = row(other, "changes", what="mean absolute error")
    assert changed["before"] == row(made.document, "metrics", metric="mean absolute error")["value"]
    assert changed["now"] == row(other, "metrics", metric="mean absolute error")["value"]
    assert {"score, 50 %", "share of tier review"} <= {one["what"] for one in block(other, "changes")["rows"]}


def test_scores_of_two_methods_are_not_compared(fitted, made):
    auditor, X, y = fitted
    other = rue.LinearRUE().fit(auditor.model, auditor.trained.data.source)
    document = rue.report(other, X, y, previous=made.document, baselines=False).document
    held = next(item for item in block(document, "previous")["items"] if item["label"] == "Method")
    assert held["value"] == "changed"
    assert "CalibratedRUE before, LinearRUE now" in held["note"]
    told = {one["what"] for one in block(document, "changes")["rows"]}
    assert "mean absolute error" in told
    assert not any("score" in what or "tier" in what for what in told)


@pytest.mark.parametrize("damage", ["sections", "value", "items", "id"])
def test_a_damaged_earlier_report_is_refused(fitted, made, damage):
    before = json.loads(made.json())
    if damage == "sections":
        before["sections"] = [7]
    if damage == "value":
        row(before, "metrics", metric="mean absolute error")["value"] = "much"
    if damage == "items":
        del block(before, "fingerprints")["items"]
    if damage == "id":
        before["sections"] = []
    with pytest.raises(InputError, match="damaged report"):
        rue.report(*fitted, previous=before)


@pytest.mark.parametrize("previous", [{"schema": "other"}, "nowhere.json"])
def test_what_is_no_earlier_report_is_refused(fitted, previous):
    with pytest.raises(InputError, match=r"report\.save"):
        rue.report(*fitted, previous=previous)


# --- performance ----------------------------------------------------------------------------------


def test_metrics_of_numbers_are_those_of_numpy(fitted, made):
    auditor, X, y = fitted
    target, predicted = y.to_numpy(), auditor.predict(X)
    error = target - predicted
    wanted = {
        "mean absolute error": np.abs(error).mean(),
        "root mean squared error": np.sqrt((error**2).mean()),
        "bias (mean of outcome − prediction)": error.mean(),
        "R²": 1 - (error**2).sum() / ((target - target.mean()) ** 2).sum(),
        "mean negative log likelihood": -auditor.audit(X).log_prob(target).mean(),
    }
    for name, value in wanted.items():
        found = row(made.document, "metrics", metric=name)
        assert found["value"] == pytest.approx(value, rel=1e-5)
        assert found["low"] < value < found["high"]
        assert found["n"] == len(y)


def test_coverage_is_counted_over_all_rows_and_by_thirds_of_the_score(fitted, made):
    auditor, X, y = fitted
    audit = auditor.audit(X)
    lower, upper, _ = audit.interval(0.9)
    inside = (lower <= y.to_numpy()) & (y.to_numpy() <= upper)
    everyone = row(made.document, "coverage", rows="all rows")
    assert everyone["value"] == pytest.approx(inside.mean(), rel=1e-5)
    assert everyone["width"] == pytest.approx((upper - lower).mean(), rel=1e-5)
    third = np.argsort(audit.score, kind="stable")[: -(-len(y) // 3)]
    lowest = row(made.document, "coverage", rows="lowest third of scores")
    assert lowest["value"] == pytest.approx(inside[third].mean(), rel=1e-5)
    assert lowest["n"] == len(third)
    chart = block(made.document, "calibration")["series"][0]
    assert chart["x"][-2] == 0.9
    found = evaluate.calibration_curve(y, audit.prediction, audit.total_std, [0.9]).observed[0]
    assert np.isinf(audit.degrees)
    assert chart["y"][-2] == pytest.approx(found, rel=1e-5)


def test_metrics_of_classes_are_those_of_numpy():
    auditor, X, y = classes()
    document, audit = rue.report(auditor, X, y).document, auditor.audit(X)
    codes = np.searchsorted(audit.classes, y)
    hot = np.eye(3)[codes]
    wanted = {
        "accuracy": (audit.label == y).mean(),
        "mean negative log likelihood": -np.log((audit.probability * hot).sum(axis=1)).mean(),
        "Brier score": ((audit.probability - hot) ** 2).sum(axis=1).mean(),
        "expected calibration error": evaluate.expected_calibration_error(audit.probability, codes),
    }
    for name, value in wanted.items():
        assert row(document, "metrics", metric=name)["value"] == pytest.approx(value, rel=1e-5)
    ranked = row(document, "rankings", score="score of this report")
    assert ranked["value"] == pytest.approx(evaluate.auc(audit.score, audit.label != y, 0.5), rel=1e-5)


def test_sets_of_classes_are_covered_and_shown():
    auditor, X, y = sets_of_classes()
    document = rue.report(auditor, X, y, level=0.8).document
    members = auditor.audit(X).prediction_set(0.8).members
    codes = np.searchsorted(auditor.model.classes, y)
    covered = members[np.arange(len(y)), codes].mean()
    assert row(document, "coverage", rows="all rows")["value"] == pytest.approx(covered, rel=1e-5)
    assert "marginal" in document["predictions"]["guarantee"]
    assert len(document["predictions"]["values"]["set"]) == len(y)


def test_outputs_that_targets_cannot_be_subtracted_from_are_judged_by_their_loss():
    auditor, X, y = rates()
    document = rue.report(auditor, X, y).document
    output = auditor.predict(X)
    loss = np.exp(output) - y.numpy() * output
    found = row(document, "metrics", metric="mean loss (poisson)")
    assert found["value"] == pytest.approx(loss.mean(), rel=1e-4)
    assert document["predictions"]["interval"] is None


def test_several_outputs_have_metrics_and_columns_each():
    auditor, X, y = several_outputs()
    document = rue.report(auditor, X, y).document
    error = y - auditor.predict(X)
    for j in range(2):
        found = row(document, "metrics", metric=f"mean absolute error of output {j}")
        assert found["value"] == pytest.approx(np.abs(error[:, j]).mean(), rel=1e-5)
        assert f"prediction_{j}" in document["predictions"]["values"]
        labels = [column["label"] for column in document["predictions"]["card"]]
        assert f"90 % interval of output {j}, from" in labels
    assert "2 outputs of 50 rows" in block(document, "calibration")["note"]
    assert document["highlights"][3]["label"] == "Mean absolute error of output 0"
    axes, total = document["predictions"]["axes"], auditor.audit(X).total_std
    squares = sum(np.square(one["values"]) for one in axes)
    assert squares == pytest.approx((total**2).sum(axis=1), rel=1e-4)


def test_without_targets_it_says_what_could_not_be_assessed(fitted):
    document = rue.report(*fitted[:2]).document
    assert lead(document, "performance").startswith("Not assessed")
    assert lead(document, "errors").startswith("Not assessed")
    assert any("Collect the true outcomes" in item for item in block(document, "not-assessed")["items"])
    assert document["predictions"]["actual"] is None
    assert any("not assessed" in item for item in block(document, "limits")["items"])


# --- does the score find errors -------------------------------------------------------------------


@pytest.mark.parametrize("ties", [False, True])
def test_the_resampled_auc_is_that_of_repeated_rows(ties):
    draw = np.random.default_rng(0)
    score, size = draw.normal(size=40), draw.normal(size=40) ** 2
    score = score.round() if ties else score
    tolerances = np.percentile(size, np.arange(5, 100, 5))
    drawn = draw.integers(40, size=40)
    counts = np.bincount(drawn, minlength=40)[None].astype(float)
    known = estimates.Detection.of(score, size[:, None] > tolerances)
    wanted = np.nanmean(evaluate.auc_curve(score[drawn], size[drawn], tolerances).auc)
    assert known.mean_auc(counts)[0] == pytest.approx(wanted)
    assert known.mean_auc(np.ones((1, 40)))[0] == pytest.approx(evaluate.mean_auc(score, size))


def test_the_score_is_ranked_beside_every_baseline_that_applies(fitted, made):
    auditor, X, y = fitted
    document, audit = made.document, auditor.audit(X)
    error = y.to_numpy() - audit.prediction
    data = auditor.trained.data.source
    wanted = {
        "score of this report": audit.score,
        "resampling alone (std)": audit.std,
        "residuals of the 10 nearest training rows": rue.NearestNeighbours().fit(auditor.model, data).audit(X).score,
        "kernel density of the inputs": rue.KernelDensity().fit(auditor.model, data).audit(X).score,
        "a forest that learns the errors": rue.ErrorForest().fit(auditor.model, data).audit(X).score,
    }
    for name, score in wanted.items():
        assert row(document, "rankings", score=name)["value"] == pytest.approx(
            evaluate.mean_auc(score, error), rel=1e-5
        )
    said = block(document, "comparisons")["items"]
    for one in block(document, "rankings")["rows"][1:]:
        clear = not one["difference_low"] <= 0 <= one["difference_high"]
        assert (one["says"] == "no clear difference") != clear
        assert any(one["score"] in sentence for sentence in said)


def test_what_does_not_apply_is_left_out_with_its_reason():
    document = rue.report(*forest()).document
    assert any("forest" in item for item in block(document, "baselines-left-out")["items"])
    bare = rue.report(*forest(), baselines=False).document
    assert len(block(bare, "rankings")["rows"]) == 2


def test_a_score_of_pure_noise_is_not_called_better_than_a_coin(fitted):
    from rue.reports.sections.errors import rankings

    draw = np.random.default_rng(1)
    failed = draw.random((200, 1)) < 0.3
    found = rankings(draw.normal(size=200), {"other": draw.normal(size=200)}, failed)
    assert [one.comparison for one in found[1:]] == ["alike", "alike"]


def test_few_failures_have_no_interval_and_no_winner():
    from rue.reports.sections.errors import rankings

    failed = np.arange(50)[:, None] >= 47
    found = rankings(np.arange(50.0), {"other": -np.arange(50.0)}, failed)
    assert found[0].auc.value == 1.0
    assert found[0].auc.low is None
    assert {one.comparison for one in found[1:]} == {"too few"}


def test_few_rows_have_no_bootstrap_interval(fitted):
    auditor, X, y = fitted
    document = rue.report(auditor, X[:4], y[:4]).document
    assert all(one["low"] is None and one["by"] is None for one in block(document, "metrics")["rows"])
    assert "too few" in lead(document, "errors")


# --- subgroups, shift, tiers ----------------------------------------------------------------------


def test_subgroups_have_n_and_interval_and_small_ones_are_flagged(fitted, made):
    auditor, X, y = fitted
    error = np.abs(y.to_numpy() - auditor.predict(X))
    for label in (1, 2):
        found = row(made.document, "group-0", group=str(label))
        part = (X["sex"] == label).to_numpy()
        assert found["n"] == part.sum()
        assert found["error"] == pytest.approx(error[part].mean(), rel=1e-5)
        assert found["error_low"] < found["error"] < found["error_high"]
        assert "flag" not in found
    assert row(made.document, "group-1", group="True")["flag"] == "small n"
    assert "comparisons" in lead(made.document, "subgroups")
    assert any("old True" in item for item in block(made.document, "limits")["items"])


def test_a_group_that_differs_is_named(fitted):
    auditor, X, y = fitted
    error = np.abs(y.to_numpy() - auditor.predict(X))
    worst = np.where(error > np.median(error), "bad", "good")
    assert "arm bad" in lead(rue.report(auditor, X, y, group={"arm": worst}).document, "subgroups")


def test_rows_beyond_the_training_rows_are_counted_and_named(fitted):
    auditor, X, _ = fitted
    far = X * 3
    document = rue.report(auditor, far).document
    assert "More audited rows than expected" in lead(document, "shift")
    explained = auditor.audit(far).explain()
    beyond = block(document, "beyond")["rows"]
    assert beyond[0]["value"] == pytest.approx((explained.density_percentile >= 99).mean(), rel=1e-5)
    assert beyond[0]["expected"] == pytest.approx(4 / 301, rel=1e-5)  # ranks 298 to 301 of 301
    assert beyond[1]["value"] == pytest.approx((explained.density_percentile >= 100).mean(), rel=1e-5)
    assert sum(block(document, "density-percentiles")["series"][0]["y"]) == pytest.approx(1, rel=1e-5)


def test_the_chance_of_rows_beyond_is_that_of_ranks():
    from rue.reports.sections.shift import _beyond

    draw, s, m, below = np.random.default_rng(0), 40, 15, 38
    values = draw.normal(size=(20_000, s + m))
    beaten = (values[:, None, :s] < values[:, s:, None]).sum(axis=2) >= below  # (draws, m)
    found = _beyond("", estimates.share([1, 1, 1] + [0] * 12), s, below)
    assert found.expected == pytest.approx(beaten.mean(), abs=0.004)
    assert found.chance == pytest.approx((beaten.sum(axis=1) >= 3).mean(), abs=0.01)


def test_without_explanations_scores_are_compared_as_a_hint(fitted):
    auditor, X, y = fitted
    errors = rue.ErrorForest().fit(auditor.model, auditor.trained.data.source)
    document = rue.report(errors, X, y).document
    assert "as a hint" in lead(document, "shift")
    assert all(one["says"] == "a hint only" for one in block(document, "beyond")["rows"])
    assert document["predictions"]["influential"] is None


def test_a_policy_that_is_given_decides_and_a_default_says_what_it_is(fitted, made):
    auditor, X, y = fitted
    audit = auditor.audit(X)
    assert any("default made of these very" in item for item in block(made.document, "policy")["items"])
    policy = rue.Policy.by_share(audit, share=0.5)
    document = rue.report(auditor, X, y, policy=policy).document
    assert document["predictions"]["values"]["tier"] == policy.decide(audit).tier.tolist()
    assert not any("default" in item for item in block(document, "limits")["items"])
    assert row(document, "tiers", tier="review")["count"] == policy.decide(audit).counts["review"]


def test_three_rows_are_too_few_for_a_default_policy_and_nothing_is_accepted(fitted):
    auditor, X, y = fitted
    document = rue.report(auditor, X[:3], y[:3]).document
    assert "accept" not in document["predictions"]["values"]["tier"]
    assert any("nothing is accepted" in item for item in block(document, "policy")["items"])


def test_alarm_limits_know_that_a_share_is_known_from_few_rows(made):
    from rue.reports.sections.monitoring import TAIL, control_limits

    found = block(made.document, "triggers")["rows"]
    accepted = row(made.document, "tiers", tier="accept")["count"]
    assert (found[0]["low"], found[0]["high"]) == control_limits(142 - accepted, 142)[:2]
    assert found[-1]["low"] is None  # few large errors are no alarm
    assert "142 only" in found[-1]["false"]
    draw = np.random.default_rng(0)
    for count, n in ((20, 100), (1, 40), (0, 30)):
        batch = draw.binomial(100, draw.beta(count + 0.5, n - count + 0.5, size=400_000))
        limits, above = control_limits(count, n), control_limits(count, n, upper_only=True)
        assert above.low is None
        assert above.high == limits.high
        assert (batch > limits.high).mean() == pytest.approx(above.false_alarm, abs=3e-4)
        assert above.false_alarm <= TAIL < (batch >= limits.high).mean() + 3e-4
        assert ((batch < (limits.low or 0)) | (batch > limits.high)).mean() == pytest.approx(
            limits.false_alarm, abs=4e-4
        )


# --- checks ---------------------------------------------------------------------------------------


def check(name, light):
    return rue.Check(name, light, value=0.5, found=f"found {name}", threshold="1", advice="do", rows=("P1",))


@pytest.mark.parametrize("worst", ["green", "amber", "red"])
def test_the_light_is_the_worst_of_the_checks(fitted, worst):
    checkup = rue.CheckUp((check("solve", "green"), check("at rest", worst)), {"refits": "no refit"})
    document = rue.report(*fitted, checkup=checkup).document
    assert document["verdict"]["light"] == worst
    assert block(document, "checks")["rows"][0]["light"] == worst
    assert any("refits" in item for item in block(document, "checks-left-out")["items"])
    if worst != "green":
        assert "at rest" in document["verdict"]["text"]
        assert any("Check at rest" in item for item in block(document, "limits")["items"])


def test_without_checks_the_light_is_amber(fitted):
    none = rue.CheckUp((), {})
    assert rue.report(*fitted, checkup=none).document["verdict"]["light"] == "amber"


# --- the table of predictions ---------------------------------------------------------------------


def test_cards_name_the_users_own_rows(fitted, made):
    auditor, X, y = fitted
    found, explained = made.document["predictions"], auditor.audit(X).explain(top=5, noun="patients")
    assert found["id"] == list(X.index)
    assert found["id_label"] == "patient"
    assert found["unit"] == "patients"
    assert found["sentence"] == list(explained.sentence)
    first = [found["training"]["id"][i] for i in found["influential"]["row"][0]]
    assert first == [f"P{i}" for i in explained.unit[0]]
    place = found["influential"]["row"][0][0]
    own = patients()[0].loc[first[0]]
    assert found["training"]["values"][place][:-1] == pytest.approx(own.tolist(), rel=1e-5)
    assert found["training"]["columns"] == [*X.columns, "target"]
    assert found["influential"]["without"][0] == pytest.approx(explained.change[0], rel=1e-3)
    assert found["values"]["actual"] == y.tolist()
    assert found["inputs"]["values"][0] == pytest.approx(X.iloc[0].tolist(), rel=1e-5)


def test_groups_of_rows_are_named_as_such():
    draw = np.random.default_rng(0)
    X, site = draw.normal(size=(60, 2)), np.repeat([f"site {i}" for i in range(12)], 5)
    y = X[:, 0] + draw.normal(size=60)
    model = rue.wrap(Ridge(1.0).fit(X, y))
    found = rue.report(rue.LinearRUE().fit(model, rue.Data(X, y, group=site)), X[:7]).document["predictions"]
    assert found["unit"] == "groups"
    assert {str(one)[:4] for one in found["training"]["id"]} == {"site"}


def test_ids_may_be_given(fitted):
    auditor, X, y = fitted
    ids = pd.Series(np.arange(len(X)) + 1000, name="case")
    found = rue.report(auditor, X, y, ids=ids).document["predictions"]
    assert found["id"][:2] == [1000, 1001]
    assert found["id_label"] == "case"


def test_of_twelve_thousand_rows_the_ten_thousand_least_reliable_are_shown():
    draw = np.random.default_rng(0)
    X = draw.normal(size=(12_100, 12))
    y = X[:, 0] + draw.normal(size=12_100)
    auditor = rue.CalibratedRUE().fit(rue.wrap(Ridge(1.0).fit(X[:100], y[:100])), (X[:100], y[:100]))
    made = rue.report(auditor, X[100:], y[100:], baselines=False)
    document = made.document
    assert len(made.html().encode()) < 8_000_000  # also with as many columns as a card has
    found, score = document["predictions"], auditor.audit(X[100:]).score
    assert found["count"] == 10_000
    assert min(found["values"]["score"]) == pytest.approx(np.sort(score)[2_000], rel=1e-5)
    assert "10000 with the highest scores of 12000" in lead(document, "predictions")
    assert row(document, "metrics", metric="mean absolute error")["n"] == 12_000


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"level": 90}, SettingError, "write 90 % as 0.9"),
        ({"ids": [1, 2]}, ShapeError, "give one for each"),
        ({"group": {"sex": [1, 2]}}, ShapeError, "'sex'"),
        ({"targets": [1.0, 2.0]}, ShapeError, "(2,)"),
        ({"targets": np.full(142, np.nan)}, DataError, "142"),
        ({"targets": ["a"] * 142}, DataError, "as numbers"),
    ],
)
def test_mistakes_are_errors_with_words(fitted, settings, error, said):
    auditor, X, _ = fitted
    with pytest.raises(error, match=re.escape(said)):
        rue.report(auditor, X, **settings)


def test_a_report_needs_a_fitted_auditor(fitted):
    with pytest.raises(InputError):
        rue.report(rue.CalibratedRUE(), fitted[1])


def test_an_estimate_knows_what_it_excludes():
    found = estimates.share([1] * 9 + [0])
    assert found.excludes(0.2)
    assert not found.excludes(0.9)
    assert str(found) == "0.9 (0.555 to 0.997, n = 10)"


def test_saving_writes_the_page_and_the_json_beside_it(made, tmp_path):
    pytest.importorskip("rue.report.page")
    page, data = made.save(tmp_path / "out" / "audit.html")
    assert json.loads(data.read_text()) == made.document
    assert made.document["title"] in page.read_text()
    assert (page.name, data.name) == ("audit.html", "audit.json")


def test_saving_appends_to_a_name_with_a_dot(made, tmp_path):
    page, data = made.save(tmp_path / "audit_v1.2")
    assert (page.name, data.name) == ("audit_v1.2.html", "audit_v1.2.json")


def test_a_loader_that_shuffles_is_refused():
    from torch.utils.data import DataLoader, TensorDataset

    auditor, X, y = network()
    rows = TensorDataset(X[:60])
    with pytest.raises(DataError):
        rue.report(auditor, DataLoader(rows, batch_size=8, shuffle=True), y[:60])
    with pytest.raises(DataError):  # the same order twice, and not that of the targets
        rue.report(auditor, DataLoader(rows, shuffle=True, generator=torch.Generator()), y[:60])
    assert rue.report(auditor, DataLoader(rows, batch_size=8), baselines=False).document


# --- words for each method ------------------------------------------------------------------------


def small_net():
    X = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    y = X[:, 0] + 0.1 * torch.randn(60, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    return rue.wrap(net, loss="squared_error", l2=1.0), X[:40], y[:40], X[40:], y[40:]


def integrated(name, seed=0):
    from rue import integrated as methods

    short = methods.Adam(epochs=2)
    if name == "PBP":
        return methods.PBP(epochs=2, seed=seed)
    more = {"members": 5} if name == "RefitBootstrap" else {"members": 3}
    return getattr(methods, name)(training=short, seed=seed, **more)


@pytest.mark.parametrize("name", ["DeepEnsemble", "MCDropout", "PBP"])
def test_a_method_with_networks_of_its_own_says_so_everywhere(name):
    model, X, y, X_new, y_new = small_net()
    auditor = integrated(name).fit(model, (X, y))
    document = rue.report(auditor, X_new, y_new, baselines=False).document
    assert document["verdict"]["light"] == "amber"
    assert "Most checks could not be made" in document["verdict"]["text"]
    for part in ("identity", "method", "use"):
        assert "trained" in lead(document, part)
        assert "itself" in lead(document, part) or "of its own" in lead(document, part)
    assert f"{name} trained networks of its own" in block(document, "limits")["items"][0]
    assert "networks that the method trained itself" in row(document, "terms", term="Std")["means"]
    said = " ".join(strings(document))
    assert "re-weight" not in said
    assert "of the wrapped module; the method's own networks are told by its settings and seed" in said
    other = rue.report(integrated(name, seed=1).fit(model, (X, y)), X_new, y_new, baselines=False).document
    assert fact(other, "fingerprints", "Weights") != fact(document, "fingerprints", "Weights")


def test_refits_on_resampled_rows_are_told_from_re_weighting():
    model, X, y, X_new, y_new = small_net()
    document = rue.report(integrated("RefitBootstrap").fit(model, (X, y)), X_new, y_new, baselines=False).document
    assert "trained again on resampled rows" in block(document, "limits")["items"][0]
    assert "trained again" in row(document, "terms", term="Std")["means"]
    assert "re-weight" not in " ".join(strings([block(document, "limits")["items"][:4], block(document, "terms")]))


def test_a_posterior_is_not_called_resampling(fitted):
    auditor, X, y = fitted
    laplace = rue.methods.Laplace(linearised=True).fit(auditor.model, auditor.trained.data.source)
    document = rue.report(laplace, X, y, baselines=False).document
    assert "posterior" in row(document, "terms", term="Std")["means"]
    assert "standard deviation of the prediction" in row(document, "terms", term="Score")["means"]
    assert "re-weight" not in " ".join(strings([block(document, "limits")["items"][:4], block(document, "terms")]))


def test_scores_of_classifiers_are_named_for_what_they_are():
    auditor, X, y = classes()
    data = auditor.trained.data.source
    logits = rue.report(rue.LinearRUE().fit(auditor.model, data), X, y, baselines=False).document
    assert "standard deviation of the logits" in row(logits, "terms", term="Score")["means"]
    votes = rue.report(*forest_of_classes(), baselines=False).document
    assert "share of votes" in row(votes, "terms", term="Std")["means"]
    own = rue.report(rue.methods.Confidence().fit(auditor.model, data), X, y, baselines=False).document
    assert "the model's own" in row(own, "terms", term="Probability")["means"]
    assert "averaged over the training sets" not in " ".join(strings(own))


def test_a_density_gives_no_predictive_distribution_whatever_the_loss(fitted):
    auditor, X, y = fitted
    density = rue.KernelDensity().fit(auditor.model, auditor.trained.data.source)
    found = rue.report(density, X, y, baselines=False).document["predictions"]["guarantee"]
    assert "gives no predictive distribution, and so no interval" in found


def test_both_dampings_are_named(fitted, made):
    assert fact(made.document, "fit", "Damping of similarity and resampling") is not None
    base = fitted[0].trained.inverted.damped
    assert fact(made.document, "fit", "Damping of residuals and leave-one-out") == pytest.approx(base.value)


def test_checks_that_do_not_apply_are_no_limitation(made):
    assert any("sampling error" in item for item in block(made.document, "checks-not-applicable")["items"])
    assert [item.split(":")[0] for item in block(made.document, "checks-left-out")["items"]] == ["Left out, refits"]
    limits = block(made.document, "limits")["items"]
    assert any("1 check (refits)" in item for item in limits)
    assert not any("sampling error" in item for item in limits)


@pytest.mark.parametrize("method", [rue.KernelDensity(), rue.NearestNeighbours(by="distance")])
def test_scores_that_see_a_training_row_in_itself_are_not_compared(fitted, method):
    auditor, X, y = fitted
    document = rue.report(method.fit(auditor.model, auditor.trained.data.source), X, y, baselines=False).document
    assert lead(document, "shift").startswith("Not assessed")
    assert "training" not in block(document, "score-quantiles")["rows"][0]
    assert "were not compared" in block(document, "shift-notes")["text"]


# --- words ----------------------------------------------------------------------------------------


def test_one_prediction_is_written_in_the_singular(fitted):
    auditor, X, y = fitted
    document = rue.report(auditor, X[:1], y[:1]).document
    assert "1 of 1 prediction is for review" in document["verdict"]["text"]
    assert document["title"] == "Audit of 1 prediction"
    assert lead(document, "predictions").startswith("1 prediction:")
    for said in strings(document):
        assert not re.search(r"(?<![\d.])1 (rows|predictions)\b", said), said


def test_coverage_is_in_per_cent_throughout_and_sets_are_no_intervals(made):
    note = next(one for one in made.document["highlights"] if one["label"] == "Coverage")["note"]
    assert re.search(r"intervals hold the outcome, 90 % are meant to; 95 % interval \d+ % to \d+ %, n = 142$", note)
    assert re.search(r"hold \d+ % \(\d+ % to \d+ %, n = 142\)", lead(made.document, "performance"))
    sets = rue.report(*sets_of_classes(), baselines=False).document
    assert "of the sets hold the true class" in next(h for h in sets["highlights"] if h["label"] == "Coverage")["note"]
    assert any(column["label"] == "Share of wrong decisions" for column in block(sets, "tiers")["columns"])


def test_a_default_limit_is_the_highest_score_not_marked_scarce(made):
    assert any(
        "the highest not marked scarce of these 142 rows" in item for item in block(made.document, "policy")["items"]
    )


def test_equal_scores_are_not_split_into_thirds(fitted):
    auditor, X, y = fitted
    same = rue.methods.Homoscedastic().fit(auditor.model, auditor.trained.data.source)
    found = block(rue.report(same, X, y, baselines=False).document, "coverage")
    assert [one["rows"] for one in found["rows"]] == ["all rows"]
    assert "not assessed by thirds" in found["caption"]


def test_a_policy_that_accepts_nothing_guarantees_nothing_of_accepted_rows(fitted):
    from rue.policy import Exceeds

    auditor, X, y = fitted
    policy = rue.Policy.by_risk(auditor.audit(X), y, Exceeds(1e-9), risk=0.01)
    assert policy.accepted == 0
    document = rue.report(auditor, X, y, policy=policy, baselines=False).document
    said = block(document, "policy")["items"]
    assert said[-1] == "Nothing is accepted, and so nothing is said of accepted rows."
    assert not any("uaranteed" in item for item in said)


def test_of_many_groups_the_caption_says_how_many_are_shown(fitted):
    auditor, X, y = fitted
    site = np.arange(len(X)) % 70
    document = rue.report(auditor, X, y, group={"site": site}, baselines=False).document
    assert "50 of 70 groups shown" in block(document, "group-0")["caption"]


def test_a_loss_over_all_rows_says_why_outcomes_do_not_help():
    draw = np.random.default_rng(0)
    X = torch.from_numpy(draw.normal(size=(80, 2)))
    y = torch.from_numpy(np.stack([draw.exponential(size=80), draw.random(80) < 0.7], axis=1))
    model = rue.wrap(torch.nn.Linear(2, 1, bias=False).double(), loss="cox", l2=1.0)
    document = rue.report(rue.LinearRUE().fit(model, (X[:60], y[:60])), X[60:], y[60:], baselines=False).document
    assert "depends on the other rows" in lead(document, "performance")
    said = " ".join(strings([block(document, "not-assessed"), block(document, "errors-not-assessed")]))
    assert "Collect" not in said
    assert "needs the true outcomes" not in said


def test_long_numbers_are_ids_as_text(fitted):
    auditor, X, y = fitted
    ids = [2**53, 2**53 + 1, -(2**60), *range(len(X) - 3)]
    found = rue.report(auditor, X, y, ids=ids, baselines=False).document["predictions"]["id"]
    assert found[:4] == [2**53, str(2**53 + 1), str(-(2**60)), 0]


# ------------------------------------------------------------------------------------------ sections and methods


def test_every_section_is_a_file_with_a_function_of_its_name(document):

    from rue.reports import sections

    files = {path.stem for path in Path(sections.__file__).parent.glob("*.py")} - {"__init__"}
    names = [section.__name__ for section in sections.SECTIONS]
    assert sorted(names) == sorted(files)
    assert names == [section["id"] for section in document["sections"]]


def test_no_report_knows_a_method_by_name():

    from rue import methods, reports

    names = [name for name in [*methods.__all__, *rue.integrated.__all__] if name != "rue"]
    for path in Path(reports.__file__).parent.rglob("*.py"):
        for name in names:
            assert f'"{name}"' not in path.read_text(), f"{path.name} names {name}"


def test_a_method_of_ones_own_is_reported_in_general_words_or_in_its_own():
    from dataclasses import dataclass
    from typing import ClassVar

    from rue.auditing.assessment import Assessment
    from rue.auditing.meaning import Meaning, ScoreMeaning
    from rue.core.derivatives import outputs
    from rue.methods.fitting import fitting

    @dataclass(frozen=True)
    class Size:
        def fit(self, model, data):
            with fitting(self, model, data) as fit:
                return fit.auditor(lambda m, x: Assessment(outputs(m, x), score=outputs(m, x)[:, 0].abs()), {})

    @dataclass(frozen=True)
    class NamedSize(Size):
        meaning: ClassVar[Meaning] = Meaning(
            made="The {method} of the prediction.", score=ScoreMeaning("Its size.", "Its error.")
        )

    X, y = np.eye(4).repeat(3, axis=0), np.arange(12.0)
    model = rue.wrap(Ridge().fit(X, y))
    for method, lead, says in (
        (Size(), "Size scores each prediction after training.", "The higher it is"),
        (NamedSize(), "The NamedSize of the prediction.", "Its size."),
    ):
        document = rue.report(method.fit(model, (X, y)), X, baselines=False).document
        made = {part["id"]: part for part in document["sections"]}
        assert made["method"]["lead"] == lead
        terms = next(block for block in made["use"]["blocks"] if block["id"] == "terms")
        assert terms["rows"][0]["means"].startswith(says)
