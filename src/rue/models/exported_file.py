"""Opens a program of torch.export (.pt2) after it was seen to hold tensors and arithmetic only.

`torch.export.load` unpickles, evaluates expressions and imports what a file names. So each part that could run code is
checked first, and torch gets a fresh archive of the parts that were checked, not the file.
"""

import ast
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import Any

import torch

from rue.core.errors import ModelError

LARGEST = 2**33  # bytes of all members together, 8 GiB
SQUEEZED = 200  # at most so many times its packed size; torch does not pack at all
MEMBERS = 100_000
DEEPEST = 60  # levels of nesting in model.json
SHOWN = 120  # characters of an error of torch
NAME = re.compile(r"[A-Za-z0-9_.]+")
MEMBER = re.compile(r"[A-Za-z0-9_.\- ]+(/[A-Za-z0-9_.\- ]+)*")
TARGET = re.compile(
    r"torch\.ops\.(aten|prims)\.(\w+)\.(\w+)|torch\._?sym_[a-z_]+|math\.(ceil|floor|trunc|sqrt)"
    r"|_operator\.(add|sub|mul|neg|pos|mod|floordiv|truediv|eq|ne|lt|le|gt|ge|and_|or_|not_|getitem)"
)
FILES = ("filename", "file_name")  # arguments of operators that read or write files
TREES = {None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"}
RAW = re.compile(r"data/(weights/weight_\d+|constants/tensor_\d+)")
PLAIN = re.compile(
    r"archive_format|archive_version|byteorder|\.data/\w+|\.format_version|\.storage_alignment|models/model\.json"
    r"|data/(weights|constants)/model_(weights|constants)_config\.json|extra/.*"
)
ARITHMETIC = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword, ast.Load),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
FUNCTIONS = {
    *("Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Max", "Min", "Mod", "And", "Or", "Not"),
    *("Eq", "Ne", "Le", "Lt", "Ge", "Gt", "Equality", "Unequality", "LessThan", "GreaterThan"),
    *("StrictLessThan", "StrictGreaterThan", "FloorDiv", "ModularIndexing", "Where", "PythonMod", "CleanDiv"),
    *("CeilToInt", "FloorToInt", "CeilDiv", "RShift", "FloatTrueDiv", "IntTrueDiv", "TruncToFloat"),
    *("TruncToInt", "RoundToInt", "ToFloat", "Identity", "true", "false", "oo", "int_oo", "floor", "ceiling"),
}
SHAPES = ("size", "stride", "storage_offset", "numel", "dim")  # what a guard asks of an input
SYMBOL = re.compile(r"(s|u|zuf|zf)[0-9]+")
WORD = re.compile(r"[A-Za-z0-9_]+")
LONGEST = 10_000  # characters of an expression


def exported_program(path: Path) -> Any:
    """The program in a file, or a ModelError that says why it is not opened."""
    try:
        if not S_ISREG(path.stat().st_mode):
            raise _refused(path, "it is no file")
        with path.open("rb") as file:
            members = _members(path, file)
            _check(path, members)
    except ModelError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SyntaxError, EOFError) as error:
        raise _refused(path, _brief(error)) from error
    except (NotImplementedError, RuntimeError, MemoryError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        raise _refused(path, _brief(error)) from error
    try:
        return torch.export.load(_archive(members))
    except Exception as error:  # torch raises several kinds
        raise _refused(path, _brief(error)) from error


def _refused(path: Path, why: str) -> ModelError:
    return ModelError(f"{path} cannot be read as an exported program ({why})", "write it by torch.export.save")


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:SHOWN]


def _members(path: Path, file: Any) -> dict[str, bytes]:
    """The contents of an archive by name, without the folder that all of them are in."""
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        refuse_large(path, parts)
        names = [part.filename for part in parts]
        strange = next((name for name in names if not MEMBER.fullmatch(name) or ".." in name), None)
        if strange is not None or len(set(names)) < len(names):
            raise _refused(path, f"it holds a member {strange!r}" if strange else "it holds a name twice")
        if len({name.partition("/")[0] for name in names}) != 1:
            raise _refused(path, "its members are not in one folder")
        contents = {part: archive.read(part) for part in parts}
        wrong = next((part.filename for part in parts if len(contents[part]) != part.file_size), None)
        if wrong is not None:
            raise _refused(path, f"{wrong} is not as long as the archive says")
        return {part.filename.partition("/")[2]: content for part, content in contents.items()}


def refuse_large(name: str | Path, parts: list[zipfile.ZipInfo]) -> None:
    """Refuse before anything is unpacked what would be large then."""
    total, packed = sum(part.file_size for part in parts), sum(part.compress_size for part in parts)
    if len(parts) > MEMBERS or total > LARGEST:
        raise ModelError(f"{name} unpacks to {len(parts)} members of {total} bytes", "write the model again")
    if total > 2**20 and total > SQUEEZED * packed:
        raise ModelError(f"{name} unpacks from {packed} to {total} bytes", "write the model again")


def _check(path: Path, members: dict[str, bytes]) -> None:
    for name, content in members.items():
        if name.startswith("data/aotinductor/") or name.endswith((".so", ".o", ".cpp", ".py", ".dll", ".dylib")):
            raise _refused(path, f"{name} is compiled code, which would run; export the program without compiling it")
        if name.endswith(".pt") and name.startswith("data/"):
            _check_pickle(path, name, content)
        elif not RAW.fullmatch(name) and not PLAIN.fullmatch(name):
            raise _refused(path, f"it holds {name}, which is no part of a plain program")
    for kind in ("weights", "constants"):
        if f"data/{kind}/model_{kind}_config.json" in members:
            _check_payload(path, f"data/{kind}/", members)
    _check_program(path, json.loads(members["models/model.json"]))


