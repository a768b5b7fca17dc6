"""Fitted estimators of scikit-learn whose parameters minimise an objective."""
