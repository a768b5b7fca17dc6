"""Long fits survive: what was computed of the training rows is kept on the disk, and gives the same bits."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import rue
from rue.core.errors import SettingError, WriteError
from rue.models.torch import layer_sketch

QUICK, SLOW = 1, 10  # kills
JOB = """
import sys, warnings
import numpy as np
sys.path.insert(0, {tests!r})
warnings.simplefilter("ignore")
import rue
from test_checkpoint import fitted
print("ready", flush=True)
with rue.checkpoint({folder!r}):
    np.save({out!r}, fitted(1200))
print("done", flush=True)
"""
pytestmark = pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")


def problem(n):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).eval()
    return net, torch.randn(n, 1, 8, 8), torch.randint(0, 10, (n,))


def fitted(n, size=300, seed=0):
    net, X, y = problem(n)
    model = rue.wrap(net, loss=nn.CrossEntropyLoss(), l2=0.1)
    return rue.LinearRUE(solver=rue.solve.Sketch(size, seed)).fit(model, (X, y)).audit(X[:20]).std


def stopped(folder):
    """A fit whose parts were all kept, and which then failed."""
    with suppress(RuntimeError), rue.checkpoint(folder):
        fitted(100)
        raise RuntimeError


@pytest.fixture
def read(monkeypatch):
    """Counts the rows whose coordinates are computed; raises after `stop` calls."""
    rows, real = [], layer_sketch.LayerSketch.jacobian

    def counted(self, inputs, followed=None):
        if counted.stop is not None and len(rows) >= counted.stop:
            raise KeyboardInterrupt
        rows.append(len(inputs))
        return real(self, inputs, followed)

    counted.stop, counted.rows = None, rows
    monkeypatch.setattr(layer_sketch.LayerSketch, "jacobian", counted)
    monkeypatch.setattr("rue.core.chunks.CHUNK_BYTES", 2**20)  # small parts
    return counted


def test_a_fit_goes_on_where_it_was_interrupted_and_gives_the_same_bits(tmp_path, read):
    whole = fitted(400)
    every = len(read.rows)
    read.rows.clear()
    read.stop = 4
    with pytest.raises(KeyboardInterrupt) as caught, rue.checkpoint(tmp_path):
        fitted(400)
    assert "4 parts of the training rows are kept" in caught.value.__notes__[0]
    assert "run the same lines again" in caught.value.__notes__[0]
    read.rows.clear()
    read.stop = None
    with rue.checkpoint(tmp_path):
        np.testing.assert_array_equal(fitted(400), whole)
    assert len(read.rows) == every - 4
    assert list(tmp_path.iterdir()) == []  # nothing is left once it is done


@pytest.mark.parametrize("other", [{"seed": 1}, {"size": 310}])
def test_what_was_kept_of_another_sketch_is_not_taken(tmp_path, read, other):
    wanted = fitted(100, **other)
    stopped(tmp_path)
    read.rows.clear()
    with rue.checkpoint(tmp_path):
        np.testing.assert_array_equal(fitted(100, **other), wanted)
    assert sum(read.rows) >= 100


def test_a_fit_that_is_done_leaves_the_parts_of_others(tmp_path, read):
    stopped(tmp_path)
    kept = {path.name for path in tmp_path.rglob("*.npy")}
    with rue.checkpoint(tmp_path):
        fitted(100, seed=1)
    assert {path.name for path in tmp_path.rglob("*.npy")} == kept
    read.rows.clear()
    with rue.checkpoint(tmp_path):
        fitted(100)
    assert sum(read.rows) < 100  # only those audited, and a few that tell the number of outputs
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_part_is_computed_again(tmp_path, read):
    wanted = fitted(100)
    stopped(tmp_path)
    for path in sorted(tmp_path.rglob("*.npy"))[:2]:
        path.write_bytes(path.read_bytes()[:100])
    with rue.checkpoint(tmp_path):
        np.testing.assert_array_equal(fitted(100), wanted)


def test_a_part_with_other_bytes_is_computed_again(tmp_path, read):
    wanted = fitted(100)
    stopped(tmp_path)
    for path in tmp_path.rglob("*.npy"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x41
        path.write_bytes(content)
    with rue.checkpoint(tmp_path):
        np.testing.assert_array_equal(fitted(100), wanted)


def test_what_another_forward_pass_gave_is_not_taken(tmp_path, monkeypatch):
    stopped(tmp_path)
    monkeypatch.setattr(nn.SiLU, "forward", lambda _, x: x.tanh())
    wanted = fitted(100)
    with rue.checkpoint(tmp_path):
        np.testing.assert_array_equal(fitted(100), wanted)


def tanh_of_large(_, x):
    return torch.where(x.amax((1, 2, 3), keepdim=True) > 3, x.tanh(), functional.silu(x))


def test_a_forward_pass_that_changed_for_some_rows_alone_is_noticed(tmp_path, monkeypatch):
    stopped(tmp_path)
    monkeypatch.setattr(nn.SiLU, "forward", tanh_of_large)
    wanted = fitted(100)
    with rue.checkpoint(tmp_path):
        np.testing.assert_array_equal(fitted(100), wanted)


def test_an_interruption_before_anything_is_kept_does_not_say_how_to_go_on(tmp_path):
    with pytest.raises(KeyboardInterrupt) as stop, rue.checkpoint(tmp_path):
        raise KeyboardInterrupt
    assert not getattr(stop.value, "__notes__", [])


def test_rows_that_do_not_fit_in_memory_are_read_from_the_disk(tmp_path, read, monkeypatch):
    wanted = fitted(200)
    monkeypatch.setattr("rue.core.memory._Store._fits", lambda *_: False)
    read.rows.clear()
    with rue.checkpoint(tmp_path):
        np.testing.assert_array_equal(fitted(200), wanted)
    assert sum(rows for rows in read.rows if rows > 3) == 200 + 20  # each training row once, and those audited


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="no folder"), rue.checkpoint(tmp_path / "file"):
        pass
    with pytest.raises(SettingError, match="path"), rue.checkpoint(3):
        pass


@pytest.mark.parametrize("kills", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_a_fit_that_was_killed_ends_in_the_same_bits(tmp_path, kills):
    out, draw = tmp_path / "std.npy", random.Random(0)
    code = JOB.format(tests=str(Path(__file__).parent), folder=str(tmp_path / "kept"), out=str(out))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    hits = 0
    while hits < kills:
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as job:
            job.stdout.readline()
            time.sleep(draw.uniform(0.1, 0.9))
            hits += job.poll() is None
            job.send_signal(signal.SIGKILL)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    torch.set_num_threads(1)
    np.testing.assert_array_equal(np.load(out), fitted(1200))
