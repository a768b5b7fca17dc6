"""`python -m rue` is `rue`."""

from rue.cli import app

app()
