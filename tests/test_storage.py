"""Stored audits: the same bits again, from files of data that run nothing and are refused when they are damaged."""

import json
import pickle
import struct
import subprocess
import sys
from hashlib import sha256
from inspect import signature
from itertools import chain

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load as read_arrays
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from torch import nn

import pickle_cases as cases
import rue
import stored_cases
from rue import left_out, solve
from rue.auditing.probes import Range
from rue.core.errors import DataError, ModelError, RueError, SettingError
from rue.core.stored import KNOWN
from rue.data.raw_print import raw_print
from rue.methods import CLASSIFIER_METHODS, METHODS
from rue.methods.integrated import INTEGRATED, Adam
from test_pickling import answers, assert_same_bits

pytestmark = pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
X, y, X_new, three = cases.X, cases.y, cases.X_new, cases.three
SMALL = {"training": Adam(epochs=3, batch=16, learning_rate=0.01), "epochs": 2, "members": 4, "rates": (0.1, 0.4)}
NUMBERS = ("prediction", "score", "std", "noise_std", "total_std", "probability", "flip_probability", "scarce")


@pytest.fixture(scope="module", autouse=True)
def few_trees():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rue.calibrate.error_model.TREES", 10)
        yield


@pytest.fixture
def no_pickle(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("something was unpickled")

    def switch_off():
        for name in ("load", "loads", "Unpickler", "_Unpickler"):
            monkeypatch.setattr(pickle, name, refuse)

    return switch_off


def net(outputs=1):
    return rue.wrap(cases.net(outputs), loss="cross_entropy" if outputs > 1 else "squared_error", l2=0.5)


def plain_net():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    return rue.wrap(module, loss="squared_error", l2=0.5)


def assert_same(one, other, inputs):
    a, b = one.audit(inputs), other.audit(inputs)
    for part in NUMBERS:
        np.testing.assert_array_equal(getattr(a, part), getattr(b, part), err_msg=part)


def stored(auditor, model, path, **kept):
    auditor.save(path, **kept)
    return rue.load(path, model)


@pytest.mark.parametrize("name", cases.AUDITORS)
def test_every_kind_of_model_gives_the_same_bits_from_a_file_that_is_not_unpickled(
    name, tmp_path, monkeypatch, no_pickle
):
    library = cases.LIBRARIES.get(name.split(" ")[0].strip(","))
    if library is not None:
        pytest.importorskip(library)
    wrapped, wrap = [], rue.wrap
    monkeypatch.setattr(rue, "wrap", lambda *given, **named: wrapped.append(wrap(*given, **named)) or wrapped[-1])
    auditor = cases.AUDITORS[name]()
    auditor.save(tmp_path / "a.rue")
    no_pickle()
    assert_same(auditor, rue.load(tmp_path / "a.rue", wrapped[-1]), cases.inputs_of(name))


def fitted(method, model, targets):
    return method(**{name: value for name, value in SMALL.items() if name in signature(method).parameters}).fit(
        model, (X, targets)
    )


METHOD_CASES = {
    **{name: (net, lambda model, method=method: fitted(method, model, y)) for name, method in METHODS.items()},
    **{
        f"{name}, classes": (lambda: net(3), lambda model, method=method: fitted(method, model, three))
        for name, method in CLASSIFIER_METHODS.items()
    },
    **{name: (plain_net, lambda model, method=method: fitted(method, model, y)) for name, method in INTEGRATED.items()},
    **{
        f"LinearRUE, {solver}": (net, lambda model, solver=solver: rue.LinearRUE(solver=solver).fit(model, (X, y)))
        for solver in (solve.Sketch(8), solve.StreamedDual(), solve.EKFAC(), solve.Blocks(), solve.Projection(8))
    },
    **{
        f"ClassifierRUE, {solver}": (
            lambda: net(3),
            lambda model, solver=solver: rue.ClassifierRUE(solver=solver).fit(model, (X, three)),
        )
        for solver in (solve.Sketch(8), solve.StreamedDual())
    },
    **{
        f"CalibratedRUE, {rule}": (
            net,
            lambda model, rule=rule: rue.CalibratedRUE().fit(model, (X, y), left_out=getattr(left_out, rule)()),
        )
        for rule in ("Influence", "Linearised", "KernelWitness", "Mixture")
    },
    "FewerRows": (net, lambda model: rue.FewerRows(0.5).fit(model, (X, y))),
}


@pytest.mark.parametrize("name", METHOD_CASES)
def test_every_method_and_solver_gives_the_same_bits_and_explains_alike(name, tmp_path, no_pickle):
    wrap, fit = METHOD_CASES[name]
    auditor = fit(wrap())
    auditor.save(tmp_path / "a.rue")
    no_pickle()
    assert_same(auditor, rue.load(tmp_path / "a.rue", wrap()), X_new)
    targets = three if "lassif" in name or "classes" in name else y
    with_rows = rue.load(tmp_path / "a.rue", wrap(), data=(X, targets))
    assert_same_bits(answers(auditor.audit(X_new)), answers(with_rows.audit(X_new)))


@pytest.mark.parametrize(
    ("estimator", "targets"),
    [
        (Ridge(), y),
        (HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5), y),
        (HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5), three),
    ],
)
def test_trained_copies_come_back_by_skops(estimator, targets, tmp_path, no_pickle):
    model = rue.wrap(estimator.fit(X, targets))
    method = rue.CalibratedRUE() if targets is y else rue.ClassifierRUE()
    auditor = method.fit(model, (X, targets), left_out=left_out.Folds(3))
    auditor.save(tmp_path / "a.rue")
    no_pickle()
    again = rue.load(tmp_path / "a.rue", model)
    assert_same(auditor, again, X_new)
    if targets is y:
        for one, other in zip(
            auditor.audit(X_new).interval(by="CV+")[:2], again.audit(X_new).interval(by="CV+")[:2], strict=True
        ):
            np.testing.assert_array_equal(one, other)


