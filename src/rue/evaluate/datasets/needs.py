"""Checks for libraries that only the paper's data sets need."""

import importlib.util

from rue.core.errors import FetchError


def need(*libraries: str) -> None:
    """Raise an error that names the extra to install if one of the libraries is missing."""
    missing = [library for library in libraries if importlib.util.find_spec(library) is None]
    if missing:
        raise FetchError(f"the paper's data sets need {' and '.join(missing)}: pip install 'rue[paper]'")
