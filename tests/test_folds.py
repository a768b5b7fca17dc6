"""Refits in folds: in time order, at once, resumed; and CV+ from the copies, against another implementation."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from joblib import parallel_config
from practice_parts.cross_validation_plus import intervals
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier
from torch import nn
from torch.utils.data import TensorDataset

import rue
from rue.calibrate.cv_plus import least_coverage
from rue.calibrate.left_out import Folds
from rue.calibrate.left_out.kept import Kept
from rue.calibrate.left_out.splits import forward, splits
from rue.core.errors import DataError, ModelError, SettingError, ShapeError
from rue.data.opening import training_rows

N = 90
source = np.random.default_rng(0)
X, NEW = source.normal(size=(N, 3)), source.normal(size=(40, 3))
y = X[:, 0] + 0.3 * source.normal(size=N)


def neighbours():
    return KNeighborsRegressor(4).fit(X, y)


def audited(left_out=None, **more):
    return rue.audit(neighbours(), train=more.pop("train", (X, y)), inputs=NEW, left_out=left_out, **more)


# CV+


def test_intervals_by_copies_are_those_of_another_cv_plus():
    model, folds = neighbours(), list(KFold(5, shuffle=True, random_state=0).split(X))
    copies = [clone(model).fit(X[kept], y[kept]) for kept, _ in folds]
    fold, left_out = np.empty(N, dtype=int), np.empty(N)
    for number, (_, held) in enumerate(folds):
        fold[held], left_out[held] = number, copies[number].predict(X[held])
    wanted = intervals(left_out, y, fold, np.stack([copy.predict(NEW) for copy in copies]))
    found = audited(Folds(5)).interval(0.9, by="CV+")
    np.testing.assert_allclose(np.stack([found.lower, found.upper]), np.stack(wanted), atol=1e-9)


def test_a_copy_without_each_row_gives_jackknife_plus():
    model = LinearRegression().fit(X, y)
    left_out = np.array(
        [clone(model).fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[i : i + 1])[0] for i in range(N)]
    )
    said = np.stack([clone(model).fit(np.delete(X, i, 0), np.delete(y, i)).predict(NEW) for i in range(N)])
    audit = rue.audit(model, train=(X, y), inputs=NEW, left_out=Folds(N))
    found = audit.interval(0.8, by="jackknife+")
    reach = np.abs(y - left_out)[:, None]
    rank = int(np.ceil(0.8 * (N + 1)))
    np.testing.assert_allclose(found.upper, np.sort(said + reach, axis=0)[rank - 1], atol=1e-6)
    np.testing.assert_allclose(found.lower, np.sort(said - reach, axis=0)[N - rank], atol=1e-6)
    assert found.guarantee.startswith("guaranteed at least 60 %, usually 80 % or more")


@pytest.mark.slow
@pytest.mark.parametrize("folds", [4, 30])
def test_cv_plus_covers_what_it_guarantees(folds):
    inside = []
    for seed in range(25):
        drawn = np.random.default_rng(seed)
        A, B = drawn.normal(size=(60, 2)), drawn.normal(size=(100, 2))
        a, b = (part[:, 0] + drawn.normal(size=len(part)) for part in (A, B))
        audit = rue.audit(KNeighborsRegressor(3).fit(A, a), train=(A, a), inputs=B, left_out=Folds(folds))
        lower, upper, _ = audit.interval(0.8, by="CV+")
        inside.append(np.mean((lower <= b) & (b <= upper)))
    assert np.mean(inside) > 0.77  # about .8; guaranteed are
    assert least_coverage(0.8, 60, folds) < 0.6


@pytest.mark.parametrize(
    ("n", "folds", "cost"),
    [
        (60, 3, Fraction(4, 63)),  # few folds: 2(1 − 1/3)/(20 + 1) is less than (1 − 1/20)/4
        (30, 5, Fraction(5, 36)),  # many: (1 − 1/6)/6 is less than 2(1 − 1/5)/7
        (12, 4, Fraction(2, 15)),
        (8, 2, Fraction(1, 5)),
        (50, 50, 0),  # jackknife+ costs nothing
    ],
)
def test_leaving_rows_out_together_costs_what_theorem_4_says(n, folds, cost):
    assert least_coverage(0.9, n, folds) == pytest.approx(float(Fraction(8, 10) - cost), abs=1e-12)
    assert least_coverage(0.75, n, folds) == pytest.approx(float(Fraction(5, 10) - cost), abs=1e-12)


def test_transformed_targets_have_intervals_in_their_own_units():
    from sklearn.compose import TransformedTargetRegressor

    positive, plain = np.exp(y), LinearRegression().fit(X, y)
    model = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp).fit(X, positive)
    found = rue.audit(model, train=(X, positive), inputs=NEW, left_out=Folds(5)).interval(0.9, by="CV+")
    wanted = rue.audit(plain, train=(X, y), inputs=NEW, left_out=Folds(5)).interval(0.9, by="CV+")
    np.testing.assert_allclose(np.log([found.lower, found.upper]), [wanted.lower, wanted.upper], atol=1e-6)


@pytest.mark.parametrize("more", [{"group": np.arange(N) // 3}, {"weight": np.linspace(1, 2, N)}])
def test_rows_that_are_not_exchangeable_have_no_cv_plus(more):
    model = KNeighborsRegressor(4).fit(X, y) if "group" in more else LinearRegression().fit(X, y, more["weight"])
    audit = rue.audit(model, train=rue.Data(X, y, **more), inputs=NEW, left_out=Folds(5))
    with pytest.raises(SettingError, match="choose from left-out ranks, distribution"):
        audit.interval(0.9, by="CV+")


def test_inputs_that_changed_since_the_audit_have_no_intervals():
    changed = NEW.copy()
    audit = rue.audit(neighbours(), train=(X, y), inputs=changed, left_out=Folds(5))
    changed += 1
    with pytest.raises(DataError):
        audit.interval(0.9, by="CV+")


# In time order


def test_every_block_is_left_to_a_copy_of_all_rows_before_it():
    times, seen = np.random.default_rng(1).permutation(N), []

    def refit(rows):
        seen.append(rows)
        return KNeighborsRegressor(4).fit(X[rows], y[rows])

    audit = audited(Folds(5, order=times), refit=refit)
    assert len(seen) == audit.facts["trainings"] == 5
    for rows in seen:
        assert sorted(times[rows]) == list(range(len(rows)))
    assert [len(rows) for rows in seen] == [15, 30, 45, 60, 75]
    assert "CV+" not in audit.rules


def test_rows_of_a_dataset_are_in_order_too():
    inputs, targets = torch.tensor(X), torch.tensor(y)
    model = rue.wrap(nn.Linear(3, 1).double(), loss="squared_error")
    times = np.random.default_rng(3).permutation(N)
    whole, wrapped = (
        list(forward(training_rows(data, model)[0], 4, times)) for data in ((X, y), TensorDataset(inputs, targets))
    )
    assert len(whole) == len(wrapped) == 4
    for one, other in zip(whole, wrapped, strict=True):
        np.testing.assert_array_equal(np.concatenate(one), np.concatenate(other))
        assert times[one[0]].max() < times[one[1]].min()


def test_rows_that_no_copy_speaks_for_do_not_count():
    times = np.arange(N)
    plain = audited(Folds(5, order=times))
    wild = y.copy()
    wild[:15:2] += 50  # before the first copy
    model = neighbours()
    moved = rue.audit(
        model, train=(X, wild), inputs=NEW, left_out=Folds(5, order=times), refit=lambda _: neighbours_of(15)
    )
    assert moved.facts["calibrated_on"] == plain.facts["calibrated_on"] == 75
    assert moved.facts["left_out_std"][0] < 2


def neighbours_of(first):
    return KNeighborsRegressor(4).fit(X[first:], y[first:])


def test_rows_of_one_time_are_left_out_together():
    class Rows:
        n, units, ids = 9, 9, torch.arange(9)
        source = rue.Data(np.zeros((9, 1)), np.zeros(9))

    times = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2])
    parts = list(forward(Rows, 2, times))
    assert [(kept.tolist(), held.tolist()) for kept, held in parts] == [
        ([0, 1, 2, 3], [4, 5]),
        ([0, 1, 2, 3, 4, 5], [6, 7, 8]),
    ]


def test_dates_are_an_order():
    dates = np.datetime64("2020-01-01") + np.arange(N)
    np.testing.assert_array_equal(audited(Folds(4, order=dates)).score, audited(Folds(4, order=np.arange(N))).score)


@pytest.mark.parametrize(
    ("order", "error", "said"),
    [
        (np.arange(N - 1), ShapeError, r"order has shape \(89,\), expected one time for each of the 90 training rows"),
        (np.where(np.arange(N) == 3, np.nan, np.arange(N)), SettingError, "some times of order= are missing"),
        (np.zeros(N), SettingError, "too few for blocks one after the other"),
        (np.array([1, "a"] * (N // 2), dtype=object), SettingError, "times are texts"),
        ([str(i) for i in range(N)], SettingError, "times are texts"),
        (np.array([1, None] * (N // 2), dtype=object), SettingError, "cannot be compared"),
    ],
)
def test_an_order_that_is_none_is_refused(order, error, said):
    with pytest.raises(error, match=said):
        audited(Folds(4, order=order))


def test_groups_and_an_order_exclude_each_other():
    with pytest.raises(SettingError, match="leave group= or order= away"):
        audited(Folds(4, order=np.arange(N)), train=rue.Data(X, y, group=np.arange(N) // 2))


def test_classes_are_told_by_copies_of_earlier_rows():
    labels = np.where(y > 0, "up", "down")
    model = KNeighborsClassifier(5).fit(X, labels)
    audit = rue.audit(model, train=(X, labels), inputs=NEW, left_out=Folds(4, order=np.arange(N)))
    assert audit.facts["trainings"] == 4
    assert 0 < audit.score.mean() < 0.5


# At once, and again


@pytest.mark.parametrize("jobs", [2, -1])
def test_copies_trained_at_once_are_the_same(jobs):
    np.testing.assert_array_equal(audited(Folds(4, jobs=jobs)).score, audited(Folds(4)).score)


def test_copies_are_trained_where_joblib_is_told_to():
    with parallel_config("threading", n_jobs=2):
        found = audited(Folds(4))
    np.testing.assert_array_equal(found.score, audited(Folds(4)).score)


def test_what_copies_said_is_kept_and_only_the_missing_are_trained(tmp_path):
    trained = []

    def refit(rows):
        trained.append(len(rows))
        return KNeighborsRegressor(4).fit(X[rows], y[rows])

    folds = Folds(5, keep=tmp_path / "folds")
    first = audited(folds, refit=refit)
    files = sorted((tmp_path / "folds").iterdir())
    assert len(files) == len(trained) == 5
    files[1].write_bytes(files[1].read_bytes()[:50])
    files[3].unlink()
    again = audited(folds, refit=refit)
    assert len(trained) == 7
    assert again.facts["trainings"] == 2
    assert "what 3 copies said was kept, and 2 copies were trained" in again.facts["left_out_why"]
    np.testing.assert_array_equal(again.score, first.score)
    assert "CV+" in first.rules
    assert "CV+" not in again.rules  # three copies are gone
    audited(folds, train=(X, y + 1), refit=refit)
    assert len(trained) == 12


def test_a_run_that_was_cut_off_goes_on(tmp_path):
    count = 0

    def dies(rows):
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return KNeighborsRegressor(4).fit(X[rows], y[rows])

    with pytest.raises(KeyboardInterrupt):
        audited(Folds(5, keep=tmp_path), refit=dies)
    audited(Folds(5, keep=tmp_path), refit=dies)
    assert count == 6
    assert not list(Path(tmp_path).glob("*.part"))


def test_kept_numbers_that_are_not_finite_are_not_taken(tmp_path):
    kept = Kept(tmp_path, "mark")
    kept.write(0, torch.tensor([[1.0], [float("nan")]], dtype=torch.float64))
    kept.write(1, torch.tensor([[1.0], [2.0]], dtype=torch.float64))
    assert kept.read(0, (2, 1)) is None
    assert kept.read(1, (3, 1)) is None
    assert kept.read(1, (2, 1)).tolist() == [[1.0], [2.0]]


# What a user's own training may do


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"jobs": 0}, "jobs must be a whole number"),
        ({"jobs": 1.5}, "jobs must be a whole number"),
        ({"keep": 3}, "keep must be the path of a folder"),
        ({"count": 1}, "at least 2"),
        ({"count": 2.5}, "count must be a whole number"),
        ({"count": True}, "count must be a whole number"),
        ({"jobs": True}, "jobs must be a whole number"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, said):
    with pytest.raises(SettingError, match=said):
        Folds(**settings)


def network(rows):
    torch.manual_seed(len(rows))
    net = nn.Linear(3, 1)
    A, b = torch.tensor(X[rows], dtype=torch.float32), torch.tensor(y[rows], dtype=torch.float32)
    with torch.no_grad():
        net.weight.copy_(torch.linalg.lstsq(A, b[:, None]).solution.T)
    return net


def test_networks_have_cv_plus():
    net = network(np.arange(N))
    rows, new = (torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)), torch.tensor(NEW).float()
    audit = rue.audit(net, train=rows, inputs=new, loss="squared_error", refit=network)
    assert audit.facts["trainings"] == 8
    inside = audit.interval(0.9, by="CV+")
    assert (inside.lower < audit.prediction).all()
    assert (audit.prediction < inside.upper).all()


@pytest.mark.parametrize(
    ("refit", "said"),
    [
        (
            lambda _: 1 / 0,
            "training a copy of the model failed, ZeroDivisionError: division by zero; refit= must train",
        ),
        (lambda _: None, "None"),
    ],
)
def test_a_training_that_fails_says_so(refit, said):
    with pytest.raises(ModelError, match=said):
        audited(refit=refit)


@pytest.mark.parametrize("kind", ["estimator", "network"])
def test_the_audited_model_itself_is_no_copy(kind):
    if kind == "estimator":
        model, stated = neighbours(), {}
        rows, new = (X, y), NEW
    else:
        model, stated = network(np.arange(N)), {"loss": "squared_error"}
        rows, new = (torch.tensor(X).float(), torch.tensor(y).float()), torch.tensor(NEW).float()
    with pytest.raises(ModelError, match="refit returned the audited model itself"):
        rue.audit(model, train=rows, inputs=new, refit=lambda _: model, **stated)


def test_copies_that_ignore_their_rows_are_noticed():
    with pytest.raises(ModelError, match="refit= seems not to train on the rows it is given alone"):
        audited(refit=lambda _: neighbours())


def test_copies_that_agree_about_classes_far_apart_are_no_fault():
    far, labels = np.where(np.arange(N) % 2, 5.0, -5.0)[:, None] + X, np.arange(N) % 2
    model = KNeighborsClassifier(3).fit(far, labels)

    def refit(rows):
        return KNeighborsClassifier(3).fit(far[rows], labels[rows])

    assert rue.audit(model, train=(far, labels), inputs=far[:5], refit=refit).facts["trainings"] == 8


def test_a_copy_that_predicts_nothing_is_named():
    class Lost:
        def predict(self, inputs):
            return np.full(len(inputs), np.nan)

    with pytest.raises(ModelError, match="a copy predicts NaN or infinite numbers"):
        audited(refit=lambda _: Lost())


def test_folds_that_nothing_may_train_are_a_contradiction():
    with pytest.raises(SettingError, match="refit=False forbids"):
        audited(Folds(4), refit=False)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="is no folder that can be written to"):
        audited(Folds(4, keep=tmp_path / "file"))


def test_a_rare_class_does_not_lower_the_number_of_copies():
    labels = np.where(np.arange(N) < 3, "rare", np.where(y > 0, "up", "down"))
    model = KNeighborsClassifier(5).fit(X, labels)
    assert rue.audit(model, train=(X, labels), inputs=NEW).facts["trainings"] == 8


def folds_of(targets, loss, count, outputs=1, group=None):
    """The numbers of the rows that each fold leaves out, after a look at those it trains on."""
    torch.manual_seed(0)
    model = rue.wrap(nn.Linear(3, outputs).double(), loss=loss)
    rows, bound = training_rows(rue.Data(X, targets, group=group), model)
    parts = list(splits(bound, rows, count, 0))
    for kept, held in parts:
        np.testing.assert_array_equal(np.sort(np.concatenate([kept, held])), np.arange(N))
    np.testing.assert_array_equal(np.sort(np.concatenate([held for _, held in parts])), np.arange(N))
    assert len(parts) == count
    return [held for _, held in parts]


@pytest.mark.parametrize("kind", ["labels", "a column of labels", "three classes"])
@pytest.mark.parametrize("grouped", [False, True])
def test_classes_keep_their_frequencies_in_every_fold_and_groups_stay_whole(kind, grouped):
    labels = np.arange(N) % 9 % (3 if kind == "three classes" else 2)  # a pattern that shuffled rows do not keep
    group = np.arange(N) // 9 if grouped else None
    targets = labels[:, None] if kind == "a column of labels" else labels
    loss, outputs = ("cross_entropy", 3) if kind == "three classes" else ("bernoulli", 1)
    for held in folds_of(targets, loss, 5, outputs, group):
        for own in np.unique(labels):
            assert (labels[held] == own).sum() in (
                {int(2 * (labels[:9] == own).sum())} if grouped else near(labels, own)
            )
        if grouped:
            assert (np.bincount(group[held]) % 9 == 0).all()


def near(labels, own):
    """The whole numbers on both sides of a fifth of the rows of a class."""
    share = (labels == own).sum() / 5
    return {int(np.floor(share)), int(np.ceil(share))}


def test_numbers_and_several_labels_of_a_row_have_folds_of_equal_sizes():
    several = np.stack([np.arange(N) == 7, y > 0], axis=1)  # one row alone has the first label
    for targets, loss, outputs in ((y, "squared_error", 1), (several.astype(float), "bernoulli", 2)):
        assert {len(held) for held in folds_of(targets, loss, 6, outputs)} == {15}


def test_groups_stay_whole_where_every_class_has_fewer_rows_than_there_are_folds():
    labels, group = np.repeat(np.arange(18), 5), np.arange(N) // 2
    for held in folds_of(labels, "cross_entropy", 9, 18, group):
        assert (np.bincount(group[held]) % 2 == 0).all()


def test_classes_of_fewer_rows_than_folds_are_spread_as_they_come():
    labels = np.repeat(np.arange(30), 3)
    assert {len(held) for held in folds_of(labels, "cross_entropy", 5, 30)} == {18}
    assert {len(held) for held in folds_of(labels, "cross_entropy", 3, 30)} == {30}
    for rare, refused in ((2, False), (1, True)):
        labels = np.where(np.arange(N) < rare, 2, np.arange(N) % 2)
        if refused:
            with pytest.raises(ModelError, match="a class has one row only"):
                folds_of(labels, "cross_entropy", 3, 3)
        else:
            assert {len(held) for held in folds_of(labels, "cross_entropy", 3, 3)} == {30}


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, ExtraTreesClassifier])
def test_copies_of_trees_speak_of_probabilities_as_the_audited_model_does(kind):
    labels = np.where(y > 0, "up", "down")
    drawn = np.random.default_rng(5).normal(size=(300, 3))
    model = kind(random_state=0).fit(X, labels)
    audit = rue.audit(model, train=(X, labels), inputs=drawn, left_out=Folds(5, order=np.arange(N)))
    wrong = model.predict(drawn) != np.where(drawn[:, 0] > 0, "up", "down")
    assert audit.score.mean() == pytest.approx(wrong.mean(), abs=0.12)


@pytest.mark.parametrize("loss", ["MAE", "Poisson"])
def test_catboost_for_other_losses_is_known_by_its_predictions(loss):
    from catboost import CatBoostRegressor

    target = y if loss == "MAE" else np.exp(y)
    model = CatBoostRegressor(loss_function=loss, iterations=20, verbose=0, allow_writing_files=False).fit(X, target)
    audit = rue.audit(model, train=(X, target), inputs=NEW, refit=False)
    assert np.isfinite(audit.interval(0.9).upper).all()


@pytest.mark.parametrize("kind", ["copies", "validation"])
def test_forests_take_copies_and_validation_rows_where_they_are_asked_for(kind):
    model = RandomForestRegressor(20, random_state=0).fit(X, y)
    asked = {"left_out": Folds(4)} if kind == "copies" else {"validation": (NEW, NEW[:, 0])}
    audit = rue.audit(model, train=(X, y), inputs=NEW, **asked)
    assert ("CV+" if kind == "copies" else "split conformal") in audit.rules


def test_forests_without_a_bag_can_be_checked():
    model = ExtraTreesRegressor(20, random_state=0).fit(X, y)
    auditor = rue.CalibratedRUE().fit(rue.wrap(model), (X, y), refit=False)
    assert auditor.check(NEW)["training fit"].light
    assert np.isfinite(auditor.audit(NEW).total_std).all()


def test_few_groups_have_as_many_copies():
    group = np.arange(N) % 3
    audit = audited(train=rue.Data(X, y, group=group))
    assert audit.facts["trainings"] == 3
