"""What people and files do to an audit, each with what must come of it; `page.py` makes the documentation of it."""