def _check_payload(path: Path, folder: str, members: dict[str, bytes]) -> None:
    """Tensors whose shapes are within their bytes; those of other classes are pickled, and checked as such."""
    config = json.loads(members[f"{folder}model_{folder.split('/')[1]}_config.json"])["config"]
    for key, meta in config.items():
        name = folder + meta["path_name"]
        if not NAME.fullmatch(key):
            raise _refused(path, f"{folder} names a tensor {key[:40]!r}")
        if not RAW.fullmatch(name) or name not in members:
            raise _refused(path, f"{name[:60]} is an object of another kind than a tensor, or is not there")
        if meta["use_pickle"]:
            _check_pickle(path, name, members[name])
            continue
        sizes = [size["as_int"] for size in meta["tensor_meta"]["sizes"]]
        strides = [stride["as_int"] for stride in meta["tensor_meta"]["strides"]]
        first = meta["tensor_meta"]["storage_offset"]["as_int"]
        whole = all(type(number) is int and number >= 0 for number in (*sizes, *strides, first))
        if not whole or len(sizes) != len(strides):
            raise _refused(path, f"{name} has sizes {sizes} and strides {strides}"[:SHOWN])
        last = first + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        if 0 not in sizes and last >= len(members[name]):  # an element has at least one byte
            raise _refused(path, f"{name} has {len(members[name])} bytes for an element {last}")


def _check_pickle(path: Path, name: str, content: bytes) -> None:
    """Tensors and plain containers only, by torch's own reader of weights, which calls nothing that a file names."""
    if not content:
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        refuse_large(path, archive.infolist())
    try:
        torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception as error:  # torch raises several kinds
        why = str(error).partition("Unsupported")[2].partition(".")[0]
        raise _refused(path, f"{name} holds more than tensors and plain containers{why[:SHOWN]}") from error


def _check_program(path: Path, program: Any) -> None:
    """Names are names, expressions arithmetic on sizes, operators torch's own: all of it becomes code in torch."""
    for key, value in _strings(program, 0):
        if key in ("name", "forward_arg_names", "fqn", "parameter_name", "buffer_name", "tensor_constant_name"):
            fine = value == "" or NAME.fullmatch(value) is not None
        elif key == "expr_str":
            fine = _arithmetic(value, guard=False)
        elif key == "guards_code":
            fine = _arithmetic(value, guard=True)
        elif key == "target":
            fine = _operator(value)
        elif key in ("in_spec", "out_spec"):
            fine = value == "" or _tree(json.loads(value)[1])
        else:
            fine = True
        if not fine:
            raise _refused(path, f"models/model.json has {key} {value[:60]!r}, which could be code")


def _strings(part: Any, depth: int, key: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a document with the name it stands under; the keys of mappings of names stand under "name"."""
    if depth > DEEPEST:
        raise ValueError(f"nested deeper than {DEEPEST} levels")
    if isinstance(part, str):
        yield key, part
    elif isinstance(part, dict):
        for name, value in part.items():
            if key in ("tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "custom_obj_values"):
                yield "name", name
            yield from _strings(value, depth + 1, name)
    elif isinstance(part, list):
        for value in part:
            yield from _strings(value, depth + 1, key)


def _arithmetic(text: str, *, guard: bool) -> bool:
    """Numbers, sizes by name, and functions of them; a guard may also ask an input, such as L['x'], for its sizes."""
    if len(text) > LONGEST or "__" in text or "\n" in text:
        return False
    return all(_plain_node(node, guard) for node in ast.walk(ast.parse(text, mode="eval")))


def _plain_node(node: ast.AST, guard: bool) -> bool:
    if isinstance(node, ast.Attribute):
        return guard and node.attr in SHAPES
    if isinstance(node, ast.Subscript):
        return guard
    if isinstance(node, ast.Name):
        return _size_or_function(node.id, guard)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (WORD if guard else SYMBOL).fullmatch(node.value) is not None
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Pow":
        return [ast.unparse(part) for part in node.args[1:]] == ["Integer(-1)"]  # towers of powers take for ever
    return isinstance(node, ARITHMETIC) and not isinstance(node, ast.Pow | ast.LShift)


def _size_or_function(name: str, guard: bool) -> bool:
    """Symbols of sizes, as s0 or u3, and functions of them, as sympy and torch call them."""
    return SYMBOL.fullmatch(name) is not None or name in FUNCTIONS or (guard and name in ("L", "inf"))


def _operator(target: str) -> bool:
    """Operators of torch that compute; those with the name of a file among their arguments read or write it."""
    match = TARGET.fullmatch(target)
    if match is None or match[1] is None:
        return match is not None
    found = getattr(getattr(getattr(torch.ops, match[1]), match[2], None), match[3], None)
    return isinstance(found, torch._ops.OpOverload) and not any(
        argument.name in FILES for argument in found._schema.arguments
    )


def _tree(spec: Any) -> bool:
    """The structure of inputs and outputs: plain containers, because torch imports the modules of others."""
    if spec["type"] not in TREES or "__" in str(spec["context"]):
        return False
    return all(_tree(part) for part in spec["children_spec"])


def _archive(members: dict[str, bytes]) -> io.BytesIO:
    """A fresh archive of the checked contents: torch's reader cannot see another one in the same file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(f"program/{name}", content)
    made.seek(0)
    return made
