"""Audits in MLflow: logged with the model's own file, read again without code, with report and metrics."""

import pickle

import numpy as np
import pandas as pd
import pytest
import yaml

import cli_folder
import rue
from rue.core.errors import DataError, InputError, ModelError, RueError

mlflow = pytest.importorskip("mlflow")
pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own
NAMES = cli_folder.NAMES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return cli_folder.make(tmp_path_factory.mktemp("mlflow"))


@pytest.fixture
def fitted(folder, few_trees):
    """The auditor of the boosted trees, calibrated, a policy, and rows with their targets."""
    train, new = cli_folder.patients()[:100], cli_folder.patients()[100:200]
    auditor = rue.CalibratedRUE().fit(rue.wrap(folder / "model.txt"), (train[NAMES], train["y"]))
    policy = rue.Policy.by_share(auditor.audit(new[NAMES][:50]), share=0.3)
    return auditor, policy, new[NAMES][50:], new["y"][50:]


@pytest.fixture
def tracked(tmp_path, monkeypatch):
    """Runs kept in a folder, or a file where this release keeps none in folders."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield
    mlflow.set_tracking_uri(before)


def test_a_logged_audit_says_the_same_again_without_a_pickle(folder, fitted, tracked, monkeypatch):
    auditor, policy, new, y = fitted
    with mlflow.start_run() as run:
        logged = rue.mlflow.log_model(auditor, model_file=folder / "model.txt", policy=policy)
        made = rue.mlflow.log_report(auditor, new, y, policy=policy, baselines=False)
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, None)
    again, same_policy = rue.mlflow.load_model(logged.model_uri)
    wanted = auditor.audit(new)
    np.testing.assert_array_equal(again.audit(new).score, wanted.score)
    assert same_policy == policy
    predicted = mlflow.pyfunc.load_model(logged.model_uri).predict(new)
    np.testing.assert_array_equal(predicted["score"], wanted.score)
    assert predicted["tier"].tolist() == policy.decide(wanted).tier.tolist()
    assert predicted.index.tolist() == new.index.tolist()
    kept = mlflow.get_run(run.info.run_id).data.metrics
    low, high, _ = wanted.interval(0.9)
    assert kept["rue.coverage_90"] == pytest.approx(float(((y >= low) & (y <= high)).mean()))
    assert kept["rue.share_accept"] == pytest.approx((predicted["tier"] == "accept").mean())
    page = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/rue/audit.html")
    assert made.verdict.partition(": ")[2][:40] in page


def test_a_network_is_said_in_words(folder, tmp_path, few_trees):
    train = cli_folder.patients()[:100]
    model = rue.wrap(folder / "net.pt2", loss="MSELoss")
    auditor = rue.CalibratedRUE().fit(model, (train[NAMES], train["y"]))
    with pytest.raises(ModelError, match="loss"):
        rue.mlflow.save_model(auditor, tmp_path / "silent", model_file=folder / "net.pt2")
    rue.mlflow.save_model(auditor, tmp_path / "net", model_file=folder / "net.pt2", loss="MSELoss")
    loaded = rue.mlflow.load_model(tmp_path / "net")
    assert loaded.policy is None
    np.testing.assert_array_equal(loaded.auditor.audit(train[NAMES]).score, auditor.audit(train[NAMES]).score)


def test_what_is_no_audit_or_names_other_files_is_refused(folder, fitted, tmp_path):
    auditor, *_ = fitted
    with pytest.raises(ModelError, match="read as data"):
        rue.mlflow.save_model(auditor, tmp_path / "a", model_file="model.pkl")
    with pytest.raises(ModelError):
        rue.mlflow.save_model(auditor, tmp_path / "b", model_file=folder / "net.pt2", loss="MSELoss")
    rue.mlflow.save_model(auditor, tmp_path / "c", model_file=folder / "model.txt")
    said = yaml.safe_load((tmp_path / "c" / "MLmodel").read_text())
    said["flavors"]["rue"]["model"] = str(folder / "model.txt")
    (tmp_path / "c" / "MLmodel").write_text(yaml.safe_dump(said))
    with pytest.raises(DataError, match="outside of it"):
        rue.mlflow.load_model(tmp_path / "c")
    del said["flavors"]["rue"]
    (tmp_path / "c" / "MLmodel").write_text(yaml.safe_dump(said))
    with pytest.raises(InputError, match="no audit of rue"):
        rue.mlflow.load_model(tmp_path / "c")


def test_what_fails_leaves_nothing_and_what_is_there_stays(folder, fitted, tmp_path):
    auditor, policy, new, _ = fitted
    place = tmp_path / "made"
    rue.mlflow.save_model(auditor, place, model_file=folder / "model.txt", policy=policy)
    other = rue.CalibratedRUE().fit(rue.wrap(folder / "model.txt"), (new, cli_folder.patients()["y"][150:200]))
    wrong = [
        {"auditor": auditor, "path": place},
        {"auditor": auditor, "rows": "none"},
        {"auditor": auditor, "model_file": folder / "gone.txt"},
        {"auditor": auditor, "policy": "accept"},
        {"auditor": other, "policy": policy},
        {"auditor": auditor, "loss": object()},
        {"auditor": rue.CalibratedRUE()},
    ]
    for each in wrong:
        with pytest.raises(RueError):
            rue.mlflow.save_model(**{"path": tmp_path / "new", "model_file": folder / "model.txt", **each})
        assert [path.name for path in tmp_path.iterdir()] == ["made"], each
    assert rue.mlflow.load_model(place).policy == policy


def test_ids_go_along_in_production(folder, fitted, tmp_path):
    auditor, _, new, _ = fitted
    rue.mlflow.save_model(auditor, tmp_path / "made", model_file=folder / "model.txt")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "made"))
    found = loaded.predict(new[NAMES[::-1]].assign(patient="P1"))
    np.testing.assert_array_equal(found["score"], auditor.audit(new).score)


def test_a_link_out_of_the_model_is_refused(folder, fitted, tmp_path):
    auditor, *_ = fitted
    rue.mlflow.save_model(auditor, tmp_path / "made", model_file=folder / "model.txt")
    (tmp_path / "made/model/model.txt").unlink()
    (tmp_path / "made/model/model.txt").symlink_to(folder / "model.txt")
    with pytest.raises(DataError, match="outside of it"):
        rue.mlflow.load_model(tmp_path / "made")


def test_metrics_of_classes_and_of_rows_without_targets(fitted):
    auditor, _, new, _ = fitted
    numbers = rue.mlflow.metrics(auditor.audit(new))
    assert set(numbers) == {"rue.rows", "rue.score_mean", "rue.score_median", "rue.score_90", "rue.share_scarce"}
    from sklearn.linear_model import LogisticRegression

    labels = np.where(cli_folder.patients()["y"][:100] > 1, "yes", "no")
    X = cli_folder.patients()[NAMES][:100]
    model = rue.wrap(LogisticRegression().fit(X, labels))
    found = rue.mlflow.metrics(rue.ClassifierRUE().fit(model, (X, labels)).audit(X), labels)
    assert "rue.rmse" not in found
    assert found["rue.log_prob_mean"] < 0
    assert isinstance(pd.Series(found).sum(), float)
