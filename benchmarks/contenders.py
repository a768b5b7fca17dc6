"""What `run.py` measures: the problems, the contenders, and the four jobs that one process does alone.

    python contenders.py '{"job": "time", "problem": "a.pt", "name": "LinearRUE", "patience": 5}' reply.json

Letters as in the library: n training rows, d parameters, m audited rows, b members.
"""

import copy
import gc
import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import rue

THREADS = 2
MEMBERS = 200
L2 = 1.0
TRAIN_ROWS, AUDITED_ROWS = 600, 7592  # Kin8nm in the paper: 600 rows to train, the rest to audit
MOST_REPEATS = 9
SECONDS = ("fit", "audit", "fit_cpu", "audit_cpu")
REFITS = 2  # timed, and multiplied up to MEMBERS


# The problems


@dataclass(frozen=True)
class Problem:
    """A trained network, its training rows and the rows to audit."""

    net: nn.Module
    X: Tensor  # (n, 8)
    y: Tensor  # (n, 1)
    inputs: Tensor  # (m, 8)


def prepare(path: str, hidden: int) -> dict[str, int]:
    """Job: make the data, train the network, keep both in a file."""
    X, y, inputs = arm_data()
    torch.manual_seed(0)
    net = network(hidden)
    train_to_the_optimum(net, X, y)
    torch.save({"hidden": hidden, "state": net.state_dict(), "X": X, "y": y, "inputs": inputs}, path)
    d = sum(parameter.numel() for parameter in net.parameters())
    return {"hidden": hidden, "d": d, "n": len(X), "m": len(inputs)}


def load(path: str) -> Problem:
    kept = torch.load(path)
    net = network(kept["hidden"])
    net.load_state_dict(kept["state"])
    return Problem(net, kept["X"], kept["y"], kept["inputs"])


def network(hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(8, hidden), nn.Softplus(), nn.Linear(hidden, 1))


def arm_data() -> tuple[Tensor, Tensor, Tensor]:
    """Eight joint angles of a planar arm; the target is how far its hand is from a point, with noise."""
    rng = np.random.default_rng(0)
    angles = rng.uniform(-1, 1, size=(TRAIN_ROWS + AUDITED_ROWS, 8))
    turned = angles.cumsum(axis=1)
    distance = np.hypot(np.cos(turned).sum(axis=1) - 4, np.sin(turned).sum(axis=1) - 2)
    target = distance + 0.2 * distance.std() * rng.standard_normal(len(distance))
    train = slice(0, TRAIN_ROWS)
    X = (angles - angles[train].mean(axis=0)) / angles[train].std(axis=0)
    y = (target - target[train].mean()) / target[train].std()
    rows, targets = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32).unsqueeze(1)
    return rows[train], targets[train], rows[TRAIN_ROWS:]


def objective(net: nn.Module, X: Tensor, y: Tensor) -> Tensor:
    """Σ ½(y − f)² + ½ l2 ‖θ‖²."""
    return 0.5 * (y - net(X)).square().sum() + 0.5 * L2 * sum(p.square().sum() for p in net.parameters())


