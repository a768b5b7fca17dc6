"""The command line: the numbers of the Python calls, no row lost, and codes that a pipeline can read."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from typer.testing import CliRunner

import cli_folder
import rue
from rue.cli import app
from rue.cli.csv_cells import PART
from rue.cli.tables import Table
from rue.cli.writing import rows_written
from rue.core.errors import DataError, InputError

NAMES = cli_folder.NAMES
COMMANDS = typer.main.get_command(app).commands
SHARED = {}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder, with the audits that the examples of `rue fit` store."""
    folder = cli_folder.make(tmp_path_factory.mktemp("cli"))
    before = Path.cwd()
    os.chdir(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rue.calibrate.error_model.TREES", 30)
        for extra in ((), ("--held-out", "held.csv", "--policy", "accept.rue", "--out", "checked.rue")):
            done = run("fit", "model.txt", "train.csv", "--target", "y", "--id", "patient", *extra)
            assert done.exit_code == 0, done.output
    os.chdir(before)
    return folder


@pytest.fixture
def folder(made, monkeypatch, few_trees):
    monkeypatch.chdir(made)
    return made


def run(*arguments, given=None):
    return CliRunner().invoke(app, list(arguments), input=given)


def frames(table):
    return pd.concat([part.frame for part in table.parts()])


def audited(done):
    assert done.exit_code == 0, done.output
    return pd.read_csv(io.StringIO(done.stdout))


def test_a_file_of_rows_gives_the_numbers_of_the_python_call(folder):
    table = audited(run("audit", "model.txt", "new.csv", "--fitted", "model.rue"))
    new = pd.read_csv("new.csv")
    auditor = rue.load("model.rue", rue.wrap("model.txt"))
    wanted = auditor.audit(new[NAMES])
    for name in ("prediction", "score", "std", "total_std"):
        np.testing.assert_array_equal(table[name], getattr(wanted, name))
    low, high, _ = wanted.interval(0.9)
    np.testing.assert_array_equal(table[["lower", "upper"]].to_numpy(), np.stack([low, high], 1))
    assert table["patient"].tolist() == new["patient"].tolist()
    assert list(table.columns[:5]) == ["patient", "prediction", "lower", "upper", "total_std"]


def test_one_call_fits_and_audits(folder, monkeypatch):
    asked = ("--target", "y", "--id", "patient")
    fitted = audited(run("audit", "model.txt", "new.csv", "--fitted", "model.rue"))
    at_once = audited(run("audit", "model.txt", "new.csv", "--train", "train.csv", *asked))
    pd.testing.assert_frame_equal(fitted, at_once)
    monkeypatch.setattr("rue.cli.tables.PART", 30)
    numbered = audited(run("audit", "model.txt", "new.csv", "--train", "train.csv", "--target", "y"))
    assert numbered["row"].tolist() == list(range(100))


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "jsonl"])
def test_every_form_is_read_and_written_with_the_same_numbers(folder, tmp_path, ending):
    pytest.importorskip("pyarrow")
    new, out = tmp_path / f"new.{ending}", tmp_path / f"out.{ending}"
    with rows_written(new) as writer:
        writer.add(pd.read_csv("new.csv"))
    done = run("audit", "model.txt", str(new), "--fitted", "model.rue", "--out", str(out))
    assert done.exit_code == 0, done.output
    wanted = audited(run("audit", "model.txt", "new.csv", "--fitted", "model.rue"))
    found = frames(Table.at(out))[wanted.columns].astype(wanted.dtypes.replace("bool", "object"))
    found["scarce"] = found["scarce"].astype(str).str.lower() == "true"
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "jsonl"])
def test_standard_input_and_output_take_every_form(folder, form):
    pytest.importorskip("pyarrow")
    new, given = pd.read_csv("new.csv"), io.BytesIO()
    if form == "parquet":
        new.to_parquet(given)
    elif form == "arrow":
        import pyarrow as pa

        table = pa.Table.from_pandas(new, preserve_index=False)
        with pa.ipc.new_stream(given, table.schema) as stream:
            stream.write_table(table)
    else:
        with rows_written(Path(f"given.{form}")) as writer:
            writer.add(new)
        given.write(Path(f"given.{form}").read_bytes())
    command = [sys.executable, "-m", "rue", "audit", "model.txt", "-", "--fitted", "model.rue", "--format", form]
    done = subprocess.run(command, input=given.getvalue(), capture_output=True, check=True)
    Path("piped").write_bytes(done.stdout)
    found = frames(Table(Path("piped"), form))
    wanted = audited(run("audit", "model.txt", "new.csv", "--fitted", "model.rue"))
    np.testing.assert_allclose(found["score"].astype(float), wanted["score"], rtol=1e-12)
    assert found["patient"].tolist() == wanted["patient"].tolist()
    assert b"100 rows audited" in done.stderr


