"""Ensembles of trees: boosted ones as linear models of their leaves, forests by their rows in each leaf."""
