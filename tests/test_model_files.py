"""Model files: the numbers of the live model, and no code of theirs is run unless it was trusted."""

import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import rue
from rue.core.errors import ModelError, SettingError
from rue.methods import best_method
from rue.models import best_known
from rue.models.model_file import READERS

skops = pytest.importorskip("skops.io")
pytestmark = pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")

draw = np.random.default_rng(0)
X, X_new = draw.normal(size=(120, 3)), draw.normal(size=(7, 3))
y = X[:, 0] + 0.3 * draw.normal(size=120)
words = np.where(y > 0, "high", "low")


def make_net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()


def exported(path):
    batch = {0: torch.export.Dim("batch")}
    torch.export.save(torch.export.export(make_net(), (torch.tensor(X),), dynamic_shapes=(batch,)), path)


def lightgbm():
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=8, num_leaves=5, n_jobs=1, verbose=-1).fit(X, y)


def xgboost():
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1).fit(X, y)


def catboost(kind="CatBoostRegressor", target=y):
    import catboost

    settings = {"iterations": 8, "depth": 3, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
    return getattr(catboost, kind)(**settings).fit(X, target)


NETWORK = {"loss": "squared_error", "l2": 1.0}
FILES = {  # the file's name, the live model, how it is written, how it is wrapped
    "net.pt2": (make_net, lambda _, path: exported(path), NETWORK),
    "trees.txt": (lightgbm, lambda model, path: model.booster_.save_model(path), {}),
    "trees.json": (xgboost, lambda model, path: model.save_model(path), {}),
    "trees.UBJ": (xgboost, lambda model, path: path.write_bytes(model.get_booster().save_raw("ubj")), {}),
    "trees.cbm": (catboost, lambda model, path: model.save_model(str(path)), {}),
    "cat.json": (catboost, lambda model, path: model.save_model(str(path), format="json"), {}),
    "classes.cbm": (
        lambda: catboost("CatBoostClassifier", words),
        lambda model, path: model.save_model(str(path)),
        {},
    ),
    "ridge.skops": (lambda: Ridge().fit(X, y), skops.dump, {}),
    "pipeline.skops": (lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(X, words), skops.dump, {}),
    "boosted.skops": (lightgbm, skops.dump, {}),
}


def scores(model, target, settings):
    wrapped = best_known(rue.wrap(model, **settings))
    audit = best_method(wrapped).fit(wrapped, (X, target), **({} if settings else {"refit": False})).audit(X_new)
    return audit.prediction, audit.score


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_the_scores_of_the_live_model(tmp_path, name, few_trees):
    make, write, settings = FILES[name]
    live, path = make(), tmp_path / name
    write(live, path)
    target = words if hasattr(live, "classes_") and len(live.classes_) else y
    for mine, wanted in zip(scores(path, target, settings), scores(live, target, settings), strict=True):
        np.testing.assert_array_equal(mine, wanted) if mine.dtype.kind in "OU" else np.testing.assert_allclose(
            mine, wanted, rtol=1e-5
        )


@pytest.mark.parametrize("name", ["net.safetensors", "net.pt", "net.pth", "net.ckpt"])
def test_weights_alone_take_the_network_that_a_factory_makes(tmp_path, name):
    live, path = make_net(), tmp_path / name
    if path.suffix == ".safetensors":
        safetensors.torch.save_file(live.state_dict(), path)
    else:
        torch.save({"state_dict": live.state_dict(), "epoch": 3} if path.suffix == ".ckpt" else live.state_dict(), path)
    found = rue.open_model(path, factory=lambda: torch.nn.Sequential(*make_net()).float().train())
    assert not found.training
    assert torch.equal(found(torch.tensor(X)), live(torch.tensor(X)))  # in the precision of the file


def test_weights_of_another_network_are_refused_by_name(tmp_path):
    safetensors.torch.save_file({"0.weight": torch.zeros(4, 2), "more": torch.zeros(1)}, tmp_path / "a.safetensors")
    with pytest.raises(ModelError, match=r"lacks 0\.bias.*beside it more.*other shapes 0\.weight"):
        rue.open_model(tmp_path / "a.safetensors", factory=make_net)
    with pytest.raises(ModelError, match=r"factory="):
        rue.open_model(tmp_path / "a.safetensors")
    with pytest.raises(ModelError, match=r"expected a torch\.nn\.Module"):
        rue.open_model(tmp_path / "a.safetensors", factory=dict)
    with pytest.raises(ModelError, match="leave it out"):
        rue.open_model(tmp_path / "a.skops", factory=make_net)


class Runs:
    """What unpickling this does: it calls `touch`."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def hostile(marker):
    """Contents that run code where somebody unpickles them, by a name for the test."""
    plain = pickle.dumps(Runs(marker))
    as_torch = io.BytesIO()
    torch.save(Runs(marker), as_torch)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        for name in ("schema.json", "data.pkl", "net/data.pkl", "net/byteorder"):
            archive.writestr(name, plain)
    objects = io.BytesIO()
    np.save(objects, np.array([Runs(marker)], dtype=object), allow_pickle=True)
    cat = b"CBM1" + plain
    text = b'{"learner": ' + plain
    return {
        "plain": plain,
        "torch": as_torch.getvalue(),
        "zipped": zipped.getvalue(),
        "array": objects.getvalue(),
        "cat": cat,
        "text": text,
    }


@pytest.mark.parametrize("ending", READERS)
@pytest.mark.parametrize("factory", [None, make_net])
def test_a_pickle_under_any_name_is_refused_and_not_run(tmp_path, ending, factory):
    marker = tmp_path / "ran"
    for kind, content in hostile(marker).items():
        path = tmp_path / f"{kind}{ending}"
        path.write_bytes(content)
        with pytest.raises(ModelError):
            rue.wrap(rue.open_model(path, factory=factory), loss="squared_error", l2=1.0)
        assert not marker.exists(), kind


def test_a_pickle_inside_a_skops_file_is_not_run(tmp_path):
    marker = tmp_path / "ran"
    content = skops.dumps(Ridge().fit(X, y))
    objects = io.BytesIO()
    np.save(objects, np.array([Runs(marker)], dtype=object), allow_pickle=True)
    bent = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(bent, "w") as new:
        for name in old.namelist():
            new.writestr(name, objects.getvalue() if name.endswith(".npy") else old.read(name))
    (tmp_path / "a.skops").write_bytes(bent.getvalue())
    with pytest.raises(ModelError, match="cannot be read as a model"):
        rue.open_model(tmp_path / "a.skops", trust_code=True)
    assert not marker.exists()


def test_types_that_are_not_known_are_listed_and_read_only_if_trusted(tmp_path):
    path = tmp_path / "a.skops"
    skops.dump(make_pipeline(FunctionTransformer(json.dumps), Ridge()), path)
    with pytest.raises(ModelError, match=r"made of json\.dumps, which rue does not know.*--trust-code"):
        rue.open_model(path)
    assert rue.open_model(path, trust_code=True).steps[0][1].func is json.dumps


def test_what_runs_code_is_read_if_it_is_trusted(tmp_path):
    import joblib

    fitted = Ridge().fit(X, y)
    joblib.dump(fitted, tmp_path / "a.joblib")
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(fitted))
    torch.save(torch.nn.Linear(3, 1), tmp_path / "a.pt")
    for name in ("a.joblib", "a.pkl", "a.pt"):
        with pytest.raises(ModelError, match=r"runs whatever code is inside.*trust_code=True"):
            rue.wrap(tmp_path / name)
    assert rue.open_model(tmp_path / "a.joblib", trust_code=True).coef_.tolist() == fitted.coef_.tolist()
    assert rue.open_model(tmp_path / "a.pkl", trust_code=True).coef_.tolist() == fitted.coef_.tolist()
    assert isinstance(rue.open_model(str(tmp_path / "a.pt"), trust_code=True), torch.nn.Linear)
    with pytest.raises(ModelError, match="is no file"):
        rue.open_model(tmp_path / "none.pkl", trust_code=True)


def test_torchscript_is_named(tmp_path):
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        scripted = torch.jit.trace(torch.nn.Linear(3, 1), torch.zeros(2, 3))
    scripted.save(tmp_path / "a.pt")
    with pytest.raises(ModelError, match="TorchScript"):
        rue.open_model(tmp_path / "a.pt", factory=make_net)


def test_names_that_scikit_learn_merely_imports_are_not_known(tmp_path):
    from pathlib import Path as Imported

    path = tmp_path / "a.skops"
    skops.dump(make_pipeline(FunctionTransformer(np.abs), Ridge()).set_params(functiontransformer__func=Imported), path)
    bent = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(bent, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(b'"pathlib"', b'"sklearn.datasets._base"'))
    path.write_bytes(bent.getvalue())
    with pytest.raises(ModelError, match=r"sklearn\.datasets\._base\.Path"):
        rue.open_model(path)


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.skops", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b"{" + b" " * 2**24)
    with pytest.raises(ModelError, match="unpacks from"):
        rue.open_model(tmp_path / "a.skops")


def test_json_that_would_end_catboost_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"trees": ' + "[" * 200_000 + "]" * 200_000 + "}")
    with pytest.raises(ModelError):
        rue.open_model(tmp_path / "a.json")


def test_a_factory_that_fails_is_named_and_the_file_is_not_blamed(tmp_path):
    def leaves():
        raise SystemExit(3)

    safetensors.torch.save_file(make_net().state_dict(), tmp_path / "a.safetensors")
    for factory in (leaves, lambda needed: needed):
        with pytest.raises(ModelError, match="the factory failed"):
            rue.open_model(tmp_path / "a.safetensors", factory=factory)
    torch.save(torch.nn.Linear(3, 1), tmp_path / "a.pt")
    with pytest.raises(ModelError, match=r"more than tensors.*state_dict"):
        rue.open_model(tmp_path / "a.pt", factory=make_net)


def test_a_wrapped_model_stays_what_it_is():
    model = rue.wrap(Ridge().fit(X, y))
    assert rue.wrap(model) is model
    assert rue.audit(model, train=(X, y), inputs=X_new).score.shape == (7,)
    with pytest.raises(SettingError, match="wrapped already"):
        rue.wrap(model, l2=1.0)