def test_many_rows_are_audited_in_parts_without_a_difference(folder, tmp_path):
    new = pd.read_csv("new.csv")[NAMES]
    many = pd.concat([new] * 200, ignore_index=True).iloc[: PART + 1700]
    many += np.random.default_rng(0).normal(size=many.shape)
    many.to_csv(tmp_path / "many.csv", index=False)
    found = audited(run("audit", "model.txt", str(tmp_path / "many.csv"), "--fitted", "model.rue", "--id", "a"))
    wanted = rue.load("model.rue", rue.wrap("model.txt")).audit(many)
    np.testing.assert_array_equal(found["score"], wanted.score)
    np.testing.assert_array_equal(found["a"], many["a"])


def test_ids_stay_as_they_are_written(folder, tmp_path):
    new = pd.read_csv("new.csv").assign(patient=[f"{i:03d}" for i in range(100)])
    new.to_csv(tmp_path / "new.csv", index=False)
    done = run("audit", "model.txt", str(tmp_path / "new.csv"), "--fitted", "model.rue", "--keep", "a")
    assert done.stdout.splitlines()[1].startswith(f"000,{new['a'][0]!s},")


BAD = {  # a cell that cannot be used, and what is said of it
    "abc": "a is 'abc', no number, as in training",
    "1,5": "a is '1,5', no number, as in training",
    "inf": "",
}


@pytest.mark.parametrize("cell", BAD)
def test_a_bad_row_stops_the_audit_or_is_marked_and_never_dropped(folder, tmp_path, cell):
    model, settings = ("model.txt", ()) if BAD[cell] else ("net.pt2", ("--loss", "MSELoss"))
    fit = run(
        "fit", model, "train.csv", "--target", "y", "--id", "patient", "--out", str(tmp_path / "a.rue"), *settings
    )
    assert fit.exit_code == 0, fit.output
    new = pd.read_csv("new.csv").astype({"a": object})
    new.loc[[3, 77], "a"] = cell
    new.to_csv(tmp_path / "bad.csv", index=False)
    asked = ("audit", model, str(tmp_path / "bad.csv"), "--fitted", str(tmp_path / "a.rue"))
    refused = run(*asked, "--out", str(tmp_path / "out.csv"))
    assert refused.exit_code == 1
    assert "row 3 of" in refused.output
    assert BAD[cell] in refused.output
    assert not list(tmp_path.glob("out*"))
    assert not list(tmp_path.glob(".rue-*"))
    marked = audited(run(*asked, "--on-bad-row", "mark"))
    assert marked["patient"].tolist() == new["patient"].tolist()
    assert np.flatnonzero(marked["problem"].notna()).tolist() == [3, 77]
    assert marked.loc[[3, 77], ["prediction", "score", "lower"]].isna().all(axis=None)
    whole = audited(run("audit", model, "new.csv", "--fitted", str(tmp_path / "a.rue")))
    rest = np.setdiff1d(np.arange(100), [3, 77])
    np.testing.assert_allclose(marked["score"].to_numpy()[rest], whole["score"].to_numpy()[rest], rtol=1e-6)


