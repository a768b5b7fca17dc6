"""Predictions for every token of a sequence, where whole sequences are the resampling units.

There are two forms that agree. Tokens as rows: `AtPosition(net)` with `rows(inputs, labels)` audits single tokens.
Sequences as rows: `Flattened(net)` with `summed("cross_entropy")` audits all tokens of a sequence together, including
their covariances; all sequences must be padded to one length.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rue.core.concepts import Inputs
from rue.core.errors import DataError, ShapeError
from rue.core.nested import leaves, map_leaves
from rue.data.rows import Data
from rue.losses import Loss, as_loss
from rue.models.torch.calling import arguments, audited_output

IGNORED = -100  # the label that torch and transformers use for tokens to ignore


class AtPosition(nn.Module):
    """The outputs (m, length, k) of a net for sequences, at one position of each: (m, k).

    >>> import rue
    >>> net = nn.Embedding(5, 2)  # a net that looks at one token at a time
    >>> sequences, labels = torch.tensor([[1, 2, 3], [4, 1, 0]]), torch.tensor([[0, 1, 0], [1, 0, -100]])
    >>> model = rue.wrap(AtPosition(net), loss="cross_entropy", l2=1.0)
    >>> audit = rue.LinearRUE().fit(model, rows(sequences, labels)).audit(places(sequences[:1]))
    >>> audit.std.shape, audit.facts["n"], audit.facts["units"]
    ((3, 2), 5, 2)
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, inputs: Inputs, position: Tensor) -> Tensor:
        """Sequences, as the net takes them, and the position (m,) in each."""
        outputs = _token_outputs(self.net, inputs)
        at = position[:, None, None].expand(-1, 1, outputs.shape[-1])
        return outputs.gather(1, at).squeeze(1)


class Flattened(nn.Module):
    """The outputs (m, length, k) of a net for sequences, side by side: (m, length · k).

    >>> import rue
    >>> net, sequences = nn.Embedding(5, 2), torch.tensor([[1, 2, 3], [4, 1, 0]])
    >>> model = rue.wrap(Flattened(net), loss=summed("cross_entropy"), l2=1.0)
    >>> data = (sequences, torch.tensor([[0, 1, 0], [1, 0, -100]]))
    >>> rue.LinearRUE().fit(model, data).audit(sequences).std.shape  # three tokens, two outputs each
    (2, 6)
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, *positional: Any, **named: Any) -> Tensor:
        """Outputs (m, length · k) for inputs in the form that the net takes."""
        return _token_outputs(self.net, named or (positional[0] if len(positional) == 1 else positional)).flatten(1)


def rows(inputs: Any, labels: Any, ignore: int = IGNORED) -> Data:
    """Training data for `AtPosition`: a row for each token with a label, in the group of its sequence.

    `inputs` are as for the net, `labels` (n, length); what is labelled `ignore` is left out. For a language model that
    predicts the next token, shift the labels by one first.
    """
    try:
        labels = torch.as_tensor(labels)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"labels are no table (n, length) of tokens: {error}; pad them with {IGNORED}") from error
    if labels.dim() != 2:
        raise ShapeError(f"labels have shape {tuple(labels.shape)}, expected one for each token (n, length)")
    where = labels != ignore
    sequence = where.nonzero()[:, 0]
    return Data(places(inputs, where), labels[where], group=sequence.numpy())


def places(inputs: Any, where: Any = None) -> dict[str, Any]:
    """Inputs for `AtPosition`: a row for each token where the mask (n, length) is true, sequence by sequence.

    The default mask is the inputs' "attention_mask" if there is one, else every token.
    """
    if where is None:
        where = inputs.get("attention_mask") if hasattr(inputs, "get") else None
    if where is None:
        where = torch.ones(leaves(inputs)[0].shape[:2])
    where = torch.as_tensor(where).bool()
    if where.dim() != 2 or len(where) != len(leaves(inputs)[0]):
        raise ShapeError(
            f"the mask has shape {tuple(where.shape)}, expected one value for each token of "
            f"{len(leaves(inputs)[0])} sequences (n, length)"
        )
    sequence, position = where.nonzero().T
    if not len(sequence):
        raise DataError("no token is left to look at; give a mask or labels of which some count")
    return {"inputs": map_leaves(lambda leaf: torch.as_tensor(leaf)[sequence], inputs), "position": position}


def summed(loss: str | Loss | Callable[..., Tensor], ignore: int = IGNORED) -> Loss:
    """The loss of a sequence, for `Flattened`: the sum over its tokens, except those labelled `ignore`.

    >>> summed("cross_entropy").value(torch.zeros(1, 6), torch.tensor([[0, 1, -100]]))  # 2 log 2
    tensor([1.3863])
    """
    tokens = _SummedOverTokens(as_loss(loss), ignore)
    hessian = None if tokens.rule.hessian is None else tokens.hessian
    return Loss(f"sum of {tokens.rule.name}", tokens.value, hessian=hessian)


@dataclass(frozen=True)
class _SummedOverTokens:
    """The loss of a token, summed over the tokens of a sequence that count."""

    rule: Loss
    ignore: int

    def value(self, outputs: Tensor, targets: Tensor) -> Tensor:
        flat, labels, counts = self._tokens(outputs, targets)
        return self.rule.value(flat, labels).view(counts.shape).masked_fill(~counts, 0.0).sum(1)

    def hessian(self, outputs: Tensor, targets: Tensor) -> Tensor:
        flat, labels, counts = self._tokens(outputs, targets)
        assert self.rule.hessian is not None
        own = self.rule.hessian(flat, labels).masked_fill(~counts.reshape(-1, 1, 1), 0.0).unflatten(0, counts.shape)
        blocks = torch.diag_embed(own.permute(0, 2, 3, 1))  # (n, k, k, length, length)
        return blocks.permute(0, 3, 1, 4, 2).reshape(len(outputs), outputs.shape[1], outputs.shape[1])

    def _tokens(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Any, Tensor]:
        if targets.dim() != 2 or outputs.shape[1] % targets.shape[1]:
            raise ShapeError(
                f"targets have shape {tuple(targets.shape)} for outputs {tuple(outputs.shape)}, expected one label for "
                "each token (n, length); pad all sequences to one length"
            )
        counts = targets != self.ignore
        flat = outputs.reshape(targets.numel(), -1)
        labels = targets.masked_fill(~counts, 0).reshape(-1)
        fit = self.rule.fit_targets
        return flat, labels if fit is None else fit(labels, flat.shape[1]), counts


def _token_outputs(net: nn.Module, inputs: Inputs) -> Tensor:
    positional, named = arguments(net, inputs)
    outputs = audited_output(net(*positional, **named))
    if outputs.dim() == 2:
        return outputs.unsqueeze(-1)
    if outputs.dim() != 3:
        raise ShapeError(f"the net returned {tuple(outputs.shape)}, expected the outputs of tokens (m, length, k)")
    return outputs
