"""The audit as a document for people: one HTML page that needs nothing but a browser."""
