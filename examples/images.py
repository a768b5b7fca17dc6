"""A convolutional net with two outputs, read from a DataLoader, solved without ever holding a matrix.

Run: python examples/images.py
"""

import torch
from torch.utils.data import DataLoader, TensorDataset

import rue

torch.manual_seed(0)
images = torch.randn(200, 1, 8, 8)
targets = torch.stack([images.mean((1, 2, 3)), images.amax((1, 2, 3))], dim=1)
net = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 2)
)
optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(100):
    optimiser.zero_grad()
    penalty = sum(p.square().sum() for p in net.parameters())
    (0.5 * (net(images) - targets).square().sum(-1).mean() + 0.5 * 1e-2 * penalty).backward()
    optimiser.step()

loader = DataLoader(TensorDataset(images, targets), batch_size=32, shuffle=True)
model = rue.wrap(net.eval(), loss="squared_error", l2=1e-2, reduction="mean")
method = rue.LinearRUE(solver=rue.solve.ConjugateGradient(tolerance=1e-4, rank=50))
audit = method.fit(model, loader).audit(torch.stack([images[0], 5 * images[0]]))
for name, std in zip(("an image like those of training", "the same, five times as bright"), audit.std, strict=True):
    print(f"{name}: the outputs would change by about {std[0]:.3f} and {std[1]:.3f}")
print(f"solver: {audit.facts['solver']}; damping: {audit.facts['damping_reason']}")
