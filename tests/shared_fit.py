"""Run by torchrun in test_workers.py: the same audits in every process; "killed" or "stopped" is done to one."""

import os
import signal
import sys
import warnings
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import rue
from rue.core import workers
from rue.data import opening, rows


def main() -> None:
    """Fit, audit, and let the first process keep what came of it."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    opening.BATCH_ROWS, rows.SAMPLE = 512, 500
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    how = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}.get(sys.argv[-1])
    if how is not None and dist.get_rank() == 1:
        plain = workers.added

        def ended(part, blocks, node):
            found = plain(part, blocks, node)
            os.kill(os.getpid(), how)
            return found

        workers.added = ended

    source = torch.Generator().manual_seed(0)
    X = torch.randn(4000, 3, generator=source)
    y = torch.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * torch.randn(4000, generator=source)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
    with rue.workers():
        calibrated = rue.CalibratedRUE().fit(rue.wrap(net, loss="squared_error", l2=1.0), (X, y))
        classes = rue.ClassifierRUE().fit(rue.wrap(net, loss="bernoulli"), (X, (y > 0).float()))
    audit, other = (auditor.audit(X[:50] + 0.1) for auditor in (calibrated, classes))
    if dist.get_rank() == 0:
        np.savez(sys.argv[1], std=audit.std, score=audit.score, class_score=other.score)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
