"""The shape of the code: imports point one way, the public names are these, importing is light."""

import ast
import inspect
import json
import statistics
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import rue

SOURCE = Path(rue.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
DESIGN = Path(__file__).parent.parent / "DESIGN.md"
ROOMS = 14  # entries under src/rue at most, beside the files Python itself asks for
PYTHONS_OWN = {"__init__.py", "__main__.py", "__pycache__", "py.typed"}


def drawn() -> dict[str, set[str]]:
    """The picture of DESIGN.md: every room and the rooms it imports."""
    picture = DESIGN.read_text().split("<!-- rooms -->")[1].split("```")[1]
    lines = [line.partition("←") for line in picture.strip().splitlines()]
    return {room.strip(): set(imports.split()) for room, _, imports in lines}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def imported(path: Path, within: type[ast.AST] = ast.Module) -> set[str]:
    """The modules of this package that a file imports: anywhere in it, or when it is itself imported."""
    tree = ast.parse(path.read_text())
    names = set()
    for node in ast.walk(tree) if within is ast.Module else tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "rue":
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in MODULES else node.module for name in inside}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.split(".")[0] == "rue"}
    return names


def test_the_picture_of_the_rooms_is_true():
    found = {room: set() for room in drawn()}
    for path in FILES:
        if path.parent != SOURCE:
            rooms = {name.split(".")[1] for name in imported(path) if name != "rue"}
            found[room_of(path)] |= rooms - {room_of(path)}
    assert found == drawn()


def test_rooms_import_only_rooms_that_are_drawn_above_them():
    above = set()
    for room, imports in drawn().items():
        assert imports <= above, f"{room} imports {imports - above}, drawn below it"
        above.add(room)


def test_there_are_few_rooms_each_with_a_sentence_at_its_door():
    entries = {entry.name for entry in SOURCE.iterdir()} - PYTHONS_OWN
    assert entries == set(drawn())
    assert len(entries) <= ROOMS
    for room in entries:
        assert ast.get_docstring(ast.parse((SOURCE / room / "__init__.py").read_text())).endswith(".")


def test_no_file_imports_itself_through_others():
    at_import = {name: imported(path, ast.stmt) - {name, "rue"} for name, path in MODULES.items()}
    list(TopologicalSorter(at_import).static_order())  # raises on a cycle


def test_no_module_shares_the_name_of_a_public_function():
    functions = {name for name in rue.__all__ if inspect.isfunction(getattr(rue, name))}
    assert not functions & {path.stem for path in FILES if path.parent == SOURCE}
    assert not functions & set(drawn())


def test_only_public_names_are_shown():
    assert set(dir(rue)) == {*rue.__all__, "__version__"}


def test_public_modules_are_imported_under_their_public_names():
    for name in rue.__all__:
        if inspect.ismodule(getattr(rue, name)):
            assert import_module(f"rue.{name}") is getattr(rue, name)


def test_classes_and_types_have_names_of_their_own():
    owners = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                owners.setdefault(node.name, []).append(path)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name[0].isupper() and not name.isupper():  # a type, not a constant
                    owners.setdefault(name, []).append(path)
    assert not {name: paths for name, paths in owners.items() if len(paths) > 1}


def test_files_have_plain_names():
    for path in FILES:
        assert path.stem not in {"utils", "helpers", "common", "base", "misc"}


def test_files_are_short():
    lengths = [len(path.read_text().splitlines()) for path in FILES]
    assert statistics.median(lengths) < 200
    assert max(lengths) < 400


def test_nothing_is_pickled():
    refuse = {"exported_file", "model_file"}  # they have to name what they look for
    assert not [path for path in FILES if "pickle" in path.read_text() and path.stem not in refuse]
    assert not [path for path in FILES if "import pickle" in path.read_text()]


def test_the_public_names_are_these():
    assert sorted(rue.__all__) == sorted(
        [
            *("CalibratedRUE", "RUE", "LinearRUE", "Laplace", "BootstrapSGD", "KernelDensity", "NearestNeighbours"),
            *("ErrorForest", "FewerRows", "ForestRUE", "Homoscedastic", "ClassifierRUE", "Confidence"),
            *("wrap", "audit", "workers", "choose_penalty", "Data", "Model", "Audit", "Auditor", "Interval", "Policy"),
            *("Explanation", "Explanations"),
            *("calibrate", "curvature", "losses", "solve", "sharing", "resample", "evaluate", "datasets"),
            *("integrated", "policy"),
            *("errors", "checkpoint", "left_out", "plan", "plots", "quiet", "tokens", "Report", "report"),
            *("load", "batches", "AuditedEstimator", "open_model", "mlflow"),
            *("Check", "CheckUp", "checks"),
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
