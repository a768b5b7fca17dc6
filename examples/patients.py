"""Several visits per patient: what might have been otherwise is a patient, not a visit.

Run: python examples/patients.py
"""

import numpy as np
import torch

import rue

rng = np.random.default_rng(0)
patient = np.repeat(np.arange(60), 5)
effect = rng.normal(size=60)[patient]  # what a patient brings along and no feature shows
X = rng.normal(size=(300, 3))
y = X @ [1.0, -0.5, 0.2] + effect + 0.2 * rng.normal(size=300)

net = torch.nn.Linear(3, 1).double()
inputs, targets = torch.tensor(X), torch.tensor(y)
optimiser = torch.optim.LBFGS(net.parameters(), max_iter=100)


def objective() -> torch.Tensor:
    optimiser.zero_grad()
    loss = 0.5 * (net(inputs)[:, 0] - targets).square().sum() + 0.5 * sum(p.square().sum() for p in net.parameters())
    loss.backward()
    return loss


optimiser.step(objective)
model = rue.wrap(net, loss="squared_error", l2=1.0)
X_new = np.zeros((1, 3))
by_visit = rue.LinearRUE().fit(model, (X, y)).audit(X_new)
by_patient = rue.LinearRUE().fit(model, rue.Data(X, y, group=patient)).audit(X_new)
print(f"300 visits taken as independent: the prediction would change by about {by_visit.std[0]:.3f}")
print(f"60 patients taken as independent: {by_patient.std[0]:.3f}")
