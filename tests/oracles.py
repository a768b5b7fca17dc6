"""The independent truth: naive float64 arithmetic that shares no code with the library.

`X`, `X_new` and `y` are tensors (or arrays), everything else goes in and out as NumPy. The parameters of a
module are laid end to end in the order of `module.parameters()`, each once, frozen ones included. Letters:
n rows, d parameters, m audited rows, k outputs, b members. `loss(outputs (n, k), targets)` returns (n,).
The objective is Σ wᵢ ℓᵢ(θ) + ½ l2 ‖θ‖².
"""

import copy

import numpy as np
import torch
from scipy import stats
from scipy.optimize import minimize

# Parameters and predictions


def flat(module):
    """All parameters, (d,)."""
    return np.concatenate([p.detach().numpy().reshape(-1) for p in _twin(module).parameters()])


def predict_at(module, theta, X):
    """Outputs with the parameters replaced by `theta` (d,): (m, k)."""
    twin, start = _twin(module), 0
    with torch.no_grad():
        for parameter in twin.parameters():
            part = theta[start : start + parameter.numel()]
            parameter.copy_(torch.tensor(part, dtype=torch.float64).reshape(parameter.shape))
            start += parameter.numel()
        assert start == len(theta), f"theta has {len(theta)} entries, the module {start}"
        return _outputs(twin, _tensor(X)).numpy()


# Derivatives


def gradient_matrix(module, loss, X, y, weight=None):
    """L (d, n): column i is the gradient of weight_i ℓᵢ, without the penalty."""
    twin, X, y, weight = _twin(module), _tensor(X), _tensor(y), _weight(weight, len(X))
    columns = []
    for i in range(len(X)):
        value = weight[i] * loss(_outputs(twin, X[i : i + 1]), y[i : i + 1])[0]
        columns.append(_gradient(value, list(twin.parameters())).numpy())
    return np.stack(columns, axis=1)


def hessian(module, loss, X, y, l2, weight=None):
    """Second derivative of the objective, penalty included: (d, d)."""
    twin, X, y, weight = _twin(module), _tensor(X), _tensor(y), _weight(weight, len(X))
    parameters = list(twin.parameters())
    H = l2 * np.eye(len(flat(module)))
    for i in range(len(X)):
        value = weight[i] * loss(_outputs(twin, X[i : i + 1]), y[i : i + 1])[0]
        gradient = _gradient(value, parameters, create_graph=True)
        for j in range(len(gradient)):
            H[j] += _gradient(gradient[j], parameters).numpy()
    return H


def output_jacobian(module, X):
    """J (m, k, d): derivative of output a of row i with respect to the parameters."""
    twin, X = _twin(module), _tensor(X)
    rows = []
    for i in range(len(X)):
        outputs = _outputs(twin, X[i : i + 1])[0]
        rows.append(np.stack([_gradient(value, list(twin.parameters())).numpy() for value in outputs]))
    return np.stack(rows)


def loss_output_hessian(module, loss, X, y):
    """Λ (n, k, k): second derivative of ℓᵢ with respect to the outputs of row i."""
    twin, X, y = _twin(module), _tensor(X), _tensor(y)
    rows = []
    for i in range(len(X)):
        outputs = _outputs(twin, X[i : i + 1]).detach().requires_grad_()
        gradient = _gradient(loss(outputs, y[i : i + 1])[0], [outputs], create_graph=True)
        rows.append(np.stack([_gradient(entry, [outputs]).numpy() for entry in gradient]))
    return np.stack(rows)


def gauss_newton(module, loss, X, y, l2, weight=None):
    """Σ wᵢ Jᵢᵀ Λᵢ Jᵢ + l2 I: (d, d)."""
    J, curvature = output_jacobian(module, X), loss_output_hessian(module, loss, X, y)
    weight = _weight(weight, len(X))
    H = l2 * np.eye(J.shape[2])
    for i in range(len(X)):
        H += weight[i] * J[i].T @ curvature[i] @ J[i]
    return H


# Ensembles