def test_copies_of_a_network_come_back_as_parameters(tmp_path):
    model = plain_net()
    auditor = rue.CalibratedRUE().fit(model, (X, y), refit=_trained, left_out=left_out.Folds(3))
    assert_same(auditor, stored(auditor, plain_net(), tmp_path / "a.rue"), X_new)


def _trained(rows):
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    inputs, targets = torch.from_numpy(X[rows]), torch.from_numpy(y[rows])
    search = torch.optim.Adam(module.parameters(), 0.05)
    for _ in range(20):
        search.zero_grad()
        nn.functional.mse_loss(module(inputs)[:, 0], targets).backward()
        search.step()
    return module


def test_copies_of_a_users_own_class_are_refused_with_a_way_out(tmp_path):
    class Own(Ridge):
        pass

    auditor = rue.CalibratedRUE().fit(rue.wrap(cases.Box()), (X, y), refit=lambda rows: Own().fit(X[rows], y[rows]))
    with pytest.raises(ModelError, match="refit=False"):
        auditor.save(tmp_path / "a.rue")
    assert not list(tmp_path.iterdir())


def test_explanations_and_checks_need_the_rows_and_say_so(tmp_path):
    model = net()
    auditor = rue.LinearRUE().fit(model, (X, y))
    bare = stored(auditor, net(), tmp_path / "ids.rue")
    for ask in (lambda: bare.audit(X_new).explain(0), bare.check, lambda: bare.calibrate(cases.X_held, cases.y_held)):
        with pytest.raises(DataError, match="data="):
            ask()
    whole = stored(auditor, net(), tmp_path / "all.rue", rows="all")
    assert_same_bits(answers(auditor.audit(X_new)), answers(whole.audit(X_new)))
    assert str(whole.check()) == str(auditor.check())
    with pytest.raises(DataError, match="not the training rows"):
        rue.load(tmp_path / "ids.rue", net(), data=(X[::-1].copy(), y))


def arrays(path):
    return read_arrays(path.read_bytes())


