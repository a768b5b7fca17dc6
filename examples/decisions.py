"""Which predictions to act on, which to have reviewed: four ways to choose a threshold on held-out patients.

Run: python examples/decisions.py
"""

import numpy as np
import torch

import rue

data = rue.datasets.diabetes()
rows = np.random.default_rng(0).permutation(len(data))
train, held_out, new = rows[:150], rows[150:350], rows[350:]
mean, scale = data.X[train].mean(0), data.X[train].std(0)
X, y, level = (data.X - mean) / scale, data.y, data.y[train].mean()

# Train the network that is to be audited, on targets in tens: the objective is ½(y − f)² summed, plus ½·10·‖θ‖².
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.Softplus(), torch.nn.Linear(20, 1)).double()
inputs, targets = torch.tensor(X[train]), torch.tensor((y[train] - level) / 10)
optimiser = torch.optim.LBFGS(net.parameters(), max_iter=300)


def objective() -> torch.Tensor:
    optimiser.zero_grad()
    penalty = sum(p.square().sum() for p in net.parameters())
    loss = 0.5 * (net(inputs)[:, 0] - targets).square().sum() + 5 * penalty
    loss.backward()
    return loss


optimiser.step(objective)
auditor = rue.LinearRUE().fit(rue.wrap(net, loss="squared_error", l2=10.0), (X[train], targets))
audit, audit_new = auditor.audit(X[held_out]), auditor.audit(X[new])
print(f"the first new patient's prediction would change by about {10 * audit_new.std[0]:.1f}\n")

# Wrong is what misses the progression by more than 100: 10 in the units of the audit.
known = (y[held_out] - level) / 10
wrong = rue.policy.Exceeds(10.0)
policies = {
    "an error costs 10 reviews": rue.Policy.by_cost(audit, known, wrong, error=10, review=1),
    "at most 5 % of all patients accepted and wrong": rue.Policy.by_risk(audit, known, wrong, risk=0.05),
    "at most 15 % wrong among the accepted": rue.Policy.by_error_rate(audit, known, wrong, rate=0.15),
    "at most 20 % to be reviewed": rue.Policy.by_share(audit, known, wrong, share=0.2),
}
for name, policy in policies.items():
    decision = policy.decide(audit_new)
    missed = wrong(audit_new.prediction, (y[new] - level) / 10)[decision.tier == "accept"].sum()
    print(f"{name.upper()}\n{policy}\n{decision}\nIt turned out to be {missed:.0f}.\n")
