"""Draw the figures of figures.md anew, from the code on that page: python docs/figures.py [folder].

Every Matplotlib figure that has a name after its blocks have run is written under that name.
"""

import re
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

DOCS = Path(__file__).parent
PAGE = DOCS / "figures.md"
OUT = DOCS / "figures"
DPI = 80


def drawn() -> dict[str, Figure]:
    """Every figure of the page, by the name that the page gives it."""
    names: dict[str, Any] = {"__name__": "__page__"}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    return {name: item for name, item in names.items() if isinstance(item, Figure)}


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in drawn().items():
        figure.savefig(folder / f"{name}.png", dpi=DPI, metadata={"Software": None}, pil_kwargs={"optimize": True})
