"""A fitted method and what it returns: the auditor, the audit, held-out rows."""
