"""The audit as a document for people: one HTML page that needs nothing but a browser, and the same as JSON."""

from rue.reports.document import Report, report

__all__ = ["Report", "report"]
