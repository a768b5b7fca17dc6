"""One auditor in many threads gives the same bits, and what belongs to the whole process is as it was."""

import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from torch import nn

import rue
from rue.core.derivatives import pushed
from rue.core.process import Sides, filters_kept, ignoring
from snapshot import changed, world_picture

THREADS = 8
draw = np.random.default_rng(0)
X = draw.normal(size=(40, 6)).astype(np.float32)
y = (X[:, 0] - X[:, 1] ** 2).astype(np.float32)
X_new = draw.normal(size=(9, 6)).astype(np.float32)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.first, self.last = nn.Linear(1, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.last(self.encoder(self.first(x[:, :, None])).mean(1))[:, 0]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.last = nn.GRU(1, 3, batch_first=True), nn.Linear(3, 1)

    def forward(self, x):
        return self.last(self.cells(x[:, :, None])[0][:, -1])[:, 0]


def network(make, **settings):
    torch.manual_seed(0)
    return rue.LinearRUE(**settings).fit(rue.wrap(make().eval(), loss="squared_error", l2=1.0), (X, y))


def layers():
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1), nn.Flatten(0))


AUDITORS = {
    "attention": lambda: network(Attention),
    "recurrent": lambda: network(Recurrent),
    "layers": lambda: network(layers),
    "projected": lambda: network(layers, solver=rue.solve.Projection(size=8)),
    "linear": lambda: rue.CalibratedRUE().fit(rue.wrap(Ridge().fit(X, y)), (X, y)),
    "boosted": lambda: rue.CalibratedRUE().fit(
        rue.wrap(HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5).fit(X, y)), (X, y), refit=False
    ),
    "forest": lambda: rue.ForestRUE().fit(rue.wrap(RandomForestRegressor(20, random_state=0).fit(X, y)), (X, y)),
}


@pytest.fixture(scope="module")
def auditors(request):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rue.calibrate.error_model.TREES", 20)
        return {name: make() for name, make in AUDITORS.items()}


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_threads_that_share_auditors_all_get_the_same_bits(auditors):
    alone = {name: auditor.audit(X_new) for name, auditor in auditors.items()}
    before = world_picture()
    jobs = [name for _ in range(10) for name in AUDITORS]
    with ThreadPoolExecutor(THREADS) as pool:
        for name, audit in zip(jobs, pool.map(lambda name: auditors[name].audit(X_new), jobs), strict=True):
            for part in ("prediction", "score", "std"):
                np.testing.assert_array_equal(getattr(audit, part), getattr(alone[name], part), err_msg=name)
    assert changed(before, world_picture()) == []


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
@pytest.mark.parametrize("name", AUDITORS)
def test_auditors_and_audits_go_to_other_processes_of_joblib_dask_and_spark(auditors, name):
    cloudpickle = pytest.importorskip("cloudpickle")  # which all of these use
    audit = auditors[name].audit(X_new)
    again = cloudpickle.loads(cloudpickle.dumps(auditors[name])).audit(X_new)
    np.testing.assert_array_equal(again.score, audit.score)
    np.testing.assert_array_equal(cloudpickle.loads(cloudpickle.dumps(audit)).score, audit.score)


def test_threads_on_one_side_share_a_change_that_the_last_of_them_takes_back():
    sides, log, inside = Sides(), [], threading.Barrier(4, timeout=10)

    @contextmanager
    def change():
        log.append("made")
        yield
        log.append("undone")

    def work():
        with sides.on("one", change):
            inside.wait()  # returns only if all four are inside at once
            assert log == ["made"]

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work) for _ in range(4)]:
            done.result()
    assert log == ["made", "undone"]


def test_threads_on_different_sides_are_never_inside_together():
    sides, inside, seen = Sides(), [], []

    @contextmanager
    def change(side):
        assert inside == []
        yield
        assert inside == []

    def work(side):
        for _ in range(50):
            with sides.on(side, lambda: change(side)):
                inside.append(side)
                seen.append(len(set(inside)))
                inside.remove(side)

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(work, side) for side in "abcabcab"]:
            done.result()
    assert set(seen) == {1}


