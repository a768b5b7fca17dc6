"""The experiments of the paper, by one command: `rue paper`."""
