"""How other libraries are asked for what an audit of a large network is: fitted once, then a spread for new rows.

None of them is needed by `rue`. Each is imported when it is asked for, and one that is missing says so.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from scale import timed
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

LAYERS = (nn.Linear, nn.Conv2d)  # what Kronecker factors are made for in these libraries
JACOBIAN_BYTES = 2**34  # of the rows whose Jacobians laplace-torch may hold at once


class Fitted(NamedTuple):
    """A fit: how to audit rows, the parameters it speaks of, its seconds, and those that do not grow with the rows."""

    audit: Callable[[Tensor], Any]
    parameters: int
    seconds: float
    fixed: float = 0.0


class Rival(NamedTuple):
    """A library, in words, and its fit of a network to rows in batches of a size."""

    computes: str
    fit: Callable[[nn.Module, Tensor, Tensor, int], Fitted]


class Rows(Dataset):
    """Rows that lie on the device: a batch is one look-up, so that no library waits for a loader."""

    def __init__(self, X: Tensor, y: Tensor):
        self.X, self.y = X, y

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return self.X[row], self.y[row]

    def __getitems__(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        return self.X[rows], self.y[rows]


def as_it_is(batch: Any) -> Any:
    """A batch that is already together."""
    return batch


def in_batches(X: Tensor, y: Tensor, batch: int) -> DataLoader:
    """The rows in order."""
    return DataLoader(Rows(X, y), batch_size=batch, collate_fn=as_it_is)


def only_layers(network: nn.Module) -> list[str]:
    """Freeze what is not a weight of a linear or convolutional layer; the names of these layers that are trained."""
    layers = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, LAYERS) and module.weight.requires_grad
    }
    kept = {id(parameter) for module in layers.values() for parameter in module.parameters()}
    for parameter in network.parameters():
        parameter.requires_grad_(id(parameter) in kept)
    return list(layers)


def count(network: nn.Module) -> int:
    """Trained parameters."""
    return sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)


def by_laplace(network: nn.Module, X: Tensor, y: Tensor, batch: int, *, layers: str, structure: str, by: str) -> Fitted:
    """laplace-torch: a posterior, then the linearised predictive distribution with all logits' covariances."""
    from laplace import Laplace, curvature

    if layers == "all":
        only_layers(network)  # both of its backends refuse norms or embeddings
    fitted = Laplace(
        network,
        "classification",
        subset_of_weights=layers,
        hessian_structure=structure,
        backend=getattr(curvature, by),
    )
    seconds, _ = timed(lambda: fitted.fit(in_batches(X, y, batch)))
    fixed = timed(lambda: fitted.H_facs.decompose())[0] if structure == "kron" else 0.0  # done once more to be timed

    def audit(rows: Tensor, piece: int) -> None:
        for part in rows.split(piece):
            fitted(part, pred_type="glm", link_approx="probit").cpu()

    with torch.no_grad():
        outputs = network(X[:2]).shape[1]
    most = max(JACOBIAN_BYTES // (4 * outputs * fitted.n_params), 1)
    piece = _fastest(lambda piece: audit(X[:piece], piece), min(most, batch))
    return Fitted(partial(audit, piece=piece), fitted.n_params, seconds, fixed)


def _fastest(take: Callable[[int], Any], most: int) -> int:
    """Of 1, 4, 16, ... rows at once those with the least seconds a row: a Jacobian of all costs their square."""
    best, least = 1, float("inf")
    for piece in (4**power for power in range(10) if 4**power <= most):
        take(piece)
        each = timed(lambda piece=piece: take(piece))[0] / piece
        if each > 2 * least:
            break
        best, least = min((best, least), (piece, each), key=lambda found: found[1])
    return best


def by_kronfluence(network: nn.Module, X: Tensor, y: Tensor, batch: int, *, half: bool) -> Fitted:
    """kronfluence: EK-FAC factors of the Fisher matrix, then gᵀH⁻¹g of the margin's gradient for every row."""
    from kronfluence.analyzer import Analyzer, prepare_model
    from kronfluence.task import Task
    from kronfluence.utils.common import factor_arguments, score_arguments
    from kronfluence.utils.dataset import DataLoaderKwargs

    class Margin(Task):
        """Labels are drawn from the model while factors are fitted; scores are of the margin."""

        def compute_train_loss(self, batch: Any, model: nn.Module, sample: bool = False) -> Tensor:
            outputs = model(batch[0])
            if not sample:
                return self._margin(outputs)
            drawn = torch.multinomial(outputs.detach().float().softmax(1), 1).flatten()
            return functional.cross_entropy(outputs, drawn, reduction="sum")

        def compute_measurement(self, batch: Any, model: nn.Module) -> Tensor:
            return self._margin(model(batch[0]))

        def get_influence_tracked_modules(self) -> list[str]:
            return names

        @staticmethod
        def _margin(outputs: Tensor) -> Tensor:
            first, second = outputs.topk(2).values.unbind(1)
            return (first - second).sum()

    names = only_layers(network)
    covered, task, folder = count(network), Margin(), tempfile.TemporaryDirectory()
    analyzer = Analyzer("rival", prepare_model(network, task), task, disable_tqdm=True, output_dir=folder.name)
    analyzer.set_dataloader_kwargs(DataLoaderKwargs(collate_fn=as_it_is))
    kind = "smart_low_precision" if half else "default"
    named = {"factors_name": "factors", "factor_args": getattr(factor_arguments, f"{kind}_factor_arguments")()}
    pieces = {"dataset": Rows(X, y), "per_device_batch_size": batch}
    covariances, _ = timed(lambda: analyzer.fit_covariance_matrices(**named, **pieces))
    bases, _ = timed(lambda: analyzer.perform_eigendecomposition(**named))
    scales, _ = timed(lambda: analyzer.fit_lambda_matrices(**named, **pieces))

    def audit(rows: Tensor) -> None:
        analyzer.compute_self_scores(
            "scores",
            "factors",
            Rows(rows, torch.zeros(len(rows), dtype=torch.long, device=rows.device)),
            per_device_train_batch_size=batch,
            score_args=getattr(score_arguments, f"{kind}_score_arguments")(damping_factor=None),
            overwrite_output_dir=True,
        )
        analyzer.load_self_scores("scores")
        assert folder  # the factors lie there: it is removed with this function

    return Fitted(audit, covered, covariances + bases + scales, fixed=bases)


class OneRowToo(nn.Module):
    """A network that takes one row without a batch axis: dattri tries the first row so."""

    def __init__(self, network: nn.Module, axes: int):
        super().__init__()
        self.network, self.axes = network, axes

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x if x.ndim == self.axes else x[None])


