"""A fitted method and its results: the auditor, the audit, and calibration by held-out rows."""
