"""The shape of the code in numbers: rooms, files on a walk, optional fields, `Any`, lines, import and wheel.

    python benchmarks/shape.py [SOURCE]

SOURCE is a folder that holds the package `rue` (src by default), so that two versions can be compared. A walk counts
the files and functions of the package that run; DESIGN.md holds the table.
"""

import ast
import dataclasses
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "src").resolve()
sys.path.insert(0, str(SOURCE))

PYTHONS_OWN = {"__init__.py", "__main__.py", "__pycache__", "py.typed"}


def main() -> None:
    root = SOURCE / "rue"
    files = sorted(root.rglob("*.py"))
    trees = [ast.parse(path.read_text()) for path in files]
    names = [node for tree in trees for node in ast.walk(tree)]
    said = {
        "entries under src/rue": len({entry.name for entry in root.iterdir()} - PYTHONS_OWN),
        "files": len(files),
        "lines": sum(len(path.read_text().splitlines()) for path in files),
        "`Any`": sum(isinstance(node, ast.Name) and node.id == "Any" for node in names),
        "`getattr` and `hasattr`": sum(
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr")
            for node in names
        ),
        "import, seconds (best of 5)": round(min(import_seconds() for _ in range(5)), 2),
    }
    for name, value in said.items():
        print(f"{name:45s} {value}")
    walks()


def import_seconds() -> float:
    """Of `import rue` beside torch and NumPy, which any user has loaded."""
    timed = "import time, torch, numpy; start = time.process_time(); import rue; print(time.process_time() - start)"
    done = subprocess.run(
        [sys.executable, "-c", timed], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCE)}
    )
    return float(done.stdout)


def walks() -> None:
    import numpy as np
    import torch

    import rue

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    draw = np.random.default_rng(0)
    X = draw.normal(size=(150, 4)).astype(np.float32)
    y = (X[:, 0] + 0.1 * draw.normal(size=150)).astype(np.float32)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
    adamw = torch.optim.AdamW(net.parameters(), lr=0.02)
    for _ in range(80):
        adamw.zero_grad()
        torch.nn.functional.mse_loss(net(torch.tensor(X)), torch.tensor(y)[:, None]).backward()
        adamw.step()
    linear = rue.LinearRUE().fit(rue.wrap(net, loss="squared_error", l2=1.0), (X, y))
    default = rue.CalibratedRUE().fit(rue.wrap(net, loss="squared_error"), (X, y))
    audit = default.audit(X[:5])
    for kind in (type(audit), type(default)):
        optional = [one.name for one in dataclasses.fields(kind) if "None" in str(one.type)]
        print(f"{'optional fields of ' + kind.__name__:45s} {len(optional)} of {len(dataclasses.fields(kind))}")
    steps: dict[str, Callable[[], object]] = {
        "LinearRUE, wrap to audit": lambda: (
            rue.LinearRUE().fit(rue.wrap(net, loss="squared_error", l2=1.0), (X, y)).audit(X[:5])
        ),
        "LinearRUE, a fitted auditor's audit": lambda: linear.audit(X[:5]),
        "default, wrap to audit": lambda: rue.audit(net, train=(X, y), inputs=X[:5], loss="squared_error"),
        "default, a fitted auditor's audit": lambda: default.audit(X[:5]),
        "one explanation": lambda: audit.explain(2),
        "one report": lambda: rue.report(default, X[:30], y[:30]),
    }
    for name, work in steps.items():
        files, functions = walked(work)
        print(f"{name:45s} {files} files, {functions} functions")


def walked(work: Callable[[], object]) -> tuple[int, int]:
    """Files and functions of the package that a piece of work runs through."""
    root, files, functions = str(SOURCE / "rue"), set(), set()

    def called(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(root):
            files.add(frame.f_code.co_filename)
            functions.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(files), len(functions)


if __name__ == "__main__":
    main()