def test_bad_rows_at_the_start_and_tables_of_nothing_else(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("rue.cli.tables.PART", 10)
    new = pd.read_csv("new.csv").astype({"b": object})
    new.loc[:24, "b"] = "?"
    new.to_csv(tmp_path / "bad.csv", index=False)
    asked = ("--fitted", "checked.rue", "--policy", "accept.rue", "--on-bad-row", "mark")
    for ending in ("csv", "parquet"):
        out = tmp_path / f"out.{ending}"
        done = run("audit", "model.txt", str(tmp_path / "bad.csv"), *asked, "--out", str(out), "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["marked"] == 25
        found = frames(Table.at(out))
        assert found["tier"].tolist()[:25] == ["refuse"] * 25
        assert found["patient"].tolist() == new["patient"].tolist()
    new.iloc[:25].to_csv(tmp_path / "all.csv", index=False)
    done = run("audit", "model.txt", str(tmp_path / "all.csv"), *asked, "--out", str(tmp_path / "none.csv"))
    assert done.exit_code == 1
    assert "no row of" in done.output
    assert not (tmp_path / "none.csv").exists()


def test_the_gate_ends_with_a_code_of_its_own_and_writes_the_rows(folder, tmp_path):
    asked = ("audit", "model.txt", "new.csv", "--fitted", "checked.rue", "--policy", "accept.rue")
    out = ("--out", str(tmp_path / "a.csv"))
    assert run(*asked, *out, "--max-share-refused", "1").exit_code == 0
    far = pd.read_csv("new.csv")
    far.loc[:39, NAMES] = 40.0
    far.to_csv(tmp_path / "far.csv", index=False)
    done = run(
        "audit", "model.txt", str(tmp_path / "far.csv"), *asked[3:], *out, "--max-share-refused", "0.2", "--json"
    )
    assert done.exit_code == 3, done.output
    said = json.loads(done.stdout)
    tiers = pd.read_csv(tmp_path / "a.csv")["tier"]
    assert said["tiers"] == {tier: int((tiers == tier).sum()) for tier in ("accept", "review", "refuse")}
    assert said["share_refused"] == pytest.approx((tiers == "refuse").mean())
    assert (tiers[:40] == "refuse").all()


def test_a_gate_in_a_shell_pipeline(folder, tmp_path):
    far = pd.read_csv("new.csv")
    far.loc[:, NAMES] = 40.0
    far.to_csv("far.csv", index=False)
    script = """
set -o pipefail
rue() { "$PYTHON" -m rue "$@"; }
for rows in new.csv far.csv; do
    if rue audit model.txt - --fitted checked.rue --policy accept.rue --max-share-refused 0.3 < $rows > out.csv 2> said
    then echo "$rows: go on with $(tail -n +2 out.csv | wc -l) rows"
    else echo "$rows: stopped with code $?: $(tail -n 1 said)"
    fi
done
rue audit model.txt new.csv --fitted model.rue 2> said | head -n 2 | cut -d , -f 1
"""
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "new.csv: go on with 100 rows",
        "far.csv: stopped with code 3: 100.0% of the rows are refused, and at most 30.0% may be",
        "patient",
        "P100",
    ]


def test_what_is_killed_half_way_leaves_nothing_under_the_final_name(folder, tmp_path):
    rows = pd.concat([pd.read_csv("new.csv")] * 3000)
    rows.to_csv(tmp_path / "many.csv", index=False)
    out = tmp_path / "out.csv"
    out.write_text("what was there before")
    command = ["audit", "model.txt", str(tmp_path / "many.csv"), "--fitted", "model.rue", "--out", str(out)]
    process = subprocess.Popen([sys.executable, "-m", "rue", *command], stderr=subprocess.DEVNULL)
    for _ in range(600):
        if any(part.stat().st_size for part in tmp_path.glob(".rue-*")):
            break
        time.sleep(0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert out.read_text() == "what was there before"


EXAMPLES = {
    name: re.findall(r"^  (rue .*?[^\\])$", command.help.replace(" \\\n", " "), re.MULTILINE)
    for name, command in COMMANDS.items()
    if name not in ("paper", "demo")  # rue-paper's own; the demo has a test of its own
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_help_run_as_they_are_written(folder, name):
    assert EXAMPLES[name], f"the help of rue {name} has no example"
    for example in EXAMPLES[name]:
        script = f'rue() {{ "{sys.executable}" -m rue "$@"; }}; {example}'
        done = subprocess.run(["bash", "-o", "pipefail", "-c", script], capture_output=True, text=True)
        broken = done.returncode == 1 and "| head" in example and "BrokenPipe" not in done.stderr
        assert done.returncode == 0 or broken, f"{example}\n{done.stderr}"


def test_the_commands_of_the_readme_run_as_they_are_written(folder):
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    lines = re.findall(r"^rue .*$", readme, re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        script = f'rue() {{ "{sys.executable}" -m rue "$@"; }}; {line}'
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_an_error_of_the_rows_is_not_taken_for_one_of_the_file(tmp_path):
    with pytest.raises(ValueError, match="rows"), rows_written(tmp_path / "a.csv"):
        raise ValueError("something about the rows")
    assert not list(tmp_path.iterdir())


def test_the_help_fits_into_eighty_columns():
    for name in COMMANDS:
        lines = run(name, "--help").output.splitlines()
        assert not [line for line in lines if len(line) > 80 and "rue " not in line], name
    assert run("--version").output.strip() == rue.__version__


def test_explain_names_the_row_by_number_or_id_and_a_stored_audit_says_the_same(folder):
    by_number = run("explain", "model.txt", "new.csv", "--fitted", "model.rue", "--train", "train.csv", "--row", "12")
    assert by_number.exit_code == 0, by_number.output
    asked = ("--train", "train.csv", "--target", "y", "--id", "patient", "--who", "P112", "--json")
    by_id = run("explain", "model.txt", "new.csv", *asked)
    said = json.loads(by_id.stdout)
    assert said["row"] == 12
    assert said["sentence"] in " ".join(by_number.stdout.split())
    assert said["training"][0]["row"].startswith("P0")
    whole = str(folder / "whole.rue")
    assert run("fit", "model.txt", *asked[1:6], "--rows", "all", "--out", whole).exit_code == 0
    alone = run("explain", "model.txt", "new.csv", "--fitted", whole, "--row", "12", "--json")
    assert json.loads(alone.stdout)["sentence"] == said["sentence"]
    nobody = run("explain", "model.txt", "new.csv", *asked[:-3], "--who", "P999")
    assert (nobody.exit_code, "no row 'P999'" in nobody.output) == (1, True)
    other = run("explain", "model.txt", "new.csv", "--fitted", "model.rue", "--train", "held.csv", "--row", "12")
    assert (other.exit_code, "not the training rows" in other.output) == (1, True)


def test_check_plan_and_info_say_the_same_as_json(folder):
    asked = ("--target", "y", "--drop", "patient")
    check = run("check", "model.txt", "train.csv", *asked, "--rows", "new.csv", "--json")
    assert json.loads(check.stdout)["light"] in ("green", "amber", "red")
    plan = run("plan", "net.pt2", "train.csv", *asked, "--loss", "MSELoss", "--rows", "new.csv", "--json")
    assert json.loads(plan.stdout)["m"] == 100
    for file in ("model.rue", "accept.rue", "model.txt", "net.pt2", "train.csv"):
        loss = ("--loss", "MSELoss") if file == "net.pt2" else ()
        done = run("info", file, "--json", *loss)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["file"] == file
    assert json.loads(run("info", "train.csv", "--json").stdout)["rows"] == 100
    assert json.loads(run("info", "model.rue", "--json").stdout)["asked"]["target"] == "y"


def test_weights_take_a_factory_and_code_takes_trust(folder, tmp_path, monkeypatch):
    from safetensors.torch import save_file

    Path("makers.py").write_text("import torch\n\n\ndef line():\n    return torch.nn.Linear(3, 1)\n")
    save_file(torch.nn.Linear(3, 1).state_dict(), "line.safetensors")
    torch.save(torch.nn.Linear(3, 1), "line.pt")
    asked = ("train.csv", "--target", "y", "--drop", "patient", "--loss", "squared_error", "--l2", "1")
    out = ("--out", str(tmp_path / "a.rue"))
    assert run("fit", "line.safetensors", *asked, "--factory", "makers:line", *out).exit_code == 0
    refused = run("fit", "line.pt", *asked, *out)
    assert refused.exit_code == 1
    assert "--trust-code" in refused.output
    assert run("fit", "line.pt", *asked, "--trust-code", *out).exit_code == 0
    assert run("fit", "makers:line", *asked, *out).exit_code == 1  # a function is no model
    sys.modules.pop("makers", None)


WRONG = [
    (("audit", "model.txt", "new.csv"), "--fitted FILE"),
    (("audit", "model.txt", "new.csv", "--train", "train.csv"), "--target"),
    (("audit", "model.txt", "new.csv", "--fitted", "model.rue", "--group", "a"), "what was said to rue fit"),
    (("audit", "model.txt", "new.csv", "--fitted", "model.rue", "--max-share-refused", ".1"), "--policy"),
    (("audit", "model.txt", "new.csv", "--fitted", "model.rue", "--json"), "--out"),
    (("audit", "model.txt", "new.csv", "--fitted", "model.rue", "--on-bad-row", "drop"), "drop"),
    (("fit", "model.txt", "train.csv"), "--target"),
    (("fit", "model.txt", "train.csv", "--target", "y", "--policy", "p.rue"), "--held-out"),
    (("explain", "model.txt", "new.csv", "--fitted", "model.rue", "--train", "train.csv"), "--row"),
    (("explain", "model.txt", "new.csv", "--fitted", "model.rue", "--row", "1"), "--train"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_a_wrong_command_line_is_code_two(folder, arguments, said):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert said in done.output


MISTAKES = [
    (("audit", "model.txt", "none.csv", "--fitted", "model.rue"), "cannot be read"),
    (("audit", "model.txt", "new.csv", "--fitted", "none.rue"), "cannot be read"),
    (("audit", "model.txt", "new.csv", "--fitted", "accept.rue"), "is a stored policy, no audit"),
    (("audit", "net.pt2", "new.csv", "--fitted", "model.rue", "--loss", "MSELoss"), "not the model that was audited"),
    (("audit", "model.txt", "new.csv", "--fitted", "model.rue", "--policy", "accept.rue"), "another auditor"),
    (("audit", "model.txt", "new.csv", "--fitted", "model.rue", "--keep", "age"), "no column age"),
    (("audit", "model.txt", "new.csv", "--fitted", "model.rue", "--out", "a.xlsx"), "no table that is known"),
    (("audit", "model.txt", "short.csv", "--fitted", "model.rue"), "short.csv lacks c"),
    (("audit", "model.txt", "empty.csv", "--fitted", "model.rue"), "no rows"),
    (
        ("fit", "model.txt", "train.csv", "--target", "y", "--id", "patient", "--group", "patient"),
        "both --id and --group",
    ),
    (("fit", "net.pt2", "train.csv", "--target", "y", "--loss", "NoLoss"), "unknown loss 'NoLoss'"),
    (("fit", "model.onnx", "train.csv", "--target", "y"), "write package.module:name"),
    (("info", "picture.png"), "known by its ending"),
]


@pytest.mark.parametrize(("arguments", "said"), MISTAKES)
def test_a_mistake_is_one_sentence_and_code_one(folder, arguments, said):
    pd.read_csv("new.csv").drop(columns="c").to_csv("short.csv", index=False)
    pd.read_csv("new.csv").iloc[:0].to_csv("empty.csv", index=False)
    done = run(*arguments)
    assert done.exit_code == 1, done.output
    assert said in done.output
    assert sum(not line.startswith("warning: ") for line in done.output.strip().splitlines()) == 1


def test_labels_and_probabilities_of_a_classifier(folder, tmp_path):
    from sklearn.linear_model import LogisticRegression

    skops = pytest.importorskip("skops.io")
    train = pd.read_csv("train.csv").assign(high=lambda rows: np.where(rows["y"] > 1, "yes", "no"))
    train.drop(columns="y").to_csv(tmp_path / "train.csv", index=False)
    skops.dump(LogisticRegression().fit(train[NAMES], train["high"]), tmp_path / "model.skops")
    asked = ("--train", str(tmp_path / "train.csv"), "--target", "high", "--id", "patient")
    found = audited(run("audit", str(tmp_path / "model.skops"), "new.csv", *asked))
    assert set(found["prediction"]) == {"yes", "no"}
    np.testing.assert_allclose(found["probability_yes"] + found["probability_no"], 1)
    assert list(found.columns[:3]) == ["patient", "prediction", "score"]


def test_at_a_terminal_the_most_doubtful_rows_are_a_table(folder, monkeypatch):
    monkeypatch.setattr("rue.cli.commands.at_terminal", lambda: True)
    done = run("audit", "model.txt", "new.csv", "--fitted", "model.rue")
    assert done.exit_code == 0, done.output
    assert "The 20 most doubtful of 100 rows" in done.stdout
    scores = audited(SHARED.setdefault("rows", _piped(monkeypatch)))
    first = scores.sort_values("score", ascending=False)["patient"].iloc[0]
    assert first in done.stdout


def _piped(monkeypatch):
    monkeypatch.setattr("rue.cli.commands.at_terminal", lambda: False)
    return run("audit", "model.txt", "new.csv", "--fitted", "model.rue")


def test_tables_of_an_unknown_form_and_broken_ones_are_named(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n\n[2]\n')
    with pytest.raises(DataError, match="line 3 of"):
        list(Table.at(tmp_path / "a.jsonl").parts())
    (tmp_path / "a.parquet").write_bytes(b"no parquet at all")
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        list(Table.at(tmp_path / "a.parquet").parts())
    with pytest.raises(InputError, match="--format"):
        Table.at(tmp_path / "a.xlsx")


def test_parts_do_not_depend_on_how_a_file_is_divided(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("rue.cli.tables.PART", 16)
    frame = pd.DataFrame({"a": np.arange(100), "b": pd.Categorical(list("xy") * 50)}, index=np.arange(5, 105))
    (tmp_path / "folder").mkdir()
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=7)
    frame[:30].to_parquet(tmp_path / "folder" / "part-0.parquet")
    frame[30:].to_parquet(tmp_path / "folder" / "part-1.parquet")
    for place in ("a.parquet", "folder"):
        parts = [part.frame for part in Table.at(tmp_path / place).parts()]
        assert [len(part) for part in parts] == [16] * 6 + [4]
        assert pd.concat(parts)["a"].tolist() == list(range(100))
        assert list(parts[0].columns) == ["a", "b"]
    assert Table.at(tmp_path / "a.parquet").rows == 100


def test_what_is_read_is_never_written_over(folder):
    before = {name: Path(name).read_bytes() for name in ("model.txt", "train.csv", "new.csv", "model.rue")}
    fit = ("fit", "model.txt", "train.csv", "--target", "y", "--id", "patient", "--out")
    audit = ("audit", "model.txt", "new.csv", "--fitted", "model.rue", "--out")
    for asked in ((*fit, "model.txt"), (*fit, "./train.csv"), (*audit, "new.csv"), (*audit, "model.rue")):
        done = run(*asked, *(("--format", "csv") if asked[0] == "audit" else ()))
        assert done.exit_code == 1, done.output
        assert "would be written over" in done.output
    assert {name: Path(name).read_bytes() for name in before} == before


CSV = {  # a table, and what is said of it where it cannot be read as a whole
    "a,b\n1,2,3\n": "it has 3 cells, and the header 2",
    "a,b\n1,2\n3\n": "it has 1 cells, and the header 2",
    "a,b,a\n1,2,3\n": "the column 'a' twice",
    "a;b\n1,5;2\n": "separated by ';'",
    "a,b\n": "no rows",
    "": "no rows",
    'a,b\n1,2\n3,"4\n5,6\n': "is a quote opened and not closed?",
    "a,b\nZ\xfcrich,2\n": "not written in UTF-8",
}


@pytest.mark.parametrize("text", CSV)
def test_a_broken_csv_is_named(tmp_path, text):
    (tmp_path / "a.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=re.escape(CSV[text])):
        Table.at(tmp_path / "a.csv").whole()


def test_rows_of_another_length_are_marked_and_the_others_audited(folder, tmp_path):
    lines = Path("new.csv").read_text().splitlines()
    lines[5] += ",1"
    lines[9] = lines[9].rpartition(",")[0]
    (tmp_path / "bent.csv").write_text("\n".join(lines) + "\n")
    asked = ("audit", "model.txt", str(tmp_path / "bent.csv"), "--fitted", "model.rue")
    assert "row 4 of" in run(*asked).output
    found = audited(run(*asked, "--on-bad-row", "mark"))
    assert np.flatnonzero(found["problem"].notna()).tolist() == [4, 8]
    assert found["patient"].tolist() == pd.read_csv("new.csv")["patient"].tolist()


def test_devices_and_pipes_are_written_to_and_never_replaced(folder, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    done = run("audit", "model.txt", "new.csv", "--fitted", "model.rue", "--format", "csv", "--out", str(pipe))
    assert done.exit_code == 0, done.output
    assert len(reader.communicate()[0].splitlines()) == 101
    assert pipe.is_fifo()
    command = [sys.executable, "-m", "rue", "audit", "model.txt", "new.csv", "--fitted", "model.rue", "--format", "csv"]
    piped = subprocess.run([*command, "--out", "/dev/stdout"], capture_output=True, text=True, check=True)
    assert piped.stdout.startswith("patient,prediction")
    full = subprocess.run([*command, "--out", "/dev/full"], capture_output=True, text=True)
    assert full.returncode == 1
    assert "Traceback" not in full.stderr


def test_truth_values_are_the_same_categories_however_they_are_written(tmp_path):
    from rue.cli.typed import typed
    from rue.core.schema import Schema

    words = ["true", "FALSE", "", "True"]
    (tmp_path / "a.csv").write_text("\n".join(["s,t", *(f"{word},1" for word in words)]) + "\n")
    table = Table.at(tmp_path / "a.csv")
    whole = table.whole().astype({"s": "category"})
    found = typed(next(table.parts()), Schema.of(whole), "a.csv")
    assert not found.problem.any()
    assert found.frame["s"].tolist()[:2] == [True, False]
    pd.testing.assert_series_equal(found.frame["s"], whole["s"], check_categorical=False)


def test_a_key_that_stands_twice_and_a_folder_without_tables_are_named(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": 1, "a": 2}\n')
    with pytest.raises(DataError, match="a key stands twice"):
        Table.at(tmp_path / "a.jsonl").whole()
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match=r"no \.parquet file"):
        Table.at(tmp_path).whole()
    assert "there is no file" in run("info", "none.rue").output


def test_an_empty_line_of_one_column_is_a_row(tmp_path):
    (tmp_path / "a.csv").write_text("\ufeffa\n1\n\n2\n")
    assert Table.at(tmp_path / "a.csv").whole()["a"].isna().tolist() == [False, True, False]
    (tmp_path / "b.csv").write_text('a,b\n1,"x\ny, z"\n\n2,\n')
    table = Table.at(tmp_path / "b.csv").whole()
    assert table["b"].tolist()[0] == "x\ny, z"
    assert table["b"].isna().tolist() == [False, True]


def test_types_of_a_csv_are_those_that_pandas_tells(tmp_path):
    frame = pd.DataFrame(
        {
            "number": [1.5, None, -3e-300, 0.1],
            "whole": [1, 2, 3, 4],
            "yes": [True, False, True, True],
            "word": ["a", "NA", "c", None],
            "nothing": [None] * 4,
        }
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = Table.at(tmp_path / "a.csv").whole()
    assert [found[name].dtype.kind for name in found] == ["f", "i", "b", "O", "f"]
    np.testing.assert_array_equal(found["number"], frame["number"])
    assert found["word"].fillna("-").tolist() == ["a", "NA", "c", "-"]


def test_codes_are_words_where_the_model_or_the_user_says_so(folder, tmp_path):
    catboost = pytest.importorskip("catboost")
    draw = np.random.default_rng(0)
    codes = pd.Series(draw.choice(["01", "02", "1", "10"], 150))
    frame = pd.DataFrame({"zip": codes, "x": draw.normal(size=150)})
    frame["y"] = codes.map({"01": 0.0, "02": 2.0, "1": 5.0, "10": 9.0}) + 0.1 * draw.normal(size=150)
    model = catboost.CatBoostRegressor(iterations=30, verbose=0, allow_writing_files=False, thread_count=1)
    model.fit(frame[["zip", "x"]][:100], frame["y"][:100], cat_features=["zip"])
    model.save_model(str(tmp_path / "m.cbm"))
    frame[:100].to_csv(tmp_path / "train.csv", index=False)
    frame[100:].drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    asked = ("--train", str(tmp_path / "train.csv"), "--target", "y", "--no-refit")
    found = audited(run("audit", str(tmp_path / "m.cbm"), str(tmp_path / "new.csv"), *asked))
    np.testing.assert_allclose(found["prediction"], model.predict(frame[["zip", "x"]][100:]), rtol=1e-6)
    told = Table.at(tmp_path / "train.csv")
    with pytest.warns(rue.errors.RueWarning, match="--text zip"):
        assert told.whole()["zip"].dtype.kind == "i"
    assert told.whole(("zip",))["zip"].tolist() == codes[:100].tolist()


def test_an_empty_word_is_a_category_where_the_form_has_such(folder, tmp_path):
    skops = pytest.importorskip("skops.io")
    pytest.importorskip("pyarrow")
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"k": draw.choice(["", "p", "q"], 150), "x": draw.normal(size=150)})
    frame["y"] = frame["k"].map({"": -4.0, "p": 0.0, "q": 4.0}) + frame["x"]
    encoded = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["k"]), remainder="passthrough")
    model = make_pipeline(encoded, Ridge()).fit(frame[["k", "x"]][:100], frame["y"][:100])
    skops.dump(model, tmp_path / "m.skops")
    for ending in ("parquet", "jsonl"):
        for name, part in (("train", frame[:100]), ("new", frame[100:].drop(columns="y"))):
            with rows_written(tmp_path / f"{name}.{ending}") as writer:
                writer.add(part)
        asked = ("--train", str(tmp_path / f"train.{ending}"), "--target", "y", "--no-refit")
        found = audited(run("audit", str(tmp_path / "m.skops"), str(tmp_path / f"new.{ending}"), *asked))
        np.testing.assert_allclose(found["prediction"], model.predict(frame[["k", "x"]][100:]), rtol=1e-9)


def test_labels_that_are_words_need_a_model_that_knows_them(folder, tmp_path):
    import lightgbm

    train = pd.read_csv("train.csv").assign(y=lambda rows: np.where(rows["y"] > 1, "yes", "no"))
    train.to_csv(tmp_path / "train.csv", index=False)
    fitted = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1).fit(train[NAMES], train["y"])
    fitted.booster_.save_model(tmp_path / "m.txt")
    asked = ("--target", "y", "--id", "patient", "--out", str(tmp_path / "a.rue"))
    done = run("fit", str(tmp_path / "m.txt"), str(tmp_path / "train.csv"), *asked)
    assert done.exit_code == 1
    assert "no is 0, yes is 1" in done.output


def test_kept_columns_lose_neither_their_values_nor_each_other(folder, tmp_path):
    pytest.importorskip("pyarrow")
    new = pd.read_csv("new.csv").assign(prediction=11, prediction_=22, note=None, row=range(100))
    new.to_csv(tmp_path / "new.csv", index=False)
    keep = [part for name in ("prediction", "prediction_", "row") for part in ("--keep", name)]
    found = audited(run("audit", "model.txt", str(tmp_path / "new.csv"), "--fitted", "model.rue", *keep))
    assert (found["prediction_"] == 11).all()
    assert (found["prediction__"] == 22).all()
    lines = [json.dumps({**row, "note": 1 if i < 60 else "x"}) for i, row in enumerate(new.to_dict("records"))]
    (tmp_path / "drift.jsonl").write_text("\n".join(lines))
    out = tmp_path / "out.parquet"
    asked = ("--fitted", "model.rue", "--keep", "note", "--out", str(out))
    assert run("audit", "model.txt", str(tmp_path / "drift.jsonl"), *asked).exit_code == 0
    assert pd.read_parquet(out)["note"].tolist() == ["1"] * 60 + ["x"] * 40


def test_what_is_ended_by_a_signal_leaves_no_draft(folder, tmp_path):
    pd.concat([pd.read_csv("new.csv")] * 3000).to_csv(tmp_path / "many.csv", index=False)
    command = [
        "audit",
        "model.txt",
        str(tmp_path / "many.csv"),
        "--fitted",
        "model.rue",
        "--out",
        str(tmp_path / "o.csv"),
    ]
    process = subprocess.Popen([sys.executable, "-m", "rue", *command], stderr=subprocess.DEVNULL)
    for _ in range(600):
        if any(part.stat().st_size for part in tmp_path.glob(".rue-*")):
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
    assert [path.name for path in tmp_path.iterdir()] == ["many.csv"]
