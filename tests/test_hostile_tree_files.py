"""Damaged and hostile tree files: each gives the library's own numbers, or an error of `rue`, and never hangs."""

import resource

import numpy as np
import pytest

from library_reading import LibraryReading
from mutated_files import CORPUS, FILES, Trial
from rue.models.trees.stored_tree import StoredTree

pytest.importorskip("lightgbm")
pytest.importorskip("xgboost")

QUICK, SLOW = 400, 20_000  # mutations of each format
SUFFIXES = ("txt", "json", "ubj")


@pytest.fixture
def library(tmp_path):
    reading = LibraryReading(tmp_path)
    yield reading
    reading.close()


@pytest.mark.parametrize("count", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_mutated_file_gives_the_numbers_of_its_library_or_an_error_of_rue(tmp_path, library, suffix, count):
    trial = Trial(suffix, tmp_path, library)
    trial.mutate(count)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{suffix}: {dict(trial.counts)}, {library.deaths} deaths, {trial.seconds:.2f} s, {peak:.2f} GiB")
    assert trial.counts["refused"] > count / 5
    assert trial.counts["compared"] > count / 100


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: path.name)
def test_what_once_broke_the_reader_no_longer_does(tmp_path, library, path):
    Trial(path.suffix[1:], tmp_path, library).read(path.name.partition("-")[0], path.read_bytes(), audit=True)


@pytest.mark.parametrize("name", FILES)
def test_a_whole_file_is_read_and_compared(tmp_path, library, name):
    trial = Trial(name.rpartition(".")[2], tmp_path, library)
    trial.read(name, FILES[name](), audit=True)
    assert trial.counts["compared"] == 1


TWO_SPLITS = {
    "left": [1, -1],
    "right": [-2, -3],
    "feature": [0, 1],
    "threshold": [0.0, 1.0],
    "kind": [8, 2],
    "values": [1.0, 2.0, 3.0],
    "bounds": [0],
    "bits": [],
}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"left": [1]}, "differ in length"),
        ({"values": []}, "differ in length"),
        ({"values": [1.0, np.nan, 3.0]}, "leaf value"),
        ({"values": [1.0, 1e39, 3.0]}, "leaf value"),
        ({"threshold": [np.nan, 1.0]}, "threshold is no number"),
        ({"feature": [0, 2]}, "none of the 2 columns"),
        ({"feature": [-1, 0]}, "none of the 2 columns"),
        ({"kind": [12, 0]}, "unknown kind"),
        ({"kind": [-1, 0]}, "unknown kind"),
        ({"left": [0, -1]}, "before its parent"),
        ({"left": [1, 0]}, "before its parent"),
        ({"left": [1, 1]}, "before its parent"),
        ({"left": [2, -1]}, "not connected"),
        ({"left": [-1, -1]}, "not connected"),
        ({"right": [1, -3]}, "not connected"),
        ({"right": [-1, -3]}, "to one leaf, or to none"),
        ({"right": [-2, -4]}, "to one leaf, or to none"),
        ({"kind": [9, 2]}, "no set of categories"),
        ({"kind": [9, 2], "bounds": [0, 1], "bits": [5], "threshold": [0.5, 1.0]}, "no set of categories"),
        ({"kind": [9, 2], "bounds": [0, 1], "bits": [5], "threshold": [-1.0, 1.0]}, "no set of categories"),
        ({"kind": [9, 2], "bounds": [0, 1], "bits": [5], "threshold": [np.inf, 1.0]}, "no set of categories"),
        ({"bounds": [0, 2], "bits": [5]}, "do not follow"),
        ({"bounds": [1, 1], "bits": [5]}, "do not follow"),
        ({"bounds": [0, 2, 1, 3], "bits": [5, 5, 5]}, "do not follow"),
        ({"bounds": []}, "do not follow"),
    ],
)
def test_a_tree_whose_arrays_do_not_fit_is_refused(changes, match):
    with pytest.raises(ValueError, match=match):
        _stored(**changes)


def test_a_tree_whose_arrays_fit_is_walked():
    tree = _stored(kind=[9, 2], bounds=[0, 1], bits=[5])  # the categories 0 and 2 go left
    np.testing.assert_array_equal(
        tree.leaf(np.array([[0, 1.0], [2, 1.5], [1, 0], [np.nan, 0], [32, 0]])), [0, 2, 1, 1, 1]
    )
    alone = _stored(**{key: [] for key in ("left", "right", "feature", "threshold", "kind")}, values=[4.0])
    np.testing.assert_array_equal(alone.leaf(np.zeros((2, 2))), [0, 0])


def _stored(**changes):
    types = {"threshold": np.float64, "values": np.float64, "bits": np.uint32}
    parts = {**TWO_SPLITS, **changes}
    return StoredTree(
        **{name: np.array(part, dtype=types.get(name, np.int64)) for name, part in parts.items()}, width=2
    )
