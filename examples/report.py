"""One page for those who decide: a ridge regression on diabetes patients, audited, checked and written down.

Run: python examples/report.py, then open audit.html in the folder it names.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rue

data = rue.datasets.diabetes()
patients = pd.DataFrame(data.X, columns=data.features).rename_axis("patient")
order = np.random.default_rng(0).permutation(len(patients))
train, held_out, new = order[:250], order[250:350], order[350:]

model = make_pipeline(StandardScaler(), Ridge(10.0)).fit(patients.iloc[train], data.y[train])
auditor = rue.CalibratedRUE().fit(rue.wrap(model), (patients.iloc[train], data.y[train]))

# Thresholds from patients that nothing was trained on: wrong is what misses the progression by more than 100.
known = auditor.audit(patients.iloc[held_out])
policy = rue.Policy.by_share(known, data.y[held_out], rue.policy.Exceeds(100.0), share=0.25)

report = rue.report(
    auditor,
    patients.iloc[new],
    data.y[new],
    title="Disease progression after one year",
    purpose="An illustration on public data: not for the care of anyone.",
    noun="patients",
    group={"sex": patients["sex"].iloc[new].map({1.0: "one", 2.0: "two"})},
    policy=policy,
)
first = report.document["predictions"]
print(f"patient {first['id'][0]}: {first['values']['prediction'][0]:.0f}, which would change by about", end=" ")
print(f"{first['values']['std'][0]:.0f} with other patients in training.")
print(f"Why: {first['sentence'][0]}\n")
for part in report.document["sections"]:
    print(f"{part['title']}: {part['lead']}")
page, twin = report.save(Path(tempfile.mkdtemp()) / "audit.html")
print(f"\n{report.verdict}\n{page}\n{twin}")
