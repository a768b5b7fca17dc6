"""Files are written whole or not at all, over no stranger, and with no character that deceives."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import rue
from rue.core import files
from rue.core.errors import InputError, RueError, WriteError
from rue.core.files import write_whole
from rue.reports.document import Report

NAMES = [
    "left\u202eright",
    "</script><script>alert(1)</script>",
    "nul\x00 bell\x07",
    "lone\ud800",
    "\u2066isolated\u2069",
]


def reported(title="Audit", names=("a", "b", "c", "d", "e"), word="x") -> Report:
    draw = np.random.default_rng(0)
    X = pd.DataFrame(draw.normal(size=(40, 5)), columns=list(names))
    model = rue.wrap(torch.nn.Linear(5, 1), loss="squared_error", l2=1.0)
    auditor = rue.LinearRUE().fit(model, (X, draw.normal(size=40)))
    ids = [f"{word}{place}" for place in range(9)]
    group = {word: np.where(np.arange(9) % 2, word, "other")}
    return rue.report(auditor, X[:9], title=title, purpose=title, noun=word, ids=ids, group=group, baselines=False)


@pytest.fixture(scope="module")
def made() -> Report:
    return reported()


def test_a_disk_that_is_full_leaves_the_old_report_and_no_litter(made, tmp_path, monkeypatch):
    page, data = made.save(tmp_path / "audit.html")
    before = page.read_bytes(), data.read_bytes()
    written = []

    def full(draft, content):  # the page still fits, the JSON does not
        draft.write_bytes(content[:100])
        written.append(draft)
        if len(written) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "_write", full)
    with pytest.raises(WriteError, match=r"audit\.json.*No space left on device.*unchanged"):
        made.save(page)
    assert len(written) == 2
    assert (page.read_bytes(), data.read_bytes()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.html", "audit.json"]


SAVES = """
import sys
from pathlib import Path
from rue.core.files import write_whole
for number in range(10**9):
    letter = bytes([97 + number % 26])
    write_whole({Path(sys.argv[1], name): letter * 300_000 for name in ("page", "data")})
    if number == 3:
        print("ready", flush=True)
"""


def test_a_killed_process_leaves_whole_files(tmp_path):
    for wait in np.linspace(0.0, 0.05, 5):
        saving = subprocess.Popen([sys.executable, "-c", SAVES, str(tmp_path)], stdout=subprocess.PIPE)
        saving.stdout.readline()
        time.sleep(wait)
        saving.send_signal(signal.SIGKILL)
        saving.wait()
        saving.stdout.close()
        for name in ("page", "data"):
            content = (tmp_path / name).read_bytes()
            assert len(content) == 300_000
            assert len(set(content)) == 1


def test_a_file_that_is_no_report_is_not_written_over(made, tmp_path):
    for name in ("notes.html", "notes.json"):
        (tmp_path / name).write_text("my notes")
        with pytest.raises(InputError, match=f"{name}.*is no report of rue"):
            made.save(tmp_path / "notes.html")
        assert (tmp_path / name).read_text() == "my notes"
        assert [path.name for path in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()


def test_an_earlier_report_is_written_over(made, tmp_path):
    made.save(tmp_path / "audit.html")
    page, data = reported("Another").save(tmp_path / "audit.html")
    assert "Another" in page.read_text()
    assert json.loads(data.read_text())["title"] == "Another"


@pytest.mark.parametrize("name", ["with spaces é", "new/folders/audit.html", "audit\udcff.html", "two\nlines"])
def test_odd_names_of_files_are_taken(made, tmp_path, name):
    assert all(path.is_file() for path in made.save(tmp_path / name))


@pytest.mark.parametrize("name", ["", "a" * 300, "\ud800.html", "a\0b", "folder.html", "file/audit.html"])
def test_names_that_no_file_can_have_are_refused(made, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(RueError) as caught:
        made.save(name)
    str(caught.value).encode()  # can be printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.html"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole({tmp_path / "link": b"new"})
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.parametrize("word", NAMES)
def test_texts_that_deceive_are_made_visible(tmp_path, word):
    with pd.option_context("mode.string_storage", "python"):  # pandas cannot hold half a surrogate pair in Arrow
        page, data = reported(word, NAMES, word).save(tmp_path / "audit.html")
    for text in (page.read_text(encoding="utf-8"), data.read_text(encoding="utf-8")):
        hidden = [letter for letter in "\u202e\u2066\u2069\x00\x07" if letter in text]
        assert not hidden
    assert "[U+202E]" in data.read_text(encoding="utf-8")
    assert "<script>alert" not in page.read_text(encoding="utf-8")


def test_only_one_function_writes_files():
    root = Path(rue.__file__).parents[1]
    found = [
        path.name
        for path in (*root.rglob("*.py"), *(root.parent / "paper" / "src").rglob("*.py"))
        if any(word in path.read_text() for word in (".write_text(", ".write_bytes(", '.open("w', '.open("x'))
    ]
    assert sorted(found) == ["files.py", "package_index.py"]  # the latter in a program that it hands to pip
