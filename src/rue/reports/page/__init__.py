"""The page: one HTML file made of a document."""