def train_to_the_optimum(net: nn.Module, X: Tensor, y: Tensor) -> None:
    optimiser = torch.optim.LBFGS(net.parameters(), max_iter=400, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = objective(net, X, y)
        value.backward()
        return value

    optimiser.step(closure)
    net.zero_grad()


# The contenders


@dataclass(frozen=True)
class Contender:
    """How to fit, and how to audit: the variance of every audited row, (m,) in NumPy."""

    fit: Callable[[Problem], Any]
    audit: Callable[[Any, Problem], Any]
    times: int = 1  # what its seconds are multiplied by, where only a part of the work was done


def with_rue(method: Any) -> Contender:
    def fit(problem: Problem) -> Any:
        return method.fit(rue.wrap(problem.net, loss="squared_error", l2=L2), (problem.X, problem.y))

    def audit(auditor: Any, problem: Problem) -> Any:
        return auditor.audit(problem.inputs).covariance[:, 0, 0]

    return Contender(fit, audit)


def with_laplace_torch(fit_rows: int, predict_rows: int) -> Contender:
    """Its full Gauss–Newton matrix over all weights (CurvlinopsGGN, its default backend), its default predictive."""

    def fit(problem: Problem) -> Any:
        from laplace import Laplace
        from torch.utils.data import DataLoader, TensorDataset

        fitted = Laplace(
            problem.net,
            "regression",
            subset_of_weights="all",
            hessian_structure="full",
            prior_precision=L2,
            sigma_noise=1.0,
        )
        fitted.fit(DataLoader(TensorDataset(problem.X, problem.y), batch_size=fit_rows))
        return fitted

    def audit(fitted: Any, problem: Problem) -> Any:
        parts = [fitted(rows, pred_type="glm")[1] for rows in problem.inputs.split(predict_rows)]
        return torch.cat(parts)[:, 0, 0].numpy()

    return Contender(fit, audit)


def literal_fit(problem: Problem) -> Tensor:
    """Algorithm 1, lines 1 to 8, row by row and with the inverse written out: members (b, d)."""
    parameters = list(problem.net.parameters())
    theta = parameters_to_vector(parameters).detach().double()
    H, columns = L2 * torch.eye(len(theta), dtype=torch.float64), []
    for i in range(len(problem.X)):
        output = problem.net(problem.X[i : i + 1])
        loss = 0.5 * (problem.y[i] - output).square().sum()
        columns.append(flat_gradient(loss, parameters))
        slope = flat_gradient(output.sum(), parameters)
        H += torch.outer(slope, slope)
    A = torch.linalg.inv(H) @ torch.stack(columns, dim=1)
    rng, n, members = np.random.default_rng(0), len(problem.X), []
    for _ in range(MEMBERS):
        weights = torch.tensor(rng.multinomial(n, np.full(n, 1 / n)), dtype=torch.float64)
        members.append(theta - A @ (weights - 1))
    return torch.stack(members)


def flat_gradient(value: Tensor, parameters: list[nn.Parameter]) -> Tensor:
    return parameters_to_vector(torch.autograd.grad(value, parameters, retain_graph=True)).double()


def one_member_after_another(members: Tensor, problem: Problem) -> Any:
    """Lines 9 to 13: every member's forward pass over all inputs, then the variance of each column."""
    net = copy.deepcopy(problem.net)
    predicted = []
    with torch.no_grad():
        for theta in members:
            vector_to_parameters(theta.float(), net.parameters())
            predicted.append(net(problem.inputs)[:, 0].double())
    return torch.stack(predicted).var(0).numpy()


def gauss_newton_members(problem: Problem) -> Any:
    return with_rue(RUE_GAUSS_NEWTON).fit(problem)


def members_at_once(auditor: Any, problem: Problem) -> Any:
    """The same forward passes by the library's own function, 512 inputs at a time."""
    thetas = auditor.assess.thetas.float()
    parts = [
        rue.derivatives.member_outputs(auditor.model, thetas, rows)[:, :, 0].double()
        for rows in problem.inputs.split(512)
    ]
    return torch.cat(parts, dim=1).var(0).numpy()


def refit(problem: Problem) -> list[nn.Module]:
    """Train anew on resampled rows, with the protocol of the paper's experiments."""
    nets = []
    for seed in range(REFITS):
        torch.manual_seed(seed)
        net = network(problem.net[0].out_features)
        drawn = torch.randint(len(problem.X), (len(problem.X),))
        train_as_in_the_paper(net, problem.X[drawn], problem.y[drawn])
        nets.append(net)
    return nets


def train_as_in_the_paper(net: nn.Module, X: Tensor, y: Tensor) -> None:
    """Adam, 500 epochs, batches of 128, on mean loss + l2/(2n) ‖θ‖²."""
    optimiser = torch.optim.Adam(net.parameters(), lr=0.001)
    for _ in range(500):
        for rows in torch.randperm(len(X)).split(128):
            optimiser.zero_grad()
            penalty = sum(p.square().sum() for p in net.parameters())
            value = 0.5 * (y[rows] - net(X[rows])).square().mean() + 0.5 * L2 / len(X) * penalty
            value.backward()
            optimiser.step()


def refits_predict(nets: list[nn.Module], problem: Problem) -> Any:
    with torch.no_grad():
        return torch.stack([net(problem.inputs)[:, 0].double() for net in nets]).var(0).numpy()


GAUSS_NEWTON = rue.curvature.GaussNewton()
RUE_GAUSS_NEWTON = rue.RUE(members=MEMBERS, curvature=GAUSS_NEWTON, damping=None)
LAPLACE_GAUSS_NEWTON = rue.Laplace(linearised=True, curvature=GAUSS_NEWTON, damping=None)

CONTENDERS = {
    "LinearRUE": with_rue(rue.LinearRUE()),
    "RUE, Gauss–Newton": with_rue(RUE_GAUSS_NEWTON),
    "RUE, as in the paper": with_rue(rue.RUE(members=MEMBERS)),
    "Laplace, linearised": with_rue(LAPLACE_GAUSS_NEWTON),
    "laplace-torch, batches of 512": with_laplace_torch(512, 512),
    "laplace-torch, batches of 256": with_laplace_torch(256, 256),
    "laplace-torch, batches of 128": with_laplace_torch(128, 128),
    "laplace-torch, batches of 64": with_laplace_torch(64, 64),
    "laplace-torch, fit 64, predict 512": with_laplace_torch(64, 512),
    "literal Algorithm 1": Contender(literal_fit, one_member_after_another),
    "real refits": Contender(refit, refits_predict, times=MEMBERS // REFITS),
    "forward passes, plain loop": Contender(
        lambda problem: gauss_newton_members(problem).assess.thetas, one_member_after_another
    ),
    "forward passes, member_outputs": Contender(gauss_newton_members, members_at_once),
}


# The jobs


def time_contender(problem: str, name: str, patience: float) -> dict[str, Any]:
    """Job: one warm-up, then repeats for `patience` seconds; one that takes over a minute is its own result."""
    loaded, contender = load(problem), CONTENDERS[name]
    before = peak_mib()
    warm_up = timed(contender, loaded)
    peak = peak_mib()  # of one fit and audit: repeats must not add to it
    warmed_up = warm_up["fit"] + warm_up["audit"] <= 60
    runs = [] if warmed_up else [warm_up]
    until = time.perf_counter() + patience
    while warmed_up and len(runs) < MOST_REPEATS and (not runs or time.perf_counter() < until):
        runs.append(timed(contender, loaded))
    return {
        **{key: [contender.times * run[key] for run in runs] for key in SECONDS},
        "times": contender.times,
        "before_mib": before,
        "peak_mib": peak,
        "median_std": warm_up["median_std"],
        "warmed_up": warmed_up,
    }


def timed(contender: Contender, problem: Problem) -> dict[str, float]:
    """Seconds on the clock, and of both processors together: those suffer less from what else the machine does."""
    gc.collect()
    start, start_cpu = time.perf_counter(), time.process_time()
    fitted = contender.fit(problem)
    between, between_cpu = time.perf_counter(), time.process_time()
    variance = contender.audit(fitted, problem)
    end, end_cpu = time.perf_counter(), time.process_time()
    seconds = (between - start, end - between, between_cpu - start_cpu, end_cpu - between_cpu)
    return {**dict(zip(SECONDS, seconds, strict=True)), "median_std": float(np.median(np.sqrt(variance)))}


def audit_memory(problem: str, copies: int) -> dict[str, float]:
    """Job: what LinearRUE's fit and audit take beyond their inputs and results, with `copies` times the inputs."""
    loaded = load(problem)
    inputs = loaded.inputs.repeat(copies, 1)
    before = peak_mib()
    auditor = with_rue(rue.LinearRUE()).fit(loaded)
    after_fit = peak_mib()
    audit = auditor.audit(inputs)
    peak = peak_mib()
    arrays = (audit.prediction, audit.score, audit.covariance, audit.noise_covariance)
    results = sum(array.nbytes for array in arrays if any(array.strides)) / 2**20  # a constant repeated takes no room
    return {
        "m": len(inputs),
        "inputs_mib": inputs.numel() * inputs.element_size() / 2**20,
        "results_mib": results,
        "fit_mib": after_fit - before,
        "beyond_mib": peak - before - results,
    }


def agreement(problem: str) -> dict[str, float]:
    """Job: the same variance from two libraries, and the closed form beside many members."""
    single = load(problem)
    double = Problem(copy.deepcopy(single.net).double(), single.X.double(), single.y.double(), single.inputs.double())
    return {
        "laplace_float64": largest_difference(double),
        "laplace_float32": largest_difference(single),
        **members_beside_closed_form(single),
    }


def members_beside_closed_form(problem: Problem) -> dict[str, float]:
    """Standard deviations of 2,000 members over LinearRUE's, through the network and through its linearisation."""
    closed = np.sqrt(variances(with_rue(rue.LinearRUE()), problem))
    contender = with_rue(rue.RUE(members=2000, curvature=GAUSS_NEWTON, damping=None))
    auditor = contender.fit(problem)
    ratio = np.sqrt(contender.audit(auditor, problem)) / closed
    steps = auditor.assess.thetas - auditor.model.theta.double()
    slopes = [rue.derivatives.jacobian(auditor.model, rows)[:, 0].double() for rows in problem.inputs.split(512)]
    linear = (steps @ torch.cat(slopes).T).std(0).numpy() / closed
    return {
        "members_median_ratio": float(np.median(ratio)),
        "members_typical_difference": float(np.median(np.abs(ratio - 1))),
        "members_95th_difference": float(np.quantile(np.abs(ratio - 1), 0.95)),
        "linearised_typical_difference": float(np.median(np.abs(linear - 1))),
        "linearised_95th_difference": float(np.quantile(np.abs(linear - 1), 0.95)),
    }


def largest_difference(problem: Problem) -> float:
    """The largest relative difference of the functional variance over the audited rows."""
    ours = variances(with_rue(LAPLACE_GAUSS_NEWTON), problem)
    theirs = variances(with_laplace_torch(128, 128), problem)
    return float(np.max(np.abs(ours - theirs) / theirs))


def variances(contender: Contender, problem: Problem) -> Any:
    return np.asarray(contender.audit(contender.fit(problem), problem), dtype=np.float64)


def peak_mib() -> float:
    """Peak resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


JOBS = {"prepare": prepare, "time": time_contender, "memory": audit_memory, "agreement": agreement}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(THREADS)
    request = json.loads(sys.argv[1])
    job = JOBS[request.pop("job")]
    Path(sys.argv[2]).write_text(json.dumps(job(**request)))
