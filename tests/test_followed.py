"""Few outputs of every row are followed: the others are fixed, which an oracle writes as rows of zeros."""

import numpy as np
import pytest
import torch
from torch import nn

import rue
from rue.core.followed import Followed
from rue.core.solve.sketch import likeliest

K = 7


@pytest.fixture(scope="module")
def trained():
    """A network of seven classes whose rows are often wrong, and its exact Jacobians."""
    torch.manual_seed(0)
    X = torch.randn(60, 5, dtype=torch.float64)
    y = (X[:, :3].argmax(1) + 3 * (X[:, 3] > 1).long()).clamp(max=K - 1)
    y[::9] = K - 1  # labels that nothing tells
    net = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, K)).double()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(X), y).backward()
        optimizer.step()
    return net, X, y


def jacobians(net, X):
    """∂f/∂θ (n, k, d), output by output."""
    rows = []
    for row in X:
        outputs = net(row[None])[0]
        slopes = [torch.autograd.grad(value, list(net.parameters()), retain_graph=True) for value in outputs]
        rows.append(torch.stack([torch.cat([part.flatten() for part in slope]) for slope in slopes]))
    return torch.stack(rows).numpy()


def fixed_but(J, at):
    """J with zeros for all outputs that are not followed."""
    kept = np.zeros(J.shape[:2], dtype=bool)
    np.put_along_axis(kept, at, True, axis=1)
    return J * kept[..., None]


def followed_by_hand(net, X, y, count):
    """The likeliest classes of every row by sorting, with its label in the last place where that is missing."""
    at = np.argsort(-net(X).detach().numpy(), axis=1)[:, :count]
    if y is not None:
        for row, label in enumerate(y.tolist()):
            if label not in at[row]:
                at[row, -1] = label
    return at


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("meat", ["HC0", "HC3"])
def test_followed_classes_are_an_audit_whose_other_rows_are_zeros(trained, count, meat):
    net, X, y = trained
    l2, new = 0.5, X[:9] + 0.1
    J = fixed_but(jacobians(net, X), followed_by_hand(net, X, y, count))
    logits = net(X).detach()
    shares = logits.softmax(1).numpy()
    curvature = np.stack([np.diag(p) - np.outer(p, p) for p in shares])
    H = np.einsum("nia,nij,njb->ab", J, curvature, J) + l2 * np.eye(J.shape[2])
    slope = shares - np.eye(K)[y.numpy()]
    if meat == "HC3":
        M = J @ np.linalg.inv(H) @ J.transpose(0, 2, 1)
        slope = np.linalg.solve(np.eye(K) - curvature @ M, slope[..., None])[..., 0]
    L = np.einsum("nka,nk->na", J, slope)
    L = L - L.mean(0)
    steps = L @ np.linalg.inv(H)
    moved = fixed_but(jacobians(net, new), followed_by_hand(net, new, None, count)) @ steps.T
    expected = moved @ moved.transpose(0, 2, 1)

    model = rue.wrap(net, loss=nn.CrossEntropyLoss(reduction="sum"), l2=l2)
    whole = rue.solve.Sketch(100 * J.shape[2], followed=count)  # as many coordinates as parameters: nothing is combined
    audit = rue.LinearRUE(solver=whole, meat=meat).fit(model, (X, y)).audit(new)
    np.testing.assert_allclose(audit.covariance, expected, rtol=1e-7, atol=1e-12)


def test_all_classes_followed_are_all_classes(trained):
    net, X, y = trained
    model = rue.wrap(net, loss=nn.CrossEntropyLoss())
    few, every = (
        rue.ClassifierRUE(solver=rue.solve.Sketch(9_000, followed=count)).fit(model, (X, y)).audit(X[:9])
        for count in (K, None)
    )
    np.testing.assert_allclose(few.score, every.score, rtol=1e-6)
    np.testing.assert_allclose(few.covariance, every.covariance, rtol=1e-6, atol=1e-12)


def test_what_is_followed_is_put_among_zeros_and_found_again():
    rows = Followed(torch.arange(12.0).view(2, 2, 3), torch.tensor([[3, 0], [1, 2]]), 4)
    matrices = torch.randn(2, 4, 4)
    small = rows.among(matrices)
    for row, at in enumerate(rows.at.tolist()):
        assert torch.equal(small[row], matrices[row][at][:, at])
        assert torch.equal(rows.whole()[row, at], rows.values[row])
        assert torch.equal(rows.blocks(small)[:][row][at][:, at], small[row])
    assert float(rows.whole().abs().sum()) == float(rows.values.abs().sum())
    turned = rows.blocks(small, beside=1.0)[:]
    assert turned[0, 1, 1] == turned[0, 2, 2] == 1
    assert turned[0, 1, 2] == 0


def test_soft_labels_follow_their_likeliest_class():
    logits, targets = torch.tensor([[3.0, 2.0, 0.0]]), torch.tensor([[0.1, 0.1, 0.8]])
    assert likeliest(logits, 2, targets).tolist() == [[0, 2]]


def test_a_fit_says_where_classes_that_are_not_followed_are_likely(trained):
    _, X, y = trained
    torch.manual_seed(0)
    model = rue.wrap(nn.Linear(5, K).double(), loss=nn.CrossEntropyLoss(reduction="sum"), l2=0.5)
    with pytest.warns(rue.errors.RueWarning, match="followed hold"):
        rue.LinearRUE(solver=rue.solve.Sketch(9_000, followed=2)).fit(model, (X, y))
