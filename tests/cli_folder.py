"""A folder with boosted trees, a network and tables of patients, under the names of the command line's examples."""

import numpy as np
import pandas as pd
import torch

NAMES = ["a", "b", "c"]


def patients():
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.normal(size=(300, 3)), columns=NAMES)
    frame["y"] = 2 * frame["a"] + frame["b"] ** 2 + 0.3 * draw.normal(size=300)
    frame.insert(0, "patient", [f"P{i:03d}" for i in range(300)])
    return frame


def make(folder):
    """Write model.txt, net.pt2, train.csv, held.csv, new.csv (without y)."""
    import lightgbm

    frame = patients()
    train, held, new = frame[:100].copy(), frame[200:], frame[100:200]
    train.to_csv(folder / "train.csv", index=False)
    held.to_csv(folder / "held.csv", index=False)
    new.drop(columns="y").to_csv(folder / "new.csv", index=False)
    trees = lightgbm.LGBMRegressor(n_estimators=20, num_leaves=5, n_jobs=1, verbose=-1)
    trees.fit(train[NAMES], train["y"]).booster_.save_model(folder / "model.txt")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    X, y = (torch.tensor(train[part].to_numpy(), dtype=torch.float32) for part in (NAMES, "y"))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(X)[:, 0], y).backward()
        optimizer.step()
    batch = {0: torch.export.Dim("batch")}
    torch.export.save(torch.export.export(net, (X,), dynamic_shapes=(batch,)), folder / "net.pt2")
    return folder
