"""One thread for each worker, the seed printed on failure, nothing random between runs, and the job of each file."""

import os
from pathlib import Path

import hypothesis
import pytest
import torch

os.environ["RUE_PROGRESS"] = "0"
torch.set_num_threads(1)
hypothesis.settings.register_profile("rue", deadline=None, max_examples=25, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("rue")

# Files that `make test` leaves to a job of their own; the others are unit tests and laws, but for single tests marked
# with a job.
JOBS = {
    "docs": ("test_docs.py", "test_examples.py", "test_demo.py"),
    "report": ("test_cli.py", "test_report.py", "test_report_browser.py", "test_report_cli.py", "test_report_page.py"),
    "paper": (
        "paper/test_beyond.py",
        "paper/test_claim1.py",
        "paper/test_coverage.py",
        "paper/test_figure1.py",
        "paper/test_reproduction.py",
        "paper/test_results.py",
        "paper/test_shift.py",
        "test_datasets.py",
        "test_faithful.py",
        "test_practice.py",
        "test_rivals.py",
    ),
    "engines": (
        "engines/test_shared_by_engines.py",
        "engines/test_batches_by_engines.py",
        "engines/test_arrow_batches.py",
    ),
    "training": (
        "laws/test_integrated_laws.py",
        "test_attacks.py",
        "test_trials.py",
        "test_deep_ensemble.py",
        "test_ecosystem.py",
        "test_estimator_audits.py",
        "test_folds.py",
        "test_mc_dropout.py",
        "test_mlflow.py",
        "test_model_files.py",
        "test_outside.py",
        "test_pbp.py",
        "test_polars.py",
        "test_recipes.py",
        "test_refit_bootstrap.py",
        "test_skorch.py",
        "test_tokens.py",
        "test_training.py",
        "test_transformers.py",
        "test_variable_length.py",
        "test_wrappers.py",
    ),
}
JOB_OF = {Path(__file__).parent / name: job for job, names in JOBS.items() for name in names}


@pytest.fixture
def few_trees(monkeypatch):
    """A tenth of the error model's trees, for laws that hold with any number of them: trees take most of a fit."""
    monkeypatch.setattr("rue.calibrate.error_model.TREES", 30)


def pytest_ignore_collect(collection_path, config):
    """Do not even import the files of a job that is not wanted."""
    return True if f"not {JOB_OF.get(collection_path)}" in config.option.markexpr else None


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path in JOB_OF:
            item.add_marker(JOB_OF[item.path])
