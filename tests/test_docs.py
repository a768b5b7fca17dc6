"""What README and documentation say runs, exists and is complete."""

import importlib
import importlib.util
import re
from pathlib import Path

import pytest
import torch

import breaks

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_CODE = [page for page in PAGES if "```python" in page.read_text()]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_every_python_block_runs_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    state = torch.get_rng_state()
    try:
        names: dict[str, object] = {"__name__": "__page__"}
        for block in blocks:
            exec(compile(block, str(page), "exec"), names)
    finally:
        torch.set_rng_state(state)
    assert "rue" in names


def test_every_public_name_is_documented():
    spec = importlib.util.spec_from_file_location("documented", ROOT / "docs" / "documented.py")
    documented = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(documented)
    assert documented.undocumented() == []


def test_the_paper_to_code_table_names_functions_and_tests_that_exist():
    rows = re.findall(
        r"^\|[^|]+\| `(rue[\w.]+)` \| `(tests/[\w/.]+)::(\w+)` \|$", (ROOT / "docs/paper-to-code.md").read_text(), re.M
    )
    assert len(rows) >= 20
    for name, file, test in rows:
        parts = name.split(".")
        found = next(i for i in range(len(parts), 0, -1) if _importable(".".join(parts[:i])))
        item = importlib.import_module(".".join(parts[:found]))
        for attribute in parts[found:]:
            item = getattr(item, attribute)
        assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.M), f"{file} has no {test}"


def test_the_page_of_breaks_is_of_those_that_are_tested():
    assert (ROOT / "docs/breaks.md").read_text() == breaks.page()


def test_links_between_the_projects_own_pages_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "DESIGN.md"]:
        for target in re.findall(r"\]\(([^)#:]+\.md)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_names_the_two_commands():
    readme = (ROOT / "README.md").read_text()
    assert "make demo" in readme
    assert "make test" in readme


def _importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True
