"""A small network that reads digits: which of its answers should a person look at?

Run: python examples/digits.py
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import rue

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
X, y = X[order] / 16, y[order]
train, held_out, new = slice(0, 400), slice(400, 700), slice(700, None)

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 20), torch.nn.Softplus(), torch.nn.Linear(20, 10)).double()
inputs, labels = torch.tensor(X[train]), torch.tensor(y[train])
optimiser = torch.optim.LBFGS(net.parameters(), max_iter=200, line_search_fn="strong_wolfe")


def objective() -> torch.Tensor:
    optimiser.zero_grad()
    penalty = 0.5 * 0.3 * sum(p.square().sum() for p in net.parameters())
    loss = torch.nn.functional.cross_entropy(net(inputs), labels, reduction="sum") + penalty
    loss.backward()
    return loss


optimiser.step(objective)
model = rue.wrap(net, loss="cross_entropy", l2=0.3)
auditor = rue.ClassifierRUE().fit(model, (X[train], y[train]))
audit = auditor.calibrate(X[held_out], y[held_out]).audit(X[new])
wrong = audit.label != y[new]
own = rue.Confidence().fit(model, (X[train], y[train])).audit(X[new])
print(
    f"{wrong.sum()} of {len(wrong)} digits are read wrongly; how well do scores find them (area under the ROC curve)?"
)
print(
    f"  the audit {roc_auc_score(wrong, audit.score):.3f}, the network's own confidence {roc_auc_score(wrong, own.score):.3f}"
)
print(f"  NLL {-audit.log_prob(y[new]).mean():.3f} against {-own.log_prob(y[new]).mean():.3f}\n")

sets = audit.prediction_set(0.95)
worst = np.argsort(-audit.score)[:4]
for i in worst:
    among = ", ".join(str(c) for c in np.flatnonzero(sets.members[i]))
    print(
        f"read as {audit.label[i]} (a {y[new][i]}): another training set would change that with probability "
        f"{audit.flip_probability[i]:.2f}; it is one of {among}"
    )
print(f"\nits logits would change by about {audit.std[worst[0]].max():.1f}; sets: {sets.guarantee}")
