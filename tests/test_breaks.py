"""Every deliberate break of the mathematics turns a test red."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from breaks import BREAKS

ROOT = Path(__file__).parent.parent


def run_tests(sources: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests against another copy of the package."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", tests]
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def sources(tmp_path) -> Path:
    shutil.copytree(ROOT / "src" / "rue", tmp_path / "rue", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_every_break_finds_its_line_exactly_once():
    for broken in BREAKS:
        text = (ROOT / "src" / "rue" / broken.file).read_text()
        assert text.count(broken.right) == 1, f"{broken.what}: {broken.right!r} stands {text.count(broken.right)} times"


@pytest.mark.slow
@pytest.mark.parametrize("tests", sorted({broken.tests for broken in BREAKS}))
def test_an_untouched_copy_passes(sources, tests):
    done = run_tests(sources, tests)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.what)
def test_a_broken_copy_fails(sources, broken):
    path = sources / "rue" / broken.file
    path.write_text(path.read_text().replace(broken.right, broken.wrong))
    done = run_tests(sources, broken.tests)
    assert done.returncode == 1, f"{broken.what} was not noticed\n{done.stdout[-2000:]}"
