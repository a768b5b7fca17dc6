"""Audits of models as people train them, beside what four refits of the same models can say.

    python benchmarks/practice.py prepare            the tables, fetched once, as one small file
    python benchmarks/practice.py run --label NAME   train, refit, audit; goes on where it stopped
    python benchmarks/practice.py table --label NAME what came out, as Markdown, and all cells as CSV
    python benchmarks/practice.py page --label NAME  the same into docs/practice.md

docs/practice.md says what is measured. Files go to --out (practice-output); networks and rivals are made once,
audits once for each label. `run` needs torch, scikit-learn, scipy, pandas, joblib and the tables' file, and rue where a
label is given.
"""

import argparse
from pathlib import Path

from practice_parts.cases import SIZES
from practice_parts.tables import CLASSES, HALVES, REGRESSION


def main() -> None:
    chosen = parsed()
    tables = chosen.tables_file or chosen.out / "tables.npz"
    if chosen.command == "prepare":
        from practice_parts.prepare import prepare

        print(prepare(tables, chosen.out).to_string(index=False))
    elif chosen.command == "run":
        from practice_parts.run import Wanted, run

        wanted = Wanted(
            tables_file=tables,
            out=chosen.out,
            label=chosen.label,
            half=chosen.half,
            kind=chosen.kind,
            recipe=chosen.recipe,
            tables=chosen.tables,
            n=chosen.n,
            splits=chosen.splits,
            audit=chosen.audit,
        )
        run(wanted, chosen.jobs)
    elif chosen.label is None:
        raise SystemExit(f"{chosen.command} needs the --label of a run")
    else:
        shown(chosen, tables)


def shown(chosen: argparse.Namespace, tables_file: Path) -> None:
    from practice_parts import collect, page, prepare, summary

    cells = collect.cells(chosen.out, chosen.label)
    tables = collect.by_table(cells)
    if chosen.command == "page":
        page.keep(prepare.described(tables_file), tables.assign(label=chosen.label))
        page.PAGE.write_text(page.renewed())
        return
    cells.to_csv(chosen.out / f"cells-{chosen.label}.csv", index=False)
    for half in (chosen.half,) if chosen.half else HALVES:
        for kind in (chosen.kind,) if chosen.kind else (REGRESSION, CLASSES):
            if made := summary.markdown(tables, half, kind):
                print(f"## {half}, {kind}\n\n{made}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("command", choices=("prepare", "run", "table", "page"))
    parser.add_argument("--out", type=Path, default=Path("practice-output"), help="folder of all results")
    parser.add_argument("--tables-file", type=Path, help="what prepare wrote, if not OUT/tables.npz")
    parser.add_argument("--label", help="name of this state of rue; without it, only networks and rivals")
    parser.add_argument("--half", choices=HALVES)
    parser.add_argument("--kind", choices=(REGRESSION, CLASSES))
    parser.add_argument("--recipe", default="", help="the beginning of a recipe's name")
    parser.add_argument("--tables", type=_names, default=(), help="names, separated by commas")
    parser.add_argument("--n", type=int, choices=tuple(SIZES))
    parser.add_argument("--splits", type=_splits, default=_splits("5"), help="how many, or which: 5, or 0,3")
    parser.add_argument("--audit", default="", help="the beginning of the name of one of rue's audits")
    parser.add_argument("--jobs", type=int, default=1)
    return parser.parse_args()


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _splits(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if "," in text else tuple(range(int(text)))


if __name__ == "__main__":
    main()
