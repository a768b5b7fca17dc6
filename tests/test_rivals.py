"""The benchmark of rivals: what is read off its timings, its lines, and its table."""

import json
import time

import pytest
import rivals
import tables
import torch
from rival_libraries import RIVALS, Fitted, Rival, Rows, in_batches, only_layers
from rivals import FEW, Timing, at_most, first_sentence, line, prepared, read_off
from scale import Case, Residual, pictures
from torch import nn


def tiny() -> nn.Module:
    return nn.Sequential(Residual(3, 4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))


@pytest.fixture
def work(monkeypatch):
    monkeypatch.setitem(rivals.CASES, "tiny", Case(tiny, pictures(10), 400, 8))
    return prepared(rivals.CASES["tiny"], 80)


def a_rival(monkeypatch, fit):
    monkeypatch.setitem(RIVALS, "laplace-kron", Rival("nothing", fit))


@pytest.mark.parametrize(
    ("few", "many", "expected"),
    [
        ((10, 2.0), (40, 5.0), 1 + 0.1 * 1000),  # a second to begin with, a tenth for each row
        ((10, 1.0), (40, 8.0), 8 / 40 * 1000),  # a line that begins below zero: in proportion
        ((10, 3.0), (40, 2.0), 2.0),  # more rows took less: nothing is known to grow
    ],
)
def test_seconds_are_those_of_the_line_through_two_timings(few, many, expected):
    assert read_off(1000, Timing(*few), Timing(*many)) == pytest.approx(expected)


def test_what_does_not_grow_with_the_rows_is_counted_once(monkeypatch, work):
    a_rival(monkeypatch, lambda *_: Fitted(len, 7, 5.0, 3.0))
    found = line("tiny", "laplace-kron", work, 60, 0.0)
    assert found["fit_epochs"] == pytest.approx((3 + 2 * 400 / 80) / found["epoch_s"])
    assert (found["parameters"], found["fit_rows"], found["rows"], found["extrapolated"]) == (7, 80, 400, True)


def test_an_audit_grows_until_it_takes_long_or_rows_end(monkeypatch, work):
    audited = []
    a_rival(monkeypatch, lambda *_: Fitted(lambda X: audited.append(len(X)), 7, 5.0))
    assert line("tiny", "laplace-kron", work, 60, 10.0)["audit_rows"] == 80
    assert audited[-4:] == [FEW, FEW, 4 * FEW, 80]


def test_a_rival_that_fails_or_takes_too_long_is_a_line_that_says_so(monkeypatch, work):
    def fails(network, X, y, batch):
        raise NotImplementedError("No norms. Nor anything else.")

    a_rival(monkeypatch, fails)
    assert line("tiny", "laplace-kron", work, 60, 0.0)["error"] == "NotImplementedError: No norms."
    with pytest.raises(TimeoutError, match="not finished in 1 s"), at_most(1):
        time.sleep(5)
    assert first_sentence(ValueError("a\n  b")) == "ValueError: a b"


def test_only_weights_of_layers_stay_trained_and_the_network_at_hand_is_not_touched(monkeypatch, work):
    seen = []

    def fit(network, X, y, batch):
        seen.append((only_layers(network), [name for name, p in network.named_parameters() if p.requires_grad]))
        return Fitted(len, 7, 5.0)

    a_rival(monkeypatch, fit)
    line("tiny", "laplace-kron", work, 60, 0.0)
    names, trained = seen[-1]
    assert names == ["0.first", "0.second", "0.short.0", "3"]
    assert trained == ["0.first.weight", "0.second.weight", "0.short.0.weight", "3.weight", "3.bias"]
    assert all(parameter.requires_grad for parameter in work.network.parameters())


def test_frozen_layers_stay_frozen():
    network = nn.Sequential(nn.Linear(2, 2).requires_grad_(False), nn.Linear(2, 2))
    assert only_layers(network) == ["1"]
    assert [p.requires_grad for p in network.parameters()] == [False, False, True, True]


def test_batches_are_all_rows_in_order():
    X, y = torch.arange(10.0)[:, None], torch.arange(10)
    parts = list(in_batches(X, y, 4))
    assert [len(part) for part, _ in parts] == [4, 4, 2]
    assert torch.equal(torch.cat([part for part, _ in parts]), X)
    assert torch.equal(torch.cat([part for _, part in parts]), y)
    assert Rows(X, y)[3] == (X[3], y[3])


def test_the_table_has_our_line_above_theirs_and_says_why_one_failed(monkeypatch, tmp_path):
    (tmp_path / "scale").mkdir()
    shared = {"case": "gpt2", "rows": 10_000, "parameters": 9, "fit_epochs": 0.5, "audit_epochs": 2, "memory_gib": 3}
    rival = {"rival": "kronfluence", "version": "1.0", "computes": "factors", "fit_rows": 500}
    failed = {"case": "gpt2", "rows": 10_000, "error": "ValueError: a | b", **rival}
    texts = {
        "costs": [shared | {"method": "linear"}, shared | {"method": "default"}],
        "rivals": [shared | rival, failed],
    }
    for name, rows in texts.items():
        (tmp_path / f"scale/{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(tables, "DOCS", tmp_path)
    head, _, ours, theirs, error = tables.rivals().splitlines()
    assert {text.count("|") for text in (head, ours, theirs, error)} == {9}
    assert "`LinearRUE`" in ours
    assert "| 500 of 10,000 | 0.5 | 2 | 3 |" in theirs
    assert "ValueError: a   b" in error
