"""The shape of the code: imports point one way, the public names are these, importing is light."""

import ast
import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import rue

SOURCE = Path(rue.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

LAYERS = [
    {"errors"},
    {"columns", "memory", "progress", "randomness", "settings", "trees"},
    {"concepts"},
    {"losses"},
    {"models"},
    {"data"},
    {"tokens"},
    {"derivatives"},
    {"curvature"},
    {"solve"},
    {"resample"},
    {"features", "classify", "collected"},
    {"left_out"},
    {"influence"},
    {"calibrate"},
    {"trained"},
    {"explain"},
    {"checks"},
    {"result"},
    {"held_out", "respond"},
    {"auditor"},
    {"methods"},
    {"integrated"},
    {"evaluate", "datasets", "policy"},
    {"plots"},
    {"report"},
    {"experiments"},
    {"cli"},
    {"__main__"},
]
LAYER = {name: depth for depth, names in enumerate(LAYERS) for name in names}


def layer_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "rue":
            parts = node.module.split(".")
            names |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("rue.")}
    return names


@pytest.mark.parametrize("path", [f for f in FILES if f.parent != SOURCE or f.name != "__init__.py"], ids=str)
def test_imports_point_left_only(path):
    own = layer_of(path)
    for name in imported(path):
        assert name == own or LAYER[name] < LAYER[own], f"{path.name} imports {name}, which is not to its left"


def test_every_file_has_a_layer_and_a_plain_name():
    for path in FILES:
        assert path.name == "__init__.py" or layer_of(path) in LAYER
        assert path.stem not in {"utils", "helpers", "common", "base", "misc"}


def test_files_are_short():
    lengths = [len(path.read_text().splitlines()) for path in FILES]
    assert statistics.median(lengths) < 200
    assert max(lengths) < 400


def test_nothing_is_pickled():
    assert not [path for path in FILES if "pickle" in path.read_text()]


def test_the_public_names_are_these():
    assert sorted(rue.__all__) == sorted(
        [
            *("CalibratedRUE", "RUE", "LinearRUE", "Laplace", "BootstrapSGD", "KernelDensity", "NearestNeighbours"),
            *("ErrorForest", "ForestRUE", "Homoscedastic", "ClassifierRUE", "Confidence"),
            *("wrap", "audit", "choose_penalty", "Data", "Model", "Audit", "Auditor", "Interval", "Policy"),
            *("Explanation", "Explanations"),
            *("calibrate", "curvature", "losses", "solve", "resample", "evaluate", "datasets", "integrated", "policy"),
            *("errors", "left_out", "plots", "quiet", "tokens", "Report", "report", "Check", "CheckUp", "checks"),
        ]
    )
    assert all(hasattr(rue, name) for name in rue.__all__)


def test_importing_loads_no_heavy_library_and_changes_nothing_global():
    probe = """
import json, random, sys, warnings
import numpy, torch
before = (torch.get_rng_state().tolist(), torch.get_default_dtype(), torch.get_num_threads(), str(warnings.filters),
          random.getstate(), numpy.random.get_state()[1].tolist())
import rue
after = (torch.get_rng_state().tolist(), torch.get_default_dtype(), torch.get_num_threads(), str(warnings.filters),
         random.getstate(), numpy.random.get_state()[1].tolist())
heavy = {"sklearn", "pandas", "matplotlib", "scipy", "rich", "typer", "statsmodels"} & set(sys.modules)
print(json.dumps({"same": before == after, "heavy": sorted(heavy)}))
"""
    out = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == {"same": True, "heavy": []}


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert rue.__version__ == version("rue")
