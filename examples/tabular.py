"""A scikit-learn pipeline on a table with text and gaps: nothing to say but the pipeline and the rows it was fitted to.

Run: python examples/tabular.py
"""

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import rue

rng = np.random.default_rng(0)
n = 400
flats = pd.DataFrame(
    {
        "area": rng.gamma(8, 9, n).round(),
        "rooms": rng.integers(1, 6, n).astype(float),
        "district": rng.choice(["harbour", "hill", "old town", "island"], n, p=[0.4, 0.35, 0.23, 0.02]),
    }
)
flats.loc[rng.random(n) < 0.1, "rooms"] = np.nan
level = flats["district"].map({"harbour": 0.0, "hill": 0.1, "old town": 0.3, "island": 0.8})
rent = np.exp(2.2 + 0.9 * np.log(flats["area"]) + level + 0.15 * rng.normal(size=n)).round()

columns = ColumnTransformer(
    [
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["area", "rooms"]),
        ("district", OneHotEncoder(handle_unknown="ignore"), ["district"]),
    ]
)
logarithm = TransformedTargetRegressor(RidgeCV(np.logspace(-2, 2, 9)), func=np.log, inverse_func=np.exp)
pipeline = make_pipeline(columns, logarithm).fit(flats[:300], rent[:300])

audit = rue.audit(pipeline, train=(flats[:300], rent[:300]), inputs=flats[300:])
assert (audit.prediction == pipeline.predict(flats[300:])).all()
found = flats[300:].reset_index(drop=True)
lower, upper, guarantee = audit.interval(0.9)
found["rent"], found["would change by about"], found["90 % from"], found["to"] = (
    audit.prediction,
    audit.std,
    lower,
    upper,
)
found["score"] = audit.score
pd.set_option("display.width", 120)
print(found.round(1).nlargest(5, "score").to_string(index=False))
inside = ((rent[300:] >= lower) & (rent[300:] <= upper)).mean()
print(f"\n90 % intervals hold {inside:.0%} of {len(found)} new rents ({guarantee.split(',')[0]})")
print(f"penalty chosen by the search, and read off it: {audit.facts['l2']}")
