"""The mutants that are drawn: where errors may be put, which tests a file is held to, and what is said of the score."""

import ast
import random

import pytest

import mutants
from mutation_sites import sites

CHANGES = {
    "a + b": ["a - b"],
    "a += 1": ["a -= 1", "a += 2"],
    "a * b / c": ["a / b / c", "a * b * c"],
    "a < b": ["a <= b", "a >= b"],
    "a == b": ["a != b"],
    "a is None": ["a is not None"],
    "a not in b": ["a in b"],
    "a and b": ["a or b"],
    "not a": ["a"],
    "-a": ["a"],
    "0.5": ["1.0"],
    "True": ["False"],
    "a.max()": ["a.min()"],
    "a.sum()": ["a.mean()"],
    "any(a)": ["all(a)"],
    "sum(a)": [],
    "a.unsqueeze(-1)": [],
    "a.unsqueeze(1)": ["a.unsqueeze(2)"],
    "a.exp(-1)": ["a.exp(1)", "a.exp(-2)"],
    "a.clamp_min(b)": ["a"],
    "np.clip(a, b, c)": ["a"],
    "a[b:c]": ["a[(b) + 1:c]", "a[b:(c) - 1]"],
    "f'{a + b}'": [],
    "a + 'text'": [],
    "warnings.warn(a + b)": [],
    "field(repr=False)": [],
    "def f(a: 'x + y' = 1) -> bool: return a": [
        "def f(a: 'x + y' = 2) -> bool: return a",
        "def f(a: 'x + y' = 1) -> bool: return not (a)",
    ],
    "def describe(self): return a + b": [],
    "def said() -> str: return a + b": [],
    "if a: raise E(a + b)": [],
    "'μ' * a": [],
    "μ * a": ["μ / a"],
}


@pytest.mark.parametrize("source", CHANGES)
def test_a_line_is_changed_in_these_ways_and_no_other(source):
    found = [site.applied(source.encode()).decode() for site in sites(source.encode())]
    assert sorted(found) == sorted(CHANGES[source])


def test_every_room_has_its_share_of_the_sample_and_a_seed_always_draws_the_same():
    chosen = mutants.drawn(40, seed=3)
    again = mutants.drawn(40, seed=3, rooms=["policy"])
    assert 38 <= len(chosen) <= 42
    assert {mutant.file.split("/")[0] for mutant in chosen} == set(mutants.ROOMS)
    assert [mutant.key for mutant in again] == [m.key for m in chosen if m.file.startswith("policy/")]
    for mutant in chosen:
        ast.parse(mutant.changed)
        assert mutant.diff.count("\n") >= 1


def test_lines_around_a_site_and_words_about_it_do_not_make_it_another():
    def placed(source):
        return [mutants.Mutant("f.py", site, source.encode()) for site in sites(source.encode())]

    plain = placed("x = a + b\n")
    moved = placed('"""Words."""\n\n\nx = a + b\n')
    twice = placed("x = a + b\nx = a + b\n")
    assert [mutant.key for mutant in moved] == [mutant.key for mutant in plain]
    assert [mutant.place for mutant in twice][:1] == [mutant.place for mutant in plain]
    assert len({mutant.place for mutant in twice}) == 2
    assert len({mutant.key for mutant in (*twice, *plain)}) == 3


def test_every_file_is_held_to_tests_that_exist():
    for room in mutants.ROOMS:
        for file in {mutant.file for mutant in mutants.candidates(room)}:
            for path in mutants.held_to(file):
                assert (mutants.ROOT / path).exists(), f"{file} is held to {path}"


def test_tables_name_files_that_exist():
    for place in [*mutants.TESTS, *mutants.SKIPPED, *(entry[0] for entry in mutants.EQUIVALENT)]:
        assert list((mutants.ROOT / "src" / "rue").glob(f"{place}*")), place


def test_a_change_that_nothing_can_see_is_found_in_the_sources():
    folder = mutants.ROOT / "src" / "rue"
    for file, line, _, why in mutants.EQUIVALENT:
        assert line in (folder / file).read_text(), f"{file} has no {line!r}"
        assert why


def test_the_interval_of_the_score_is_wilsons():
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    for hits, n in ((0, 10), (7, 9), (350, 400), (40, 40)):
        assert mutants.wilson(hits, n) == pytest.approx(proportion.proportion_confint(hits, n, 0.05, "wilson"))


def test_the_page_lists_every_survivor_with_what_was_changed():
    source = random.Random(0)
    rows = [
        {
            "key": str(i),
            "file": f"{source.choice(mutants.ROOMS)}/made_up.py",
            "line": i,
            "outcome": "survived" if i % 5 == 0 else "killed",
            "diff": f"-    a = {i}\n+    a = {i + 1}",
        }
        for i in range(50)
    ]
    shown = mutants.page(rows, seed=0)
    assert "| all | 50 | 40 | 80.0% | 67.0% to 88.8% |" in shown
    assert shown.count("```diff") == 10
    assert "No run is kept yet" in mutants.page([], seed=0)