def algorithm_1(module, loss, X, y, l2, damping, weights, X_new, curvature=None):
    """Predictions Ŷ (b, m, k) of the paper's Algorithm 1, by line number, with `weights` (b, n) given.

    H is `curvature` (d, d) as it stands, its penalty included; only without one is it computed, with `l2`.
    """
    H = hessian(module, loss, X, y, l2) if curvature is None else curvature  # Require: H
    L = gradient_matrix(module, loss, X, y)  # Require: L
    theta, weights = flat(module), np.asarray(weights, dtype=np.float64)
    (b, n), m, k = weights.shape, len(X_new), predict_at(module, theta, X_new).shape[1]
    H_damped = H + damping * np.eye(len(theta))  # line 1
    A = np.linalg.inv(H_damped) @ L  # line 2
    w_0 = np.ones(n)  # line 3; line 4, p_0 = w_0 / n, only serves the draw
    Yhat = np.zeros((b, m, k))  # line 5
    for i in range(b):  # line 6
        w_i = weights[i]  # line 7: given, not drawn
        theta_i = theta - A @ (w_i - w_0)  # line 8
        for j in range(m):  # line 9
            Yhat[i, j] = predict_at(module, theta_i, X_new[j : j + 1])[0]  # line 10
    return Yhat  # line 13 returns column_variance(Yhat)


def bootstrap_sgd(module, loss, X, y, weights, step, X_new):
    """Predictions (b, m, k) at θ* = θ − step · L w: one gradient step on the resampled rows."""
    theta, L = flat(module), gradient_matrix(module, loss, X, y)
    weights = np.asarray(weights, dtype=np.float64)
    return np.stack([predict_at(module, theta - step * (L @ w), X_new) for w in weights])


def column_variance(Yhat):
    """Variance over the members with divisor b − 1: (m, k)."""
    centred = Yhat - Yhat.mean(axis=0)
    return (centred**2).sum(axis=0) / (len(Yhat) - 1)


def member_covariance(Yhat):
    """Covariance of the outputs over the members with divisor b − 1: (m, k, k)."""
    b, m, k = Yhat.shape
    centred = Yhat - Yhat.mean(axis=0)
    covariance = np.zeros((m, k, k))
    for i in range(b):
        for j in range(m):
            covariance[j] += np.outer(centred[i, j], centred[i, j]) / (b - 1)
    return covariance


# Formulas


def paper_damping(H):
    """The smallest λ ≥ 0 that makes every eigenvalue of H + λI at least one: section 4.1 of the paper."""
    return max(0.0, 1.0 - float(np.linalg.eigvalsh(H).min()))


def closed_form(J, H, L, centred=True):
    """B (I − 11ᵀ/n) Bᵀ with B = J H⁻¹ L, or B Bᵀ when not centred: (m, k, k)."""
    n = L.shape[1]
    C = np.eye(n) - np.ones((n, n)) / n if centred else np.eye(n)
    H_inverse = np.linalg.inv(H)
    influences = [J_j @ H_inverse @ L for J_j in J]
    return np.stack([B @ C @ B.T for B in influences])


def grouped(L, group):
    """Sum the columns of L (d, n) by group label, in sorted order of the labels: (d, G)."""
    group = np.asarray(group)
    return np.stack([L[:, group == label].sum(axis=1) for label in sorted(set(group.tolist()))], axis=1)


def laplace_functional_variance(J, H):
    """J H⁻¹ Jᵀ: (m, k, k)."""
    H_inverse = np.linalg.inv(H)
    return np.stack([J_j @ H_inverse @ J_j.T for J_j in J])


def jackknife_variance_of(statistic, n):
    """(n − 1)/n Σ (Tᵢ − T̄)², where Tᵢ deletes row i and scales the other weights by n/(n − 1)."""
    values = []
    for i in range(n):
        weights = np.full(n, n / (n - 1))
        weights[i] = 0.0
        values.append(statistic(weights))
    values = np.stack(values)
    return (n - 1) / n * ((values - values.mean(axis=0)) ** 2).sum(axis=0)


def hc3_gradients(X_design, y, l2=0.0):
    """Columns xᵢ (fᵢ − yᵢ)/(1 − hᵢ) of the (ridge) least-squares fit, hᵢ its leverage: (p, n)."""
    inverse = np.linalg.inv(X_design.T @ X_design + l2 * np.eye(X_design.shape[1]))
    beta = inverse @ X_design.T @ y
    columns = []
    for x_i, y_i in zip(X_design, y, strict=True):
        h_i = x_i @ inverse @ x_i
        columns.append(x_i * (x_i @ beta - y_i) / (1.0 - h_i))
    return np.stack(columns, axis=1)


