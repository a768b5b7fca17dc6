"""Logistic regression for the risk of an event, several visits for each patient: who should not be told a number?

Run: python examples/clinical_risk.py
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rue

rng = np.random.default_rng(1)
patients, visits = 150, 4
patient = np.repeat(np.arange(patients), visits)
age, frail = rng.normal(65, 12, patients)[patient], rng.normal(size=patients)[patient]  # frailty is not recorded
table = pd.DataFrame(
    {
        "age": age.round(),
        "creatinine": rng.lognormal(0.0, 0.4, patients * visits).round(2),
        "pressure": rng.normal(130, 18, patients * visits).round(),
    }
)
risk = -1.5 + 0.05 * (table["age"] - 65) + 0.9 * np.log(table["creatinine"]) + 1.2 * frail
event = np.where(rng.random(len(table)) < 1 / (1 + np.exp(-risk)), "event", "none")

model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0)).fit(table, event)
new = pd.DataFrame({"age": [50, 66, 88, 95], "creatinine": [0.9, 1.6, 1.0, 4.5], "pressure": [120, 131, 150, 90]})

by_visit = rue.audit(model, train=(table, event), inputs=new)
by_patient = rue.audit(model, train=rue.Data(table, event, group=patient), inputs=new)
shown = new.assign(
    decision=by_patient.prediction,
    probability=by_patient.probability[:, list(model.classes_).index("event")].round(3),
    flip=by_patient.flip_probability.round(3),
    score=by_patient.score.round(3),
)
print(shown.to_string(index=False))
print(
    f"\nwith other patients the log odds would change by about {by_patient.std.round(2)}; "
    f"visits taken for independent rows would have said {by_visit.std.round(2)}"
)
print("flip: the chance that another set of patients would have changed the decision")
