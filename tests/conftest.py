"""One thread for each worker, the seed printed on failure, and nothing random between runs."""

import os

import hypothesis
import torch

os.environ["RUE_PROGRESS"] = "0"
torch.set_num_threads(1)
hypothesis.settings.register_profile("rue", deadline=None, max_examples=25, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("rue")
