"""The networks: one or two hidden layers of 64 units, their loss, their outputs."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

WIDTH = 64
ACTIVATIONS = {"ReLU": nn.ReLU, "SiLU": nn.SiLU, "tanh": nn.Tanh}


@dataclass(frozen=True)
class Architecture:
    layers: int
    activation: str

    def build(self, inputs: int, classes: int | None, seed: int = 0) -> nn.Sequential:
        """One output or a logit per class: (n, 1) or (n, k). PyTorch's initial weights, from the seed alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            parts: list[nn.Module] = []
            for before in [inputs, *[WIDTH] * (self.layers - 1)]:
                parts += [nn.Linear(before, WIDTH), ACTIVATIONS[self.activation]()]
            return nn.Sequential(*parts, nn.Linear(WIDTH, classes or 1))


def mean_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """½(y − f)², or the cross entropy of the classes, averaged over the rows."""
    if targets.is_floating_point():
        return 0.5 * (outputs[:, 0] - targets).square().mean()
    return nn.functional.cross_entropy(outputs, targets)


def predicted(net: nn.Module, X: Tensor) -> Tensor:
    """Outputs (n, k) in float64, without gradients."""
    with torch.no_grad():
        return net(X).double()