# A calibrated variance of one output, squared error: G (n, d) and G_new (m, d) are its gradients, r = f − y (n,)


def metric_products(G, l2, G_new=None):
    """M = G_new (GᵀG + l2 I)⁻¹ Gᵀ with an explicit inverse: (m, n)."""
    return (G if G_new is None else G_new) @ np.linalg.inv(G.T @ G + l2 * np.eye(G.shape[1])) @ G.T


def own_products(G, l2, G_new):
    """gᵀ(GᵀG + l2 I)⁻¹g of each new row: (m,)."""
    inverse = np.linalg.inv(G.T @ G + l2 * np.eye(G.shape[1]))
    return np.array([g @ inverse @ g for g in G_new])


def left_out_slopes(G, r, l2):
    """r / (1 − h), and the leverages h, (n,) each."""
    h = np.diag(metric_products(G, l2))
    return r / (1 - h), h


def left_out_rue(G, r, l2, scale=1.0, shared=1.0):
    """RUE at every training row without the row: scale·(Σb² − shared·(Σb)²/n), bⱼ = Mᵢⱼrⱼ/(1 − hᵢ), j ≠ i: (n,)."""
    M, n = metric_products(G, l2), len(r)
    found = np.empty(n)
    for i in range(n):
        b = np.array([M[i, j] * r[j] / (1 - M[i, i]) for j in range(n) if j != i])
        found[i] = scale * ((b**2).sum() - shared * b.sum() ** 2 / n)
    return found


def squared_cosines(G, l2, G_new=None):
    """κ (m, n) between new and training gradients in the metric of (GᵀG + l2 I)⁻¹; own rows are zero without G_new."""
    root = np.linalg.cholesky(np.linalg.inv(G.T @ G + l2 * np.eye(G.shape[1])))
    rows, new = G @ root, (G if G_new is None else G_new) @ root
    cosine = (new / np.linalg.norm(new, axis=1)[:, None]) @ (rows / np.linalg.norm(rows, axis=1)[:, None]).T
    kappa = cosine**2
    if G_new is None:
        np.fill_diagonal(kappa, 0.0)
    return kappa


def smoothed(kappa, values, power, weight=None):
    """Σ w κᵖ v / Σ w κᵖ, in logarithms: (m,)."""
    weight = np.ones(len(values)) if weight is None else weight
    with np.errstate(divide="ignore"):
        logs = power * np.log(kappa) + np.log(weight)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares @ values / shares.sum(axis=1)


def mean_nll(weights, terms, r, degrees):
    """Mean −log p(r) with variances Σ weights · terms (t, n), under scipy's normal or Student-t of that variance."""
    deviation = np.sqrt(np.asarray(weights) @ terms)
    if np.isinf(degrees):
        return -stats.norm.logpdf(r, scale=deviation).mean()
    return -stats.t.logpdf(r, degrees, scale=deviation * np.sqrt((degrees - 2) / degrees)).mean()


def least_nll(terms, r, least, degrees):
    """The smallest mean NLL over weights of at least `least`, by Nelder–Mead from many starts: (weights, value)."""
    least, size = np.asarray(least, dtype=float), (r**2).mean() / np.where(terms.mean(1) > 0, terms.mean(1), 1.0)

    def value(x):
        return mean_nll(least + x**2 * size + 1e-12 * size[0] * (np.arange(len(size)) == 0), terms, r, degrees)

    best = None
    for start in (*np.eye(len(least))[1:4], np.full(len(least), 0.5)):
        x = start + 0.05
        for _ in range(2):  # a fresh simplex each time
            found = minimize(value, x, method="Nelder-Mead", options={"maxfev": 2000, "xatol": 1e-9, "fatol": 1e-12})
            x = found.x
        best = found if best is None or found.fun < best.fun else best
    return least + best.x**2 * size, float(best.fun)


def usual_support(G, r, l2, X):
    """What all but one in a hundred training rows keep: leverage, dissimilarity, distance in each feature (p,)."""
    _, h = left_out_slopes(G, r, l2)
    reach, alone = h / (1 - h), 1 - squared_cosines(G, l2).max(axis=1)
    apart = np.sort(np.abs(X[:, None] - X[None]), axis=1)[:, 1]
    each = [np.quantile(apart[:, j], 1 - 0.01 / X.shape[1]) for j in range(X.shape[1])]
    return np.quantile(reach, 0.99), np.quantile(alone, 0.99), np.array(each)


