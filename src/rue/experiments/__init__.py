"""The paper's network and what can be shown with it."""
