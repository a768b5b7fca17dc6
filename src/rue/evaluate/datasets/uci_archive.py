"""Fetches data sets from the UCI Machine Learning Repository."""

import io
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rue.core.errors import FetchError
from rue.core.progress import waiting
from rue.evaluate.datasets.catalogue import CatalogueEntry
from rue.evaluate.datasets.raw import RawFile

TIMEOUT = 30.0  # seconds without a byte


@dataclass(frozen=True)
class Deposit:
    """The number and slug of a set in the repository, and the name of its file in the archive."""

    number: int
    slug: str
    file: str


DEPOSITS = {
    "concrete": Deposit(165, "concrete+compressive+strength", "Concrete_Data.xls"),
    "energy": Deposit(242, "energy+efficiency", "ENB2012_data.xlsx"),
    "naval": Deposit(316, "condition+based+maintenance+of+naval+propulsion+plants", "data.txt"),
    "power": Deposit(294, "combined+cycle+power+plant", "Folds5x2_pp.xlsx"),
    "wine": Deposit(186, "wine+quality", "winequality-red.csv"),
    "yacht": Deposit(243, "yacht+hydrodynamics", "yacht_hydrodynamics.data"),
}


def address(name: str) -> str:
    """The address of the archive of a data set; the variable RUE_UCI names a mirror."""
    site = os.environ.get("RUE_UCI", "https://archive.ics.uci.edu").rstrip("/")
    deposit = DEPOSITS[name]
    return f"{site}/static/public/{deposit.number}/{deposit.slug}.zip"


def fetch(entry: CatalogueEntry) -> dict[str, RawFile]:
    """Download the archive of a set; hand back its file, by the set's name."""
    if entry.name not in DEPOSITS:
        raise FetchError(f"{entry.name} is not in the UCI archive")
    with waiting(f"fetching {entry.name} from the UCI archive"):
        content = _download(address(entry.name))
    return {entry.name: _member(content, entry.name)}


def _download(url: str) -> bytes:
    import pooch

    with tempfile.TemporaryDirectory(prefix="rue-") as folder:
        file = Path(folder) / "archive.zip"
        try:
            pooch.HTTPDownloader(timeout=TIMEOUT)(url, str(file), None)
        except OSError as error:  # the base class of requests' errors, also for a body that is cut short
            raise FetchError(f"{url} could not be downloaded whole ({error})") from error
        return file.read_bytes()


def _member(content: bytes, name: str) -> RawFile:
    """The file of the data set, from any folder of the archive."""
    wanted = DEPOSITS[name].file
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [item for item in archive.namelist() if PurePosixPath(item).name == wanted]
            if not members:
                raise FetchError(f"{address(name)} holds no {wanted}, only {', '.join(archive.namelist())}")
            return RawFile(f"{members[0]} in {address(name)}", archive.read(members[0]))
    except zipfile.BadZipFile as error:
        raise FetchError(f"{address(name)} is no whole zip archive ({error})") from error
