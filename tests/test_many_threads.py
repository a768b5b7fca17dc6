"""Many audits in many threads at once: the same bits as in one, and nothing of the process is changed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import rue
from snapshot import changed, world_picture

THREADS, AUDITS = 8, 200
draw = np.random.default_rng(0)
X = draw.normal(size=(60, 6)).astype(np.float32)
y = (X[:, 0] - X[:, 1] ** 2 + 0.2 * draw.normal(size=60)).astype(np.float32)
X_new = draw.normal(size=(9, 6)).astype(np.float32)
frame, frame_new = (pd.DataFrame(table, columns=list("abcdef")) for table in (X, X_new))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(1, 4), nn.Linear(4, 1)
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.last(self.encoder(self.first(x[:, :, None])).mean(1))[:, 0]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.last = nn.LSTM(1, 3, batch_first=True), nn.Linear(3, 1)

    def forward(self, x):
        return self.last(self.cells(x[:, :, None])[0][:, -1])[:, 0]


def of_network(module):
    module(torch.from_numpy(X))  # gives running statistics something
    return rue.LinearRUE().fit(rue.wrap(module.eval(), loss="squared_error", l2=1.0), (X, y))


def of_adamw():
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.05)
    for _ in range(50):
        optimizer.zero_grad()
        nn.functional.mse_loss(module(torch.from_numpy(X)), torch.from_numpy(y)).backward()
        optimizer.step()
    model = rue.wrap(module, loss=nn.MSELoss(), optimizer=optimizer)
    return rue.CalibratedRUE().fit(model, (X, y)).calibrate(draw.normal(size=(40, 6)).astype(np.float32), y[:40])


def of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    trained = lightgbm.LGBMRegressor(n_estimators=20, min_child_samples=5, verbose=-1, n_jobs=1).fit(X, y)
    return rue.CalibratedRUE().fit(rue.wrap(trained), (X, y), refit=False)


KINDS = {
    "transformer": lambda: of_network(Transformer()),
    "batch norm": lambda: of_network(
        nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 1), nn.Flatten(0))
    ),
    "LSTM": lambda: of_network(Recurrent()),
    "LightGBM": of_lightgbm,
    "pipeline of a frame": lambda: rue.CalibratedRUE().fit(
        rue.wrap(make_pipeline(StandardScaler(), Ridge()).fit(frame, y)), (frame, y)
    ),
    "AdamW, by default, calibrated": of_adamw,
}


def bits(audit):
    lower, upper, _ = audit.interval()
    parts = (audit.prediction, audit.score, audit.std, audit.total_std, lower, upper)
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_eight_threads_with_two_hundred_audits_each_get_the_bits_of_one(few_trees):
    torch.manual_seed(0)
    auditors = [make() for make in KINDS.values()]
    inputs = [frame_new if name == "pipeline of a frame" else X_new for name in KINDS]
    alone = [bits(auditor.audit(rows)) for auditor, rows in zip(auditors, inputs, strict=True)]
    before, start = world_picture(), threading.Barrier(THREADS)

    def work(thread):
        start.wait()
        order = np.random.default_rng(thread).permutation(np.arange(AUDITS * len(KINDS)) % len(KINDS))
        return [at for at in order if bits(auditors[at].audit(inputs[at])) != alone[at]]

    with ThreadPoolExecutor(THREADS) as pool:
        wrong = [list(KINDS)[at] for thread in pool.map(work, range(THREADS)) for at in thread]
    assert wrong == []
    assert changed(before, world_picture()) == []
