"""Put the results of `rue paper` into the documentation: python docs/reproduction.py paper-output [beyond-output].

Tables and figures are copied to docs/paper (the facts of the other runs in `RUNS` are put there by hand) and those of
`rue paper beyond` and `rue paper coverage` to docs/beyond; the blocks of what-we-found.md and beyond.md between
`<!-- name -->` and `<!-- end -->` are made anew from them.
`tests/paper/test_results.py` fails when the page and the files disagree.
"""

import json
import re
import shutil
import sys
from pathlib import Path

from rue_paper import beyond_page, page, verdicts

DOCS = Path(__file__).parent
RESULTS = DOCS / "paper"
PAGE = DOCS / "what-we-found.md"
BEYOND = DOCS / "beyond"
BEYOND_PAGE = DOCS / "beyond.md"
COPIED = ("*.csv", "*.svg", "facts.json", "claim1.txt")
RUNS = {  # whose times are told; the tables come from that of facts.json, which was stopped and went on
    "facts-after-learning.json": "`rue paper fidelity`: networks, all audits, 50 refits per split",
    "facts-cuda-after-learning.json": "`rue paper fidelity --device cuda`",
    "facts-cuda.json": "`rue paper all --device cuda`",
}


def blocks(folder: Path) -> dict[str, str]:
    """The generated parts of the page."""
    tables = {name: page.read(folder, name) for name in ("figure2", "table1", "fidelity", "costs")}
    return {
        "times": page.markdown(times(folder)),
        "verdicts": "\n".join(f"- {line}" for line in verdicts.verdicts(folder)),
        "auc": page.markdown(page.auc(tables["figure2"])),
        "nll-paper": page.markdown(page.nll(tables["table1"], "paper")),
        "nll-standard": page.markdown(page.nll(tables["table1"], "standard")),
        "claim1": page.findings(folder),
        "spearman": page.markdown(page.by_data(tables["fidelity"], "spearman", "{:.3f}")),
        "variance": page.markdown(page.variances(tables["fidelity"])),
        "costs": page.markdown(page.costs(tables["costs"])),
    }


def times(folder: Path) -> page.TableRows:
    """What each of the published runs took."""
    facts = json.loads((folder / "facts.json").read_text())
    computing = sum(facts["seconds_by_part"].values()) / facts["processes"] / 60
    rows = [["run, all eight sets, 20 splits", "device", "processes", "wall-clock"]]
    rows.append(
        [
            "the figures and tables of this page, both protocols",
            facts["device"],
            str(facts["processes"]),
            f"about {computing:.0f} min",
        ]
    )
    for name, what in RUNS.items():
        facts = json.loads((folder / name).read_text())
        rows.append([what, facts["device"], str(facts["processes"]), f"{facts['wall_seconds'] / 60:.1f} min"])
    return rows


def beyond_blocks(folder: Path) -> dict[str, str]:
    """The generated parts of the page on what lies beyond the paper; its pictures lie in the folder."""
    found = {
        "beyond": beyond_page.write(folder),
        "coverage": "\n\n".join(section(folder) for section in page.SECTIONS["coverage"][1]),
        "run": page.times(folder),
    }
    return {name: re.sub(r"\]\((\w+\.svg)\)", r"](beyond/\1)", block) for name, block in found.items()}


def filled(text: str, made: dict[str, str]) -> str:
    """A page with its generated blocks as the results have them."""
    for name, block in made.items():
        marked = re.compile(rf"(<!-- {name} -->\n)(?:(?!<!--).)*?(<!-- end -->)", re.DOTALL)
        if not marked.search(text):
            raise SystemExit(f"the page has no block <!-- {name} --> ... <!-- end -->")
        text = marked.sub(lambda found, block=block: found[1] + block + "\n" + found[2], text)
    return text


def copied(source: Path, target: Path) -> None:
    """Results of a run, to be published."""
    target.mkdir(exist_ok=True)
    for pattern in COPIED:
        for file in source.glob(pattern):
            shutil.copy(file, target / file.name)


if __name__ == "__main__":
    for source, target in zip(sys.argv[1:], (RESULTS, BEYOND), strict=False):
        copied(Path(source), target)
    PAGE.write_text(filled(PAGE.read_text(), blocks(RESULTS)))
    BEYOND_PAGE.write_text(filled(BEYOND_PAGE.read_text(), beyond_blocks(BEYOND)))
