"""Sums shared between workers: the bits of one process, whatever their number; a lost worker is an error."""

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import rue
from rue.core import sums
from rue.core.sums import added, owner, summed
from rue.data.opening import opened, training_rows

SCRIPT = Path(__file__).parent / "shared_fit.py"


@dataclass(frozen=True)
class Pretended:
    """Workers that are this process, one after the other; what they hand round is copied, as through a network."""

    count: int
    seen: list

    def sums(self, part, blocks, nodes):
        self.seen.append([owner(node, len(blocks), self.count) for node in nodes])
        found = {}
        for worker in reversed(range(self.count)):  # in another order than that of the rows
            for node in nodes:
                if owner(node, len(blocks), self.count) == worker:
                    found[node] = tuple(each.clone() for each in added(part, blocks, node))
        return [found[node] for node in nodes]


@dataclass(frozen=True)
class Numbers:
    """A training set of numbers, one for each block."""

    values: tuple[float, ...]

    def blocks(self, most):
        size = -(-len(self.values) // most)
        return [self.values[at : at + size] for at in range(0, len(self.values), size)]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=150), st.integers(1, 70))
def test_a_sum_has_the_same_bits_for_any_number_of_workers(values, count):
    data = Numbers(tuple(values))

    def part(block):
        return torch.tensor(block, dtype=torch.float64).sum(), torch.tensor([len(block)])

    alone = summed(data, part, 1)
    seen = []
    with rue.workers(Pretended(count, seen)):
        together = summed(data, part, 1)
    assert float(alone[0]) == float(together[0])
    assert float(alone[0]) == pytest.approx(sum(values), abs=1e-3)
    assert int(alone[1]) == int(together[1]) == len(values)
    for owners in seen:
        assert owners == sorted(owners)


def test_the_blocks_of_a_sum_do_not_depend_on_who_adds_them_up(monkeypatch):
    monkeypatch.setattr(sums, "BYTES", 8 * 1000 * 5)
    assert len(Numbers(tuple(range(100))).blocks(5)) == 5
    found = summed(Numbers(tuple(range(100))), lambda block: (torch.tensor(float(len(block))),), 1000)
    assert float(found[0]) == 100


def fitted(seed=0, n=9000):
    source = np.random.default_rng(seed)
    X = source.normal(size=(n, 3)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * source.normal(size=n).astype(np.float32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1)), torch.from_numpy(X), torch.from_numpy(y)


def test_blocks_are_whole_batches_and_together_all_rows():
    net, X, y = fitted(n=30_000)
    rows, _ = training_rows((X, y), rue.wrap(net, loss="squared_error"))
    for most in (1, 3, 64):
        blocks = rows.blocks(most)
        assert len(blocks) <= most
        read = [batch for block in blocks for batch in block.batches()]
        assert [batch.rows.start for batch in read] == [batch.rows.start for batch in rows.batches()]
        torch.testing.assert_close(torch.cat([batch.inputs for batch in read]), X)
        assert all(block.whole is rows and block.blocks(5) == (block,) for block in blocks)


@pytest.mark.parametrize("method", [rue.LinearRUE(), rue.LinearRUE(meat="HC3"), rue.CalibratedRUE()])
def test_an_audit_by_several_workers_has_the_bits_of_one(method, few_trees, monkeypatch):
    monkeypatch.setattr("rue.data.opening.BATCH_ROWS", 512)
    monkeypatch.setattr("rue.data.rows.SAMPLE", 600)
    net, X, y = fitted()
    model, new, seen = rue.wrap(net, loss="squared_error", l2=1.0), X[:50] + 0.1, []
    alone = method.fit(model, (X, y)).audit(new)
    with rue.workers(Pretended(3, seen)):
        together = method.fit(model, (X, y)).audit(new)
    np.testing.assert_array_equal(alone.std, together.std)
    np.testing.assert_array_equal(alone.score, together.score)
    assert len(seen) >= 3
    assert all(set(owners) == {0, 1, 2} for owners in seen)


def test_rows_are_sent_without_their_values_and_opened_again():
    net, X, y = fitted(n=9000)
    rows, _ = training_rows((X, y), rue.wrap(net, loss="squared_error"))
    sent = rows.elsewhere()
    with pytest.raises(rue.errors.DataError, match="very same rows"):
        next(sent.batches())
    again = opened(sent, (X, y))
    torch.testing.assert_close(next(again.batches()).inputs, next(rows.batches()).inputs)
    with pytest.raises(rue.errors.DataError, match="8999"):
        opened(sent, (X[:-1], y[:-1]))


def environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": "1", "RUE_PROGRESS": "0", **more}


def test_two_processes_of_torchrun_give_the_bits_of_one(tmp_path):
    for workers in (1, 2):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
        words = [*torchrun, str(SCRIPT), str(tmp_path / f"by-{workers}.npz")]
        run = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=240)
        assert run.returncode == 0, run.stdout + run.stderr
    one, two = (np.load(tmp_path / f"by-{workers}.npz") for workers in (1, 2))
    assert set(one) == {"std", "score", "class_score"}
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_lost_worker_ends_the_others_with_an_error_that_says_so(how, tmp_path):
    """Without torchrun, which would end the others itself; a stopped one is noticed by the group's own timeout."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    begun = time.monotonic()
    first, second = (
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path / "found.npz"), how],
            env=environment(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT=port),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    )
    said = first.communicate(timeout=120)[0]
    second.kill()
    second.communicate()
    assert first.returncode == 1
    assert "WorkerLostError: worker 0 of 2 lost another" in said
    assert time.monotonic() - begun < 60
    assert not (tmp_path / "found.npz").exists()


def test_without_a_group_of_processes_workers_say_what_to_start():
    with pytest.raises(rue.errors.SettingError, match="torchrun"), rue.workers():
        pass
