"""The demo and the command line, as a newcomer meets them."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from rue import evaluate, plots
from rue.cli import app, demo, demo_report, paper_network
from rue.methods import METHODS


def test_the_demo_prints_what_a_clinician_reads_and_draws_its_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(paper_network, "EPOCHS", 5)
    monkeypatch.setattr(demo, "FOLDS", 2)
    for where in (demo, demo_report):
        monkeypatch.setattr(where, "train", lambda net, X, y, seed: paper_network.train(net, X, y, seed, epochs=5))
    monkeypatch.setenv("COLUMNS", "100")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for words in (
        "least and the most reliable",
        "would change by about",
        "90 % interval",
        "10 % deferred",
        "20 % deferred",
        "AUC",
    ):
        assert words in result.output
    assert all(name in result.output for name in METHODS)
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "auc_against_tolerance.png",
        "error_after_deferral.png",
        "spread_and_error.png",
    }
    assert str((tmp_path / "report.html").resolve()) in result.output.replace("\n", "")
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["title"] == demo_report.TITLE
    assert document["predictions"]["count"] == 88
    assert demo_report.TITLE in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_the_readme_tells_what_the_demo_finds():
    held_out = demo.cross_audit(0, Console(file=io.StringIO()))
    readme = " ".join((Path(__file__).parent.parent / "README.md").read_text().split())
    assert f"{demo.resampling_share(held_out):.0%}" == "5%"
    assert "accounts for 5 % of the expected error variance" in readme
    for name, told in (("LinearRUE", 0.5), ("CalibratedRUE", 0.63), ("Error model", 0.63)):
        assert abs(evaluate.mean_auc(held_out.score[name], held_out.error) - told) < 0.015
        assert f"{told:g}" in readme
    assert 0.88 < evaluate.coverage(held_out.target, held_out.lower, held_out.upper).value < 0.95


def test_training_lowers_the_papers_objective():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(100, 3, generator=generator)
    y = X[:, 0].sin()
    net = paper_network.paper_network(3, seed=0)

    def objective():
        with torch.no_grad():
            penalty = sum(p.square().sum() for p in net.parameters())
            return float(0.5 * (y - net(X)[:, 0]).square().sum() + 0.5 * paper_network.ALPHA * penalty)

    before = objective()
    paper_network.train(net, X, y, seed=0, epochs=150)
    assert objective() < 0.6 * before
    assert sum(p.numel() for p in paper_network.paper_network(8, seed=0).parameters()) == 501


def test_the_same_seed_trains_the_same_network():
    X, y = torch.randn(40, 2, generator=torch.Generator().manual_seed(1)), torch.zeros(40)
    nets = [paper_network.paper_network(2, seed=3) for _ in range(2)]
    for net in nets:
        paper_network.train(net, X, y, seed=3, epochs=3)
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))


def test_figures_show_every_score_by_name():
    rng = np.random.default_rng(0)
    scores, error = {name: rng.random(50) for name in METHODS}, rng.normal(size=50)
    for figure in (plots.auc_against_tolerance(scores, error), plots.error_after_deferral(scores, np.abs(error))):
        labels = {text.get_text() for text in figure.axes[0].get_legend().get_texts()}
        assert set(METHODS) <= labels
        assert figure.axes[0].get_xlabel()
        assert figure.axes[0].get_ylabel()


def test_the_version_is_printed():
    import rue

    assert CliRunner().invoke(app, ["version"]).output.strip() == rue.__version__