def by_dattri(network: nn.Module, X: Tensor, y: Tensor, batch: int) -> Fitted:
    """dattri's LoGra: 8×8 projected gradients of a linear layer, a block of curvature for each, influence on losses."""
    from dattri.algorithm import LoGraAttributor
    from dattri.task import AttributionTask

    names = [f"network.{name}" for name in only_layers(network)]
    wrapped, folder = OneRowToo(network, X.ndim), tempfile.TemporaryDirectory()

    def loss(model: nn.Module, rows: tuple[Tensor, Tensor], device: str) -> Tensor:  # noqa: ARG001 - dattri hands it over
        return functional.cross_entropy(model(rows[0]), rows[1], reduction="sum")

    attributor = LoGraAttributor(
        AttributionTask(loss, wrapped, wrapped.state_dict()),
        layer_names=[name for name in names if isinstance(wrapped.get_submodule(name), nn.Linear)],
        damping=1e-4,
        device=str(X.device),
        proj_dim=64,
        offload="none",
        cache_dir=folder.name,
    )
    training = in_batches(X, y, batch)
    with torch.compiler.set_stance("force_eager"):  # it compiles for every layer, which takes longer than the fit
        seconds, _ = timed(lambda: attributor.cache(training))

    def audit(rows: Tensor) -> None:
        labels = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
        with torch.compiler.set_stance("force_eager"):
            attributor.attribute(training, in_batches(rows, labels, batch)).square().sum(0).cpu()
        assert folder  # as above

    covered = sum(p.numel() for name in attributor.layer_names for p in wrapped.get_submodule(name).parameters())
    return Fitted(audit, covered, seconds)


RIVALS = {
    "laplace-kron": Rival(
        "Kronecker posterior of linear and convolutional layers, covariance of all logits",
        partial(by_laplace, layers="all", structure="kron", by="CurvlinopsGGN"),
    ),
    "laplace-kron-asdl": Rival(
        "Kronecker posterior as above, by the backend asdl",
        partial(by_laplace, layers="all", structure="kron", by="AsdlGGN"),
    ),
    "laplace-diag": Rival(
        "diagonal posterior of linear and convolutional layers, covariance of all logits",
        partial(by_laplace, layers="all", structure="diag", by="AsdlGGN"),
    ),
    "laplace-last": Rival(
        "Kronecker posterior of the last layer, covariance of all logits",
        partial(by_laplace, layers="last_layer", structure="kron", by="CurvlinopsGGN"),
    ),
    "kronfluence": Rival(
        "EK-FAC factors of linear and convolutional layers, posterior variance of the margin",
        partial(by_kronfluence, half=False),
    ),
    "kronfluence-half": Rival(
        "EK-FAC factors of linear and convolutional layers in bfloat16, posterior variance of the margin",
        partial(by_kronfluence, half=True),
    ),
    "dattri-logra": Rival(
        "projected gradients of linear layers, 64 numbers a layer, squared influences of all rows on a loss", by_dattri
    ),
}