def calibrated_variance(G, r, l2, X, G_new, X_new, weights, power, expected):
    """ν², RUE, smoother, `expected` errors (m,) and scarcity, weighed and guarded: total, guard, scarce, (m,) each."""
    slopes, _ = left_out_slopes(G, r, l2)
    noise, own = (slopes**2).mean(), own_products(G, l2, G_new)
    B = metric_products(G, l2, G_new) * r
    rue = (B**2).sum(1) - B.sum(1) ** 2 / len(r)
    kappa = squared_cosines(G, l2, G_new)
    terms = np.stack([np.full(len(own), noise), rue, smoothed(kappa, slopes**2, power), expected, noise * own])
    total = weights @ terms
    high, lonely, distance = usual_support(G, r, l2, X)
    apart = np.abs(X_new[:, None] - X[None]).min(axis=1) > distance + 1e-5 * X.std(axis=0)
    beyond, unlike = own > high, (1 - kappa.max(axis=1) > lonely) | apart.any(axis=1)
    overall = np.maximum(total, max(noise, (r**2).mean()) * (1 + own))
    guarded = np.where(beyond, overall, np.where(unlike, np.sqrt(total * overall), total))
    return guarded, guarded - total, beyond | unlike


# Helpers


def softmax_rows(X, k):
    """∂f/∂θ (n, k, d) of k logits Wx + b, with θ the rows of W and then b."""
    eye = np.eye(k)
    return np.stack([np.hstack([np.kron(eye, x[None]), eye]) for x in X])


def softmax_parts(J, theta, y):
    """Slopes (n, k) and curvatures (n, k, k) of −log p of the labels."""
    logits = J @ theta
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return p - np.eye(J.shape[1])[y], p[:, :, None] * np.eye(J.shape[1]) - p[:, :, None] * p[:, None, :]


def softmax_fit(J, y, penalty, start=None):
    """θ by Newton's method with a pseudo-inverse: what no probability feels never moves. `penalty` is (d,)."""
    theta = np.zeros(J.shape[2]) if start is None else start
    for _ in range(100):
        slope, curvature = softmax_parts(J, theta, y)
        gradient = np.einsum("nkd,nk->d", J, slope) + penalty * theta
        if np.abs(gradient).max() < 1e-10:
            return theta
        H = np.einsum("nkd,nkj,nje->de", J, curvature, J) + np.diag(penalty)
        theta = theta - np.linalg.pinv(H, rcond=1e-10, hermitian=True) @ gradient
    raise AssertionError("Newton's method did not converge")


def softmax_left_out(J, y, theta, penalty):
    """Every row without itself, by one Newton step with an explicit pseudo-inverse: logits (n, k), leverages (n,)."""
    slope, curvature = softmax_parts(J, theta, y)
    inverse = np.linalg.pinv(
        np.einsum("nkd,nkj,nje->de", J, curvature, J) + np.diag(penalty), rcond=1e-10, hermitian=True
    )
    own = J @ inverse @ J.transpose(0, 2, 1)
    hat = curvature @ own
    moved = own @ np.linalg.solve(np.eye(J.shape[1]) - hat, slope[:, :, None])
    return J @ theta + moved[:, :, 0], np.trace(hat, axis1=1, axis2=2)


def _twin(module):
    """A float64 copy on the CPU in eval mode, every parameter free; the module itself stays as it was."""
    return copy.deepcopy(module).cpu().double().eval().requires_grad_(True)


def _tensor(values):
    tensor = torch.as_tensor(values).cpu()
    return tensor.double() if tensor.is_floating_point() else tensor


def _weight(weight, n):
    return np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)


def _outputs(module, X):
    return module(X).reshape(len(X), -1)


def _gradient(value, inputs, create_graph=False):
    """Gradient of a scalar as one vector; zero where the value does not depend on an input."""
    if not value.requires_grad:  # the derivative of a linear function has no graph
        return torch.zeros(sum(v.numel() for v in inputs), dtype=torch.float64)
    parts = torch.autograd.grad(value, inputs, retain_graph=True, create_graph=create_graph, materialize_grads=True)
    return torch.cat([part.reshape(-1) for part in parts])