def test_a_file_without_rows_has_no_number_of_any(tmp_path):
    draw = np.random.default_rng(1)
    inputs, targets = draw.normal(size=(61, 4)).astype(np.float32), draw.normal(size=61).astype(np.float32)
    for wrap, method in ((net, rue.Homoscedastic()), (net, rue.LinearRUE())):
        auditor = method.fit(wrap(), (inputs, targets))
        auditor.save(tmp_path / "a.rue", rows="none")
        for values in arrays(tmp_path / "a.rue").values():
            assert 61 not in values.shape
            assert values.numel() % 61 or not values.numel()
        a, b = auditor.audit(X_new), rue.load(tmp_path / "a.rue", wrap()).audit(X_new)
        np.testing.assert_allclose(a.score, b.score, rtol=1e-10)
    again = rue.load(tmp_path / "a.rue", net(), data=(inputs, targets))
    assert again.audit(X_new).explain(0).contribution.shape == auditor.audit(X_new).explain(0).contribution.shape
    for method in (rue.CalibratedRUE(), rue.RUE(members=5), rue.BootstrapSGD(members=3), rue.ErrorForest()):
        auditor = method.fit(net(), (inputs, targets))
        with pytest.raises(SettingError, match="ids"):
            auditor.save(tmp_path / "b.rue", rows="none")
    with pytest.raises(SettingError, match="rows must be"):
        auditor.save(tmp_path / "b.rue", rows="some")


def test_a_file_of_ids_has_not_the_table(tmp_path):
    auditor = rue.LinearRUE().fit(net(), (X, y))
    auditor.save(tmp_path / "a.rue")
    column = set(X[:, 0].tolist())
    for values in arrays(tmp_path / "a.rue").values():
        assert len(column & set(values.double().flatten().tolist())) <= 2  # the ends of the range


def test_another_model_is_refused(tmp_path):
    auditor = rue.LinearRUE().fit(net(), (X, y))
    auditor.save(tmp_path / "a.rue")
    other = cases.net()
    with torch.no_grad():
        other.layers[0].weight[0, 0] += 1e-3
    with pytest.raises(ModelError, match="not the model"):
        rue.load(tmp_path / "a.rue", rue.wrap(other, loss="squared_error", l2=0.5))
    with pytest.raises(ModelError, match="not the model"):
        rue.load(tmp_path / "a.rue", net(3))
    with pytest.raises(ModelError, match=r"rue\.wrap"):
        rue.load(tmp_path / "a.rue", cases.net())
    for loss, l2, what in (("huber", 0.5, "loss"), ("squared_error", 5.0, "l2")):
        with pytest.raises(ModelError, match=f"wrapped otherwise: {what}"):
            rue.load(tmp_path / "a.rue", rue.wrap(cases.net(), loss=loss, l2=l2))


def test_another_mode_or_function_with_the_same_weights_is_refused(tmp_path):
    class Twice(cases.Net):
        def forward(self, x):
            return 2 * super().forward(x)

    auditor = rue.LinearRUE().fit(net(), (X, y))
    auditor.save(tmp_path / "a.rue")
    twice = Twice()
    twice.load_state_dict(cases.net().state_dict())
    with pytest.raises(ModelError, match="not the model"):
        rue.load(tmp_path / "a.rue", rue.wrap(twice, loss="squared_error", l2=0.5))
    box = rue.wrap(cases.Box())
    rue.CalibratedRUE().fit(box, (X, y), refit=False).save(tmp_path / "b.rue")
    other = cases.Box()
    other.predict = lambda table: np.asarray(table)[:, 1]
    with pytest.raises(ModelError, match="not the model"):
        rue.load(tmp_path / "b.rue", rue.wrap(other))


def test_columns_in_another_order_are_put_in_place_or_refused(tmp_path):
    frame = cases.frame.drop(columns="site")
    model = rue.wrap(Ridge().fit(frame, y))
    auditor = rue.LinearRUE().fit(model, (frame, y))
    again = stored(auditor, model, tmp_path / "a.rue")
    new = cases.frame_new.drop(columns="site")
    np.testing.assert_array_equal(again.audit(new[["d", "c", "b", "a"]]).score, auditor.audit(new).score)
    with pytest.raises(DataError, match="b"):
        again.audit(new.drop(columns="b"))
    other = Ridge().fit(frame[["d", "c", "b", "a"]], y)
    with pytest.raises(RueError):
        rue.load(tmp_path / "a.rue", rue.wrap(other))


