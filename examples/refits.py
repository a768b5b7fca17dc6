"""How faithful is the closed form? Compare it with networks that were really trained on resampled patients.

Run: python examples/refits.py
"""

import torch
from scipy.stats import spearmanr

import rue

data = rue.datasets.diabetes()
split = rue.datasets.standard_splits(len(data))[0]
mean, scale = data.X[split.train].mean(0), data.X[split.train].std(0)
X, X_new = (data.X[split.train] - mean) / scale, (data.X[split.test] - mean) / scale
y = (data.y[split.train] - data.y[split.train].mean()) / data.y[split.train].std()

# Train the network that is to be audited: the objective is mean ½(y − f)² + ½·10/n·‖θ‖².
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.Softplus(), torch.nn.Linear(20, 1))
inputs, targets = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
optimiser = torch.optim.Adam(net.parameters(), lr=0.005)
for _ in range(60):
    for rows in torch.randperm(len(inputs)).split(64):
        optimiser.zero_grad()
        penalty = sum(p.square().sum() for p in net.parameters())
        loss = 0.5 * (targets[rows] - net(inputs[rows])[:, 0]).square().mean() + 10 / (2 * len(inputs)) * penalty
        loss.backward()
        optimiser.step()

# The closed form, and 20 refits of the same objective: all trained at once, from one start.
model = rue.wrap(net, loss="squared_error", l2=10.0)
closed = rue.LinearRUE().fit(model, (X, y)).audit(X_new)
recipe = rue.integrated.Adam(epochs=60, batch=64, learning_rate=0.005)
refits = rue.integrated.RefitBootstrap(members=20, training=recipe).fit(model, (X, y)).audit(X_new)

print(f"the first patient's prediction would change by about {closed.std[0]:.3f}, by refits {refits.std[0]:.3f}")
print(f"Spearman correlation of the two standard deviations: {spearmanr(closed.std, refits.std).statistic:.2f}")
print(f"variance, closed form over refits: {(closed.std**2).mean() / (refits.std**2).mean():.2f}")
print(f"seconds: {closed.facts['seconds_fit']:.2f} against {refits.facts['seconds_fit']:.2f}")
