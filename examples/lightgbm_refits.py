"""Boosted trees, audited from the fitted model; and a few real refits, to see what holding the trees' structure costs.

Run: python examples/lightgbm_refits.py
"""

import lightgbm
import numpy as np
from scipy.stats import spearmanr

import rue

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(900, 5))
noise = np.where(X[:, 3] > 1, 0.8, 0.2)  # one corner of the data is noisy
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] / 2 + noise * rng.normal(size=900)
train, new = slice(0, 600), slice(600, None)


def grown(rows: np.ndarray) -> lightgbm.LGBMRegressor:
    return lightgbm.LGBMRegressor(n_estimators=100, num_leaves=8, reg_lambda=1.0, n_jobs=1, verbose=-1).fit(
        X[rows], y[rows]
    )


everything = np.arange(600)
model = grown(everything)
plain = rue.LinearRUE().fit(rue.wrap(model), (X[train], y[train])).audit(X[new])
audit = rue.audit(model, train=(X[train], y[train]), inputs=X[new])
assert (audit.prediction == model.predict(X[new])).all()

refits = np.stack([grown(rng.choice(everything, 600)).predict(X[new]) for _ in range(30)])
spread, error = refits.std(axis=0, ddof=1), np.abs(y[new] - audit.prediction)
print(f"a prediction would change by about {np.median(plain.std):.2f}; 30 refits say {np.median(spread):.2f}")
print(f"  the structure of the trees is held fixed, and {plain.facts['l2_reason']}")
print(f"  rank correlation of the two deviations: {spearmanr(plain.std, spread)[0]:.2f}")
print("how well do scores find large errors (mean area under the ROC curve)?")
for name, score in {"30 refits": spread, "resampling": plain.score, "the calibrated audit": audit.score}.items():
    print(f"  {name}: {rue.evaluate.mean_auc(score, error):.2f}")
lower, upper, guarantee = audit.interval(0.9)
inside = ((y[new] >= lower) & (y[new] <= upper)).mean()
print(f"90 % intervals hold {inside:.0%} of {len(error)} new rows ({guarantee.split(',')[0]})")
