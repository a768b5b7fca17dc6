"""The documentation build fails on a public name that the API page does not show or that has no docstring."""

import inspect
import re
from pathlib import Path

import rue

PAGE = Path(__file__).parent / "api.md"
MODULES = (
    *(rue.calibrate, rue.curvature, rue.solve, rue.resample, rue.evaluate, rue.datasets, rue.integrated),
    *(rue.policy, rue.errors, rue.tokens, rue.losses, rue.plots, rue.checks, rue.left_out),
)


def undocumented() -> list[str]:
    """Every public name that is missing from the page or has nothing to say."""
    shown = set(re.findall(r"^::: ([\w.]+)$", PAGE.read_text(), flags=re.MULTILINE))
    missing = [f"rue.{name}: not on the API page" for name in rue.__all__ if f"rue.{name}" not in shown]
    silent = [f"{name}: no docstring" for name, item in _public() if not inspect.getdoc(item)]
    return missing + silent


def on_pre_build(config):  # noqa: ARG001  the hook's signature is mkdocs' own
    """Stop the build."""
    found = undocumented()
    if found:
        raise SystemExit("undocumented public names:\n  " + "\n  ".join(found))


def _public():
    for name in rue.__all__:
        yield f"rue.{name}", getattr(rue, name)
    for module in MODULES:
        for name, item in vars(module).items():
            if not name.startswith("_") and getattr(item, "__module__", "").startswith(module.__name__):
                yield f"{module.__name__}.{name}", item