def test_a_side_is_left_when_its_change_or_its_work_fails():
    sides = Sides()

    def refuse():
        raise OSError

    with pytest.raises(OSError), sides.on("one", refuse):  # noqa: PT011  any would do
        pass
    with pytest.raises(KeyError), sides.on("one", threading.Lock):
        raise KeyError
    with sides.on("other", threading.Lock):
        assert sides.count == 1


class Slow(nn.Linear):
    """Gives way to other threads in the middle of a forward pass, and counts these passes."""

    passes: list[int] = []  # noqa: RUF012  shared by the copies for each thread

    def forward(self, x):
        self.passes.append(1)
        time.sleep(0.01)
        return super().forward(x)


def test_threads_that_differentiate_forwards_at_once_all_can():
    core = rue.wrap(Slow(6, 1), loss="squared_error", l2=1.0).core
    rows, directions = torch.from_numpy(X_new), torch.eye(7)
    alone = pushed(core, rows, directions)
    Slow.passes.clear()
    with ThreadPoolExecutor(4) as pool:
        for together in pool.map(lambda _: pushed(core, rows, directions), range(12)):
            torch.testing.assert_close(together, alone, rtol=0, atol=0)
    assert len(Slow.passes) == 12  # the slower way, by backward derivatives, would take one more each


def test_threads_that_ignore_warnings_do_not_wait_for_each_other():
    inside = threading.Barrier(4, timeout=10)

    def work():
        with ignoring("slow"):
            inside.wait()  # returns only if all four are inside at once

    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work) for _ in range(4)]:
            done.result()
    assert warnings.filters == before


@pytest.mark.parametrize("first_out", ["ours", "theirs"])
def test_warnings_are_heard_again_whichever_thread_leaves_its_block_first(first_out):
    """`warnings.catch_warnings` of another thread puts a whole list back, which may have our filters in it."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ours, theirs = ignoring("slow"), warnings.catch_warnings()
        ours.__enter__()
        theirs.__enter__()
        for block in (ours, theirs) if first_out == "ours" else (theirs, ours):
            block.__exit__(None, None, None)
        warnings.warn("slow", UserWarning, stacklevel=1)
    assert len(seen) == 1


def test_filters_of_warnings_are_put_back_where_threads_left_those_of_each_other():
    before, steps = list(warnings.filters), [threading.Event() for _ in range(3)]

    def first():
        with filters_kept(), warnings.catch_warnings():
            warnings.simplefilter("error", BytesWarning)
            steps[0].set()
            steps[1].wait(10)
        steps[2].set()

    def second():
        steps[0].wait(10)
        with filters_kept(), warnings.catch_warnings():  # finds the filters of the first, and puts them back
            steps[1].set()
            steps[2].wait(10)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(first), pool.submit(second)]:
            done.result()
    assert warnings.filters == before


def test_filters_of_warnings_that_a_thread_sets_alone_stay():
    with warnings.catch_warnings():
        with filters_kept(), filters_kept():  # a library may set its own when it is first imported
            warnings.simplefilter("error", BytesWarning)
        assert warnings.filters[0][2] is BytesWarning


def test_only_the_warnings_that_are_named_are_ignored():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with ignoring("slow", "odd"):
            for text in ("slow but right", "odd", "wrong"):
                warnings.warn(text, UserWarning, stacklevel=1)
        with ignoring(category=rue.errors.RueWarning):
            warnings.warn("an audit's", rue.errors.RueWarning, stacklevel=1)
            warnings.warn("another", UserWarning, stacklevel=1)
        warnings.warn("slow again", UserWarning, stacklevel=1)
    assert [str(warning.message) for warning in seen] == ["wrong", "another", "slow again"]
