"""Files of torch.export: only tensors and arithmetic are opened; what could run code is refused, and does not run."""

import io
import json
import pickle
import random
import re
import resource
import zipfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from mutated_files import flip_bytes, limited, replace_number
from rue.core.errors import InputError, ModelError
from rue.models import open_model as load

QUICK, SLOW = 60, 1_000  # mutations
BATCH = {0: torch.export.Dim("batch")}
X = torch.linspace(-1, 1, 12).reshape(4, 3)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.scale = torch.nn.Linear(3, 2), torch.arange(3.0)

    def forward(self, given):
        doubled = (given["a"] * self.scale).reshape(3 * given["a"].shape[0], 1).reshape(-1, 3)
        return self.inner(doubled) + given["b"][:, None]


INPUTS = ({"a": X, "b": X[:, 0].clone()},)


class Runs:
    """What unpickling this does: it calls `touch`."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.fixture(scope="module")
def members():
    torch.manual_seed(0)
    program = torch.export.export(Net(), INPUTS, dynamic_shapes=({"a": BATCH, "b": BATCH},))
    made = io.BytesIO()
    torch.export.save(program, made)
    with zipfile.ZipFile(made) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def archive(members, compression=zipfile.ZIP_STORED, folder="net/"):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as written:
        for name, content in members.items():
            written.writestr(folder + name, content)
    return made.getvalue()


def edited(members, name, change):
    document = json.loads(members[name])
    change(document)
    return {**members, name: json.dumps(document).encode()}


def saved(thing, **options):
    made = io.BytesIO()
    torch.save(thing, made, **options)
    return made.getvalue()


def graph(document):
    return document["graph_module"]["graph"]


def first_size(document):
    meta = next(meta for meta in graph(document)["tensor_values"].values() if "as_expr" in meta["sizes"][0])
    return meta["sizes"][0]["as_expr"]


def constant(path_name, **more):
    def change(document):
        next(iter(document["config"].values())).update(path_name=path_name, **more)

    return change


CODE = "__import__('pathlib').Path({!r}).touch()"
WEIGHTS, CONSTANTS = "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"
PROGRAM, SAMPLE = "models/model.json", "data/sample_inputs/model.pt"
ATTACKS = {
    "pickled sample inputs": lambda m, marker: {**m, SAMPLE: saved(Runs(marker))},
    "sample inputs of the old format": lambda m, marker: {
        **m,
        SAMPLE: saved(Runs(marker), _use_new_zipfile_serialization=False),
    },
    "bare pickle": lambda m, marker: {**m, SAMPLE: pickle.dumps(Runs(marker))},
    "weights of the old format": lambda m, marker: {**m, "data/weights/model.pt": saved(Runs(marker))},
    "a pickled weight": lambda m, marker: {
        **edited(m, WEIGHTS, constant("weight_0", use_pickle=True)),
        "data/weights/weight_0": saved(Runs(marker)),
    },
    "an opaque object": lambda m, marker: {
        **edited(m, CONSTANTS, constant("opaque_obj_0", use_pickle=True)),
        "data/constants/opaque_obj_0": pickle.dumps(Runs(marker)),
    },
    "a size": lambda m, marker: edited(m, PROGRAM, lambda d: first_size(d).update(expr_str=CODE.format(str(marker)))),
    "a guard": lambda m, marker: edited(m, PROGRAM, lambda d: d.update(guards_code=[CODE.format(str(marker))])),
    "a guard by its message": lambda m, _: edited(
        m, PROGRAM, lambda d: d.update(guards_code=["L['a\"+str(" + CODE.format("x") + ")+\"'].size()[0] > 0"])
    ),
    "an operator": lambda m, _: edited(
        m, PROGRAM, lambda d: graph(d)["nodes"][0].update(target="torch.serialization.os.system")
    ),
    "an operator that calls": lambda m, _: edited(
        m, PROGRAM, lambda d: graph(d)["nodes"][0].update(target="_operator.call")
    ),
    "an operator that loads a library": lambda m, _: edited(
        m, PROGRAM, lambda d: graph(d)["nodes"][0].update(target="torch.ops.load_library")
    ),
    "an operator that writes a file": lambda m, _: edited(
        m, PROGRAM, lambda d: graph(d)["nodes"][0].update(target="torch.ops.aten.from_file.default")
    ),
    "the name of an input": lambda m, marker: edited(
        m, PROGRAM, lambda d: graph(d)["inputs"][0]["as_tensor"].update(name="x=" + CODE.format(str(marker)))
    ),
    "a container of an imported module": lambda m, _: {
        **m,
        PROGRAM: m[PROGRAM].replace(b"builtins.dict", b"collections.defaultdict"),
    },
    "a tower of powers": lambda m, _: edited(
        m, PROGRAM, lambda d: first_size(d).update(expr_str="Pow(Integer(9), Pow(Integer(9), Integer(9)))")
    ),
    "deep nesting": lambda m, _: {**m, PROGRAM: b"[" * 100_000},
    "a deep expression": lambda m, _: edited(
        m, PROGRAM, lambda d: first_size(d).update(expr_str="(" * 5_000 + "s0" + ")" * 5_000)
    ),
    "compiled code": lambda m, _: {**m, "data/aotinductor/model/model.so": b"\x7fELF"},
    "source code": lambda m, _: {**m, "data/aotinductor/model/model.cpp": b"int main;"},
    "a path out of the archive": lambda m, _: {**m, "../../evil": b""},
    "an unknown member": lambda m, _: {**m, "data/weights/other": b""},
    "no program": lambda m, _: {name: part for name, part in m.items() if name != PROGRAM},
    "a tensor beyond its bytes": lambda m, _: edited(
        m,
        WEIGHTS,
        lambda d: next(iter(d["config"].values()))["tensor_meta"].update(sizes=[{"as_int": 2**40}, {"as_int": 3}]),
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_program_that_could_run_code_is_refused_before_torch_sees_it(tmp_path, monkeypatch, members, attack):
    marker, path = tmp_path / "marker", tmp_path / "net.pt2"
    path.write_bytes(archive(ATTACKS[attack](members, marker)))
    monkeypatch.setattr(torch.export, "load", lambda *_: pytest.fail("torch saw the file"))
    with limited(), pytest.raises(InputError, match=re.escape(str(path))):
        load(str(path))
    assert not marker.exists()


def test_the_attacks_are_real(tmp_path, members):
    marker, path = tmp_path / "marker", tmp_path / "net.pt2"
    for attack in ("pickled sample inputs", "a pickled weight", "a size"):
        path.write_bytes(archive(ATTACKS[attack](members, marker)))
        with suppress(Exception):  # after the code has run, anything may fail
            torch.export.load(path)
        assert marker.exists(), attack
        marker.unlink()


FILES = {
    "a text": lambda _, _m: b"tree\nversion=v4\n",
    "nothing": lambda _, _m: b"",
    "another archive": lambda _, _m: archive({"a.txt": b"hello"}),
    "members in two folders": lambda _, m: archive({**m, "../other/a": b""}, folder="net/"),
    "an archive cut in half": lambda whole, _: whole[: len(whole) // 2],
    "garbled weights": lambda whole, m: whole.replace(m["data/weights/weight_0"], bytes(24)),
    "a bomb": lambda _, m: archive({**m, "data/weights/weight_9": bytes(300 * 2**20)}, zipfile.ZIP_DEFLATED),
}


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_refused(tmp_path, members, name):
    path = tmp_path / "net.pt2"
    path.write_bytes(FILES[name](archive(members), members))
    with limited(memory=2**28), pytest.raises(ModelError, match=r"net\.pt2"):
        load(str(path))


def test_a_name_that_stands_twice_in_an_archive_is_refused(tmp_path, members):
    path = tmp_path / "net.pt2"
    path.write_bytes(archive(members))
    with zipfile.ZipFile(path, "a") as more, pytest.warns(UserWarning, match="Duplicate"):
        more.writestr(f"net/{SAMPLE}", b"")
    with pytest.raises(ModelError, match="twice"):
        load(str(path))


def test_a_member_that_is_shorter_than_stated_is_refused(tmp_path, members):
    path, made = tmp_path / "net.pt2", bytearray(archive(members))
    stated = made.rindex(b"net/data/weights/weight_0") - 22  # the directory's word for how long it is, unpacked
    made[stated] += 1
    path.write_bytes(made)
    with pytest.raises(ModelError, match="not as long"):
        load(str(path))


def test_a_whole_program_is_opened_and_computes_the_same(tmp_path, members):
    path = tmp_path / "net.pt2"
    path.write_bytes(archive(members))
    torch.testing.assert_close(load(str(path)).module()(*INPUTS), torch.export.load(path).module()(*INPUTS))


def mutated(members, draw):
    """A damaged archive: its bytes, or one member that is packed anew, so that no checksum tells."""
    if draw.random() < 0.3:
        whole = archive(members)
        return flip_bytes(whole, draw) if draw.random() < 0.7 else whole[: draw.randrange(len(whole))]
    name = draw.choice([PROGRAM, PROGRAM, WEIGHTS, CONSTANTS, SAMPLE, "data/weights/weight_0"])
    change = draw.choice([flip_bytes, replace_number] if name.endswith("json") else [flip_bytes])
    return archive({**members, name: change(members[name], draw)})


def outputs(program):
    try:
        return program.module()(*INPUTS)
    except Exception as error:  # a damaged graph may compute anything
        return repr(error)[:60]


@pytest.mark.parametrize("count", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore")
def test_a_mutated_program_is_refused_or_read_as_torch_reads_it(tmp_path, members, count):
    path, counts = tmp_path / "net.pt2", Counter()
    for i in range(count):
        path.write_bytes(mutated(members, random.Random(i)))
        try:
            with limited():
                program = load(str(path))
        except InputError:
            counts["refused"] += 1
            continue
        except BaseException as error:
            pytest.fail(f"mutation {i}: {error!r}")
        counts["accepted"] += 1
        ours, theirs = outputs(program), outputs(torch.export.load(path))
        counts["compared"] += isinstance(ours, torch.Tensor)
        same = ours == theirs if isinstance(ours, str) else torch.equal(ours, theirs) or bool(ours.isnan().any())
        assert same, f"mutation {i}"
    print(f"pt2: {dict(counts)}, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    assert counts["refused"] > count / 5
