"""The network of the paper's experiments and its training (section 4.1)."""

import torch
from torch import Tensor, nn

from rue.randomness import generator, untouched

HIDDEN = 50
EPOCHS = 500
BATCH = 128
LEARNING_RATE = 0.001
ALPHA = 1.0  # the coefficient of ½‖θ‖² beside the summed loss


def paper_network(features: int, seed: int) -> nn.Sequential:
    """One hidden layer of 50 softplus units, in PyTorch's default initialisation."""
    with untouched():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(features, HIDDEN), nn.Softplus(), nn.Linear(HIDDEN, 1))


def train(net: nn.Module, X: Tensor, y: Tensor, seed: int, epochs: int = EPOCHS) -> None:
    """Adam on mean ½(y − f)² + α/(2n)‖θ‖², in shuffled batches."""
    optimiser = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    order = generator(seed)
    for _ in range(epochs):
        for rows in torch.randperm(len(X), generator=order).split(BATCH):
            optimiser.zero_grad()
            penalty = sum(p.square().sum() for p in net.parameters())
            loss = 0.5 * (y[rows] - net(X[rows]).squeeze(-1)).square().mean() + ALPHA / (2 * len(X)) * penalty
            loss.backward()
            optimiser.step()
    optimiser.zero_grad()
