"""A stored audit of Arrow record batches says what the audit of the same rows says."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import pickle_cases as cases
import rue
from rue.core.errors import DataError, ModelError, SettingError

pa = pytest.importorskip("pyarrow", reason="needs the environment that `make test-engines` makes")
pytestmark = pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
X, y, X_new = cases.X, cases.y, cases.X_new
NAMES = ["a", "b", "c", "d"]


def net():
    return rue.wrap(cases.net(), loss="squared_error", l2=0.5)


@pytest.fixture
def path(tmp_path):
    rue.CalibratedRUE().fit(net(), (X, y)).save(tmp_path / "a.rue")
    return tmp_path / "a.rue"


def rows(**more):
    return pa.RecordBatch.from_pydict({**more, **{name: X_new[:, j] for j, name in enumerate(NAMES)}})


def test_a_batch_a_table_and_many_batches_give_the_numbers_of_the_audit(path):
    audited, wanted = rue.batches(path, net(), keep=("id",)), rue.load(path, net()).audit(X_new.astype(float))
    batch = rows(id=[f"row {j}" for j in range(7)])
    found = audited(batch)
    assert isinstance(found, pa.RecordBatch)
    assert found.column_names[0] == "id"
    assert found.column("id").to_pylist() == batch.column("id").to_pylist()
    for name in ("prediction", "score", "std", "total_std"):
        np.testing.assert_array_equal(found.column(name).to_numpy(), getattr(wanted, name))
    low, high, _ = wanted.interval(0.9)
    np.testing.assert_array_equal(found.column("lower").to_numpy(), low)
    np.testing.assert_array_equal(found.column("upper").to_numpy(), high)
    assert "percentile" not in found.column_names
    table = audited(pa.Table.from_batches([batch.slice(0, 3), batch.slice(3)]))
    assert isinstance(table, pa.Table)
    assert table.to_pydict() == found.to_pydict()
    each = audited(iter([batch, batch.slice(0, 0), batch]))
    assert [part.to_pydict() for part in each] == [found.to_pydict()] * 2
    assert audited.schema(batch) == found.schema


def test_it_travels_without_the_audit_and_reads_the_file_once(path, monkeypatch):
    audited = rue.batches(path, net())
    before = audited(rows()).to_pydict()
    sent = pickle.dumps(audited)
    assert len(sent) < 20_000
    again, loads = pickle.loads(sent), []
    real = rue.load
    monkeypatch.setattr("rue.auditing.arrow_batches.load", lambda *given: loads.append(1) or real(*given))
    assert [again(rows()).to_pydict() for _ in range(3)] == [before] * 3
    assert loads == [1]


def test_columns_by_name_labels_and_no_intervals(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    model = rue.wrap(Ridge().fit(frame, y))
    rue.LinearRUE().fit(model, (frame, y)).save(tmp_path / "a.rue")
    batch = pa.RecordBatch.from_pydict({"id": np.arange(7), **{name: X_new[:, NAMES.index(name)] for name in "dcba"}})
    found = rue.batches(tmp_path / "a.rue", model, keep=("id",), level=None)(batch)
    new = pd.DataFrame(X_new, columns=NAMES)
    np.testing.assert_array_equal(
        found.column("score").to_numpy(), rue.load(tmp_path / "a.rue", model).audit(new).score
    )
    assert "lower" not in found.column_names
    classifier = rue.wrap(LogisticRegression().fit(X, cases.words))
    rue.ClassifierRUE().fit(classifier, (X, cases.words)).save(tmp_path / "b.rue")
    told = rue.batches(tmp_path / "b.rue", classifier)(rows())
    assert set(told.column("prediction").to_pylist()) <= set(cases.words)
    assert sum(name.startswith("probability") for name in told.column_names) == 3


def test_mistakes_are_named(path):
    with pytest.raises(ModelError, match=r"rue\.wrap"):
        rue.batches(path, cases.net())
    with pytest.raises(SettingError, match="keep"):
        rue.batches(path, net(), keep="id")
    with pytest.raises(SettingError, match="level"):
        rue.batches(path, net(), level=95)
    audited = rue.batches(path, net())
    with pytest.raises(DataError, match="keep="):
        audited(rows(id=list("abcdefg")))
    with pytest.raises(DataError, match="expected a pyarrow"):
        audited(3)
    with pytest.raises(DataError, match="keep names"):
        rue.batches(path, net(), keep=("nobody",))(rows())
    with pytest.raises(DataError, match="cannot be read"):
        rue.batches("nowhere.rue", net())(rows())
