"""All attacks by section, and the page of documentation made of them."""

from collections import Counter
from functools import cache
from pathlib import Path

from attacks import mistakes, models, tables, training
from attacks.attack import Attack, Outcome, Right, tried

SECTIONS: dict[str, list[Attack]] = {
    **mistakes.SECTIONS,
    **tables.SECTIONS,
    **training.SECTIONS,
    **models.SECTIONS,
}
ATTACKS = [attack for section in SECTIONS.values() for attack in section]
KINDS = {"Refused": "refused", "Warned": "warned of", "Right": "right"}


@cache
def outcome(attack: Attack) -> Outcome:
    """What came of it; done once."""
    return tried(attack)


def page() -> str:
    """The list for people: everything that is done, and what comes of it."""
    text = (
        "# Mistakes, and what comes of them\n\n"
        f"{len(ATTACKS)} things that people do to an audit. Each is refused with a sentence that says what was found\n"
        'and what to do, or warned of (the sentence stands in `audit.facts["warnings"]` too), or it makes no\n'
        "difference, by an oracle that is named. All are tested; after each the module and the random state are as\n"
        "they were. They are data in `tests/attacks`: one more is one more entry. `python tests/attacks/page.py`\n"
        "rewrites this page.\n\n"
        "| what it is about | refused | warned of | right |\n|---|---|---|---|\n"
    )
    for name, section in SECTIONS.items():
        counts = Counter(type(attack.expected).__name__ for attack in section)
        text += f"| {name} | {' | '.join(str(counts[kind]) for kind in KINDS)} |\n"
    for name, section in SECTIONS.items():
        text += f"\n## {name}\n\n| what is done | what comes of it | in words |\n|---|---|---|\n"
        text += "".join(f"| {_cell(attack.name)} | {_kind(attack)} | {_words(attack)} |\n" for attack in section)
    return text


def _kind(attack: Attack) -> str:
    error = outcome(attack).error
    return f"`{type(error).__name__}`" if error is not None else KINDS[type(attack.expected).__name__]


def _words(attack: Attack) -> str:
    return _cell(attack.expected.by if isinstance(attack.expected, Right) else outcome(attack).said)


def _cell(text: str) -> str:
    text = " ".join(text.split())
    for mark in ("\\", "|", "<", ">", "*", "_", "[", "]", "`"):
        text = text.replace(mark, f"\\{mark}")
    return text


if __name__ == "__main__":
    (Path(__file__).parent.parent.parent / "docs" / "bad-inputs.md").write_text(page())
