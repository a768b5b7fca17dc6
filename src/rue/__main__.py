"""`python -m rue` is `rue`."""

from rue.cli import app

if __name__ == "__main__":
    app()
