"""The network of the paper's experiments and its training (section 4.1)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rue.core.resample import generator, untouched
from rue.methods.integrated.architecture import flat
from rue.methods.integrated.training import Adam, TrainingSets, objective_of
from rue.methods.integrated.training import train as train_together
from rue.models import wrap

HIDDEN = 50
EPOCHS = 500
BATCH = 128
LEARNING_RATE = 0.001
ALPHA = 1.0  # the coefficient of ½‖θ‖² beside the summed loss
RECIPE = Adam(EPOCHS, BATCH, LEARNING_RATE)


def paper_network(features: int, seed: int) -> nn.Sequential:
    """One hidden layer of 50 softplus units, with PyTorch's default initialisation."""
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


def train_many(data: Sequence[tuple[Tensor, Tensor]], seeds: Sequence[int]) -> list[nn.Sequential]:
    """`paper_network` and `train` for training sets (n, p), (n,) of one size, all at once."""
    nets = [paper_network(X.shape[1], seed) for (X, _), seed in zip(data, seeds, strict=True)]
    inputs, targets = (torch.stack(part) for part in zip(*data, strict=True))
    sets = TrainingSets(inputs, targets[..., None], seeds)
    starts = torch.stack([flat(net) for net in nets]).to(inputs)[:, None]
    objective = objective_of(wrap(nets[0], loss="squared_error", l2=ALPHA), sets.n)
    thetas = train_together(objective, starts, sets, torch.ones_like(targets)[:, None], RECIPE)
    for net, theta in zip(nets, thetas[:, 0], strict=True):
        nn.utils.vector_to_parameters(theta.cpu(), net.parameters())
    return [net.to(inputs.device) for net in nets]