def rewritten(path, change):
    """A file with a changed content and the right hash of it."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, values = json.loads(content[8 : 8 + length]), read_arrays(content)
    told = json.loads(header["__metadata__"]["rue"])
    change(told)
    said = json.dumps(told, ensure_ascii=False)
    hashed = sha256(said.encode())
    for name in sorted(values):
        hashed.update(f"{name} {values[name].dtype} {tuple(values[name].shape)}".encode())
        hashed.update(bytes(values[name].contiguous().flatten().view(torch.uint8).numpy().data))
    header["__metadata__"] = {"rue": said, "sha256": hashed.hexdigest()}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(struct.pack("<Q", len(head)) + head + content[8 + length :])


@pytest.fixture
def path(tmp_path):
    rue.LinearRUE().fit(net(), (X, y)).save(tmp_path / "a.rue")
    return tmp_path / "a.rue"


def test_a_newer_format_and_another_kind_are_refused(path, tmp_path):
    rewritten(path, lambda told: told.update(format=1))
    rue.load(path, net())
    rewritten(path, lambda told: told.update(format=99))
    with pytest.raises(DataError, match="format 99"):
        rue.load(path, net())
    stored_cases.policy().save(tmp_path / "policy.rue")
    with pytest.raises(DataError, match="stored policy"):
        rue.load(tmp_path / "policy.rue", net())
    with pytest.raises(DataError, match="cannot be read"):
        rue.load(tmp_path / "missing.rue", net())


NODES = [
    {"is": "Popen", "of": {}},
    {"is": "os.system", "of": {}},
    {"is": "settle_module", "of": {}},
    {"is": "Auditor", "of": {}},
    {"function": "system"},
    {"function": "Auditor"},
    {"partial": [{"at": 0}, {"at": 0}, {"at": 0}]},
    {"method": "__reduce__", "of": {"at": 0}},
    {"method": "predict", "of": {"at": 0}},
    {"model": ["core", "module", "forward", "__globals__"]},
    {"model": ["__class__"]},
    {"numpy": "O", "array": "0"},
    {"array": "../../etc/passwd", "on": "cpu"},
    {"dtype": "load"},
    {"device": "cuda:7"},
    {"at": 10**9},
    {"is": "Guarantee", "said": []},
    {"nothing": 1},
    "text",
    {},
    None,
    [[[[]]]],
]


@pytest.mark.parametrize("node", NODES, ids=json.dumps)
def test_what_no_audit_is_made_of_is_refused(node, path):
    rewritten(path, lambda told: told["parts"]["auditor"].__setitem__(0, node))
    with pytest.raises(RueError):
        rue.load(path, net())


def test_deep_nesting_is_refused(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = content[8 : 8 + length].decode().replace('{"__metadata__"', '{"a":' + "[" * 10**5 + "]" * 10**5 + ',"__m"')
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + content[8 + length :])
    with pytest.raises(DataError, match="damaged"):
        rue.load(path, net())


def test_two_thousand_damaged_files_are_refused(path):
    whole, draw, model = path.read_bytes(), np.random.default_rng(0), net()
    for attempt in range(2000):
        if attempt % 4 == 0:
            damaged = whole[: draw.integers(len(whole))]
        elif attempt % 4 == 1:
            start = int(draw.integers(len(whole)))
            damaged = whole[:start] + draw.bytes(int(draw.integers(1, 50))) + whole[start:]
        else:
            bent = bytearray(whole)
            for place in draw.integers(0, len(whole), int(draw.integers(1, 4))):
                bent[place] ^= 1 << int(draw.integers(8))
            damaged = bytes(bent)
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="damaged"):
            rue.load(path, model)


def test_a_file_is_read_in_another_process(tmp_path):
    auditor = stored_cases.KEPT["calibrated"].fit(stored_cases.numbers())
    auditor.save(tmp_path / "a.rue")
    told = (
        "import json, stored_cases, rue; "
        f"print(json.dumps(stored_cases.said(rue.load({str(tmp_path / 'a.rue')!r}, stored_cases.numbers()))))"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, cwd=stored_cases.FOLDER.parent)
    assert json.loads(done.stdout) == stored_cases.said(auditor), done.stderr


@pytest.mark.parametrize("name", stored_cases.KEPT)
def test_files_of_earlier_releases_are_read(name):
    auditor = rue.load(stored_cases.FOLDER / f"{name}.rue", stored_cases.KEPT[name].wrap())
    wanted = json.loads((stored_cases.FOLDER / "answers.json").read_text())[name]
    for part, values in stored_cases.said(auditor).items():
        np.testing.assert_allclose(values, wanted[part], rtol=1e-9)


def test_a_policy_is_stored_and_that_of_an_earlier_release_is_read(tmp_path):
    policy = stored_cases.policy()
    policy.save(tmp_path / "p.rue")
    again = rue.Policy.load(tmp_path / "p.rue")
    assert again == policy
    assert again.guarantee.promise == policy.guarantee.promise
    assert rue.Policy.load(stored_cases.FOLDER / "policy.rue").threshold == pytest.approx(policy.threshold)


def test_names_in_files_are_those_of_things_without_names_of_modules(path):
    content = path.read_bytes()
    said = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])["__metadata__"]["rue"]
    assert "rue." not in said.replace("rue.load", "")
    assert all("." not in name for name in KNOWN)


def test_frames_and_texts_are_drawn_for_probes(tmp_path):
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    table = cases.frame.assign(when=pd.Timestamp("2026-01-01"), day=np.arange(48) % 7).drop(columns="when")
    steps = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["site"]), remainder="passthrough")
    model = rue.wrap(make_pipeline(steps, Ridge()).fit(table, y))
    auditor = rue.LinearRUE().fit(model, (table, y))
    again = stored(auditor, model, tmp_path / "a.rue")
    np.testing.assert_array_equal(again.audit(table[:5]).score, auditor.audit(table[:5]).score)


def test_a_forest_is_stored_as_arrays(tmp_path):
    forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    model = rue.wrap(forest)
    auditor = rue.methods.best_method(model).fit(model, (X, y))
    assert_same(auditor, stored(auditor, model, tmp_path / "a.rue"), X_new)


def test_rare_words_and_rows_of_a_loader_are_not_in_a_file(tmp_path):
    table = pd.DataFrame({"a": X[:, 0], "name": [f"SECRET{number}" for number in range(48)]})
    table["diagnosis"] = ["common"] * 47 + ["seldom"]

    class Reads(cases.Box):
        def predict(self, frame):
            return frame["a"].to_numpy() * 0.9

    auditor = rue.Homoscedastic().fit(rue.wrap(Reads()), (table, y))
    auditor.save(tmp_path / "a.rue", rows="none")
    content = (tmp_path / "a.rue").read_bytes()
    assert b"SECRET" not in content
    assert b"seldom" not in content
    data = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    for size in (1, 2):
        loader = torch.utils.data.DataLoader(data, batch_size=size)
        rue.LinearRUE().fit(net(), loader).save(tmp_path / "b.rue", rows="none")
        kept = [values.double().flatten().tolist() for values in arrays(tmp_path / "b.rue").values()]
        assert not set(chain.from_iterable(kept)) & set(X.astype(float).flatten().tolist())


@pytest.mark.parametrize("library", ["lightgbm", "hist"])
def test_estimators_that_are_audited_by_their_predictions_are_taken_as_they_are(library, tmp_path):
    if library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        made = lightgbm.LGBMRegressor(objective="poisson", n_estimators=5, min_child_samples=5, verbose=-1, n_jobs=1)
    else:
        made = HistGradientBoostingRegressor(loss="poisson", max_iter=5, min_samples_leaf=5)
    model = rue.wrap(made.fit(X, cases.counts))
    auditor = rue.CalibratedRUE().fit(model, (X, cases.counts), refit=False)
    assert_same(auditor, stored(auditor, model, tmp_path / "a.rue"), X_new)


def test_copies_of_neighbours_are_stored(tmp_path):
    model = rue.wrap(KNeighborsRegressor().fit(X, y))
    auditor = rue.CalibratedRUE().fit(model, (X, y))
    assert_same(auditor, stored(auditor, model, tmp_path / "a.rue"), X_new)


STATEMENTS = {
    "delta": ({"loss": nn.HuberLoss(delta=0.1)}, {"loss": nn.HuberLoss(delta=9.0)}, 1),
    "smoothing": ({"loss": nn.CrossEntropyLoss()}, {"loss": nn.CrossEntropyLoss(label_smoothing=0.5)}, 3),
    "class weights": (
        {"loss": nn.CrossEntropyLoss(torch.tensor([1.0, 1.0, 2.0]))},
        {"loss": nn.CrossEntropyLoss(torch.tensor([1.0, 20.0, 9.0]))},
        3,
    ),
    "l2 by name": ({"l2": {"*weight": 1.0, "*bias": 0.5}}, {"l2": {"*weight": 9.0, "*bias": 0.5}}, 1),
    "centre": (
        {"l2": 1.0, "centre": {name: 0 * part + 1 for name, part in cases.net().state_dict().items()}},
        {"l2": 1.0},
        1,
    ),
    "own loss": (
        {"loss": lambda outputs, targets: torch.log(torch.cosh(outputs - targets))},
        {"loss": lambda outputs, targets: 2 * torch.log(torch.cosh(outputs - targets))},
        1,
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_another_statement_beside_the_same_weights_is_refused(name, tmp_path):
    one, other, outputs = STATEMENTS[name]

    def wrap(said):
        return rue.wrap(cases.net(outputs), **({"loss": "squared_error", "l2": 0.5} | said))

    rue.LinearRUE().fit(wrap(one), (X, three if outputs == 3 else y)).save(tmp_path / "a.rue")
    rue.load(tmp_path / "a.rue", wrap(one))
    with pytest.raises(ModelError, match="wrapped otherwise"):
        rue.load(tmp_path / "a.rue", wrap(other))


def test_numbered_columns_and_dates_are_drawn_and_a_black_box_is_compared_by_them(tmp_path):
    class Scaled:
        def __init__(self, factor):
            self.factor = factor

        def predict(self, frame):
            return self.factor * np.asarray(frame[0], dtype=float)

    frame = pd.DataFrame(X).assign(day=pd.date_range("2026-01-01", periods=48))
    auditor = rue.CalibratedRUE().fit(rue.wrap(Scaled(1.0)), (frame.drop(columns="day"), y), refit=False)
    auditor.save(tmp_path / "a.rue")
    rue.load(tmp_path / "a.rue", rue.wrap(Scaled(1.0)))
    with pytest.raises(ModelError, match="not the model"):
        rue.load(tmp_path / "a.rue", rue.wrap(Scaled(-7.0)))
    drawn = Range.of(frame["day"].to_numpy()).draw(np.random.default_rng(0))
    assert drawn.dtype == frame["day"].dtype
    assert frame["day"].min() <= drawn.min() <= drawn.max() <= frame["day"].max()


@pytest.mark.parametrize("value", [0.0, 1e-12, 5.0, 1e15])
def test_a_column_of_one_value_is_drawn_near_it(value):
    drawn = Range.of(np.full((20, 1), value)).draw(np.random.default_rng(0))
    np.testing.assert_allclose(drawn, value, rtol=1e-5, atol=1e-9)


def test_other_groups_and_weights_are_refused(tmp_path):
    rue.LinearRUE().fit(net(), rue.Data(X, y, group=cases.group)).save(tmp_path / "a.rue")
    rue.load(tmp_path / "a.rue", net(), data=rue.Data(X, y, group=cases.group))
    for data in ((X, y), rue.Data(X, y, group=cases.group // 3), rue.Data(X, y, cases.weight, cases.group)):
        with pytest.raises(DataError, match="weights or groups"):
            rue.load(tmp_path / "a.rue", net(), data=data)


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.update(format="newest"),
        lambda told: told.pop("about"),
        lambda told: told.pop("parts"),
        lambda told: told["parts"].pop("auditor"),
        lambda told: told["parts"].pop("schema"),
        lambda told: told.update(parts=[]),
        lambda told: told["parts"].update(auditor=[]),
        lambda told: told["about"].pop("weights"),
        lambda told: told["about"].update(settled={"rows": "x"}),
        lambda told: told["parts"]["auditor"].__setitem__(0, {"range": [None, None, None]}),
    ],
)
def test_made_up_content_is_refused_by_an_error_of_the_library(change, path):
    rewritten(path, change)
    with pytest.raises(RueError):
        rue.load(path, net())


@pytest.mark.parametrize("wrong", [None, b"a.rue", "", 3])
def test_what_is_no_path_is_refused(wrong):
    with pytest.raises(SettingError, match="path"):
        rue.load(wrong, net())
    with pytest.raises(SettingError, match="path"):
        rue.LinearRUE().fit(net(), (X, y)).save(wrong)


def frames():
    """Columns of every kind that a file has a place for, and a column of targets."""
    draw = np.random.default_rng(0)
    words = draw.choice(["p", "q"], 60).astype(object)
    words[3] = None
    table = pd.DataFrame(
        {
            "a": draw.normal(size=60),
            "whole": draw.integers(0, 5, 60),
            "yes": draw.random(60) > 0.5,
            "level": pd.Categorical(draw.choice(["low", "high"], 60), ["low", "high"], ordered=True),
            "grade": pd.Categorical(draw.choice([1, 2], 60)),
            "word": pd.Series(words, dtype="str"),
            "any": pd.Series(words, dtype=object),
            "when": pd.date_range("2020-01-01", periods=60),
        }
    ).set_axis([f"patient {i}" for i in range(60)], axis=0)
    return table.rename_axis("who"), pd.Series(draw.normal(size=60), name="y", index=table.index)


def test_a_frame_comes_back_as_it_was():
    from rue.auditing.stored_frames import StoredFrame

    for table in (*frames(), frames()[0].reset_index(drop=True)):
        again = StoredFrame.of(table).read()
        (pd.testing.assert_series_equal if table.ndim == 1 else pd.testing.assert_frame_equal)(
            again, table, check_index_type=False, check_freq=False
        )
        assert raw_print(again) == raw_print(table)


def test_a_stored_frame_of_training_rows_explains_itself(tmp_path):
    table, y = frames()
    X = table[["a", "whole"]]
    model = rue.wrap(Ridge().fit(X, y))
    auditor = rue.CalibratedRUE().fit(model, rue.Data(X, y, group=[i // 2 for i in range(60)]))
    auditor.save(tmp_path / "a.rue", rows="all")
    again = rue.load(tmp_path / "a.rue", model)
    audit, wanted = again.audit(X[:5]), auditor.audit(X[:5])
    np.testing.assert_array_equal(audit.score, wanted.score)
    assert audit.explain(0).sentence == wanted.explain(0).sentence
    assert again.check(X[:5]).light == auditor.check(X[:5]).light


ODD = {
    "Int64": pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
    "the index": pd.DataFrame({"a": [1.0, 2.0]}, index=pd.MultiIndex.from_tuples([(1, 2), (1, 3)])),
    "column 'word'": pd.DataFrame({"word": pd.Series(["\ud800", "b"], dtype=object)}),
    "categories of the column 'k'": pd.DataFrame({"k": pd.Categorical(pd.period_range("2020", periods=2))}),
    "longdouble": pd.DataFrame({"a": np.array([1, 2], dtype=np.longdouble)}),
}


@pytest.mark.parametrize("what", ODD)
def test_a_frame_that_has_no_place_in_a_file_is_refused_by_name(what):
    from rue.auditing.stored_frames import StoredFrame

    with pytest.raises(SettingError, match="float128|longdouble" if what == "longdouble" else what):
        StoredFrame.of(ODD[what])
