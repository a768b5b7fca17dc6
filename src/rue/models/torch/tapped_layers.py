"""What every kind of layer gives for its parameters: gradients of rows, combined, from what went in and comes back."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rue.models.torch.blocks import TappedBlock
from rue.models.torch.recurrent import CELLS, LAYERS, unrolled
from rue.models.torch.taps import Pull, RowAxis, Tapping


def _outer(block: TappedBlock, entered: Tensor) -> Pull:
    """Σ over positions of (what comes back) × (what went in); `entered` (..., groups·q) is combined already."""

    def pull(back: Tensor, axis: RowAxis) -> Tensor:
        return block.products(_by_position(axis.first(block.of_rows(back))), _by_position(axis.first(entered)))

    return pull


def _other_way(block: TappedBlock, entered: Tensor) -> Pull:
    """As `_outer`, where the rows of the matrix belong to what went in: `entered` is (..., groups·p)."""

    def pull(back: Tensor, axis: RowAxis) -> Tensor:
        return block.products(_by_position(axis.first(entered)), _by_position(axis.first(block.of_columns(back))))

    return pull


def _by_position(values: Tensor) -> Tensor:
    """All axes between rows and values as one, at the end: (c, ·, positions)."""
    return values.reshape(len(values), -1, values.shape[-1]).mT


def _summed(back: Tensor, axis: RowAxis, kept: int) -> Tensor:
    """The sum of what comes back over all axes but the rows and the last `kept`: (c, b)."""
    rows = axis.first(back)
    return rows.flatten(1, rows.dim() - kept - 1).sum(1).flatten(1) if rows.dim() > kept + 1 else rows.flatten(1)


def _linear(
    taps: Tapping,
    function: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    axis: RowAxis | None = None,
) -> Tensor:
    output = function(input, weight, bias)
    output = taps.matrix(
        output,
        weight,
        lambda block: _outer(block, block.of_columns(input.detach())),
        lambda other: function(input, other),
        axis,
    )
    return taps.vector(output, bias, lambda back, axis: _summed(back, axis, 1), axis)


def _product(taps: Tapping, function: Any, input: Tensor, weight: Tensor) -> Tensor:
    """Input times weight (b, a), as with `addmm` and `@`: the transpose of a linear layer's weight."""
    output: Tensor = function(input, weight)
    if taps.place(input) is not None:
        taps.leave(input)
        taps.leave(weight)
        return output
    if taps.place(weight) is None:
        return output
    if weight.dim() != 2:
        taps.leave(weight)
        return output
    turned = _turned(weight)

    def entering(block: TappedBlock) -> Pull:
        if turned is weight:  # rows of the matrix go with the input
            return _other_way(block, block.of_rows(input.detach()))
        return _outer(block, block.of_columns(input.detach()))

    return taps.matrix(output, turned, entering, lambda other: input @ (other if turned is weight else other.T))


def _turned(weight: Tensor) -> Tensor:
    """A transposed view of a stored matrix, turned back; any other matrix as it is."""
    return weight.T if weight.stride(0) == 1 and weight.stride(1) > 1 and not weight.is_contiguous() else weight


def _addmm(taps: Tapping, function: Any, bias: Tensor, input: Tensor, weight: Tensor, **scale: Any) -> Tensor:
    if scale:
        for part in (bias, input, weight):
            taps.leave(part)
        return function(bias, input, weight, **scale)
    output = _product(taps, torch.mm, input, weight) + bias
    return taps.vector(output, bias, lambda back, axis: _summed(back, axis, 1)) if bias.dim() == 1 else output


def _convolution(
    taps: Tapping,
    function: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    output = function(input, weight, bias, stride, padding, dilation, groups)

    def entering(block: TappedBlock) -> Pull:
        filters = torch.eye(weight[0].numel()).to(weight) if block.columns is None else block.columns.to(weight)
        filters = filters.reshape(-1, *weight.shape[1:]).repeat(groups, *[1] * (weight.dim() - 1))
        with torch.no_grad():
            entered = function(input, filters, None, stride, padding, dilation, groups)
        entered = entered.unflatten(1, (groups, -1)).flatten(3)  # (c, groups, ·, positions)
        return lambda back, _: _of_channels(block, entered, back, groups)

    output = taps.matrix(
        output, weight, entering, lambda other: function(input, other, None, stride, padding, dilation, groups)
    )
    return taps.vector(output, bias, lambda back, _: back.flatten(2).sum(2))


def _of_channels(block: TappedBlock, entered: Tensor, back: Tensor, groups: int) -> Tensor:
    """The coordinates of a convolution's weight, whose output channels are divided into groups."""
    apart = back.flatten(2).unflatten(1, (groups, -1))  # (c, groups, a/groups, positions)
    if groups == 1:
        left = apart[:, 0] if block.rows is None else block.rows.to(back) @ apart[:, 0]
        return block.products(left, entered[:, 0])
    channels = torch.eye(apart.shape[2] * groups).to(back) if block.rows is None else block.rows.to(back)
    each = channels.unflatten(1, (groups, -1))  # the rows' part in each group of channels
    parts = [block.products(each[:, g] @ apart[:, g], entered[:, g]) for g in range(groups)]
    return torch.stack(parts).sum(0)


def _embedding(
    taps: Tapping,
    function: Any,
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    *others: Any,
    **named: Any,
) -> Tensor:
    output = function(input, weight, padding_idx, *others, **named)

    counted = (torch.ones_like(input) if padding_idx is None else input != padding_idx % len(weight)).unsqueeze(-1)

    def entering(block: TappedBlock) -> Pull:  # the row of padding has no gradient
        if block.whole:
            return _scattered(block, input, counted)
        table = torch.eye(len(weight)).to(weight) if block.rows is None else block.rows.to(weight).T
        return _other_way(block, functional.embedding(input, table) * counted)  # (..., p)

    return taps.matrix(output, weight, entering, lambda other: functional.embedding(input, other) * counted)


def _scattered(block: TappedBlock, tokens: Tensor, counted: Tensor) -> Pull:
    """What comes back to a table of which every row is kept, added to the rows of its tokens."""

    def pull(back: Tensor, axis: RowAxis) -> Tensor:
        columns = axis.first(block.of_columns(back * counted))
        many, width = len(columns), columns.shape[-1]
        values, found = columns.reshape(many, -1, width), axis.first(tokens.unsqueeze(-1)).reshape(many, -1, 1)
        table = values.new_zeros(many, block.place.shape[0], width)
        return table.scatter_add_(1, found.expand_as(values), values).flatten(1)

    return pull


def _normalised(taps: Tapping, output: Tensor, plain: Tensor, weight: Any, bias: Any, kept: int) -> Tensor:
    """Tap a norm of the last `kept` axes, whose output without weights is `plain`."""
    output = taps.vector(output, weight, lambda back, axis: _summed(back * plain, axis, kept))
    return taps.vector(output, bias, lambda back, axis: _summed(back, axis, kept))


def _layer_norm(
    taps: Tapping,
    function: Any,
    input: Tensor,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: Any = 1e-5,
) -> Tensor:
    output = function(input, normalized_shape, weight, bias, eps)
    if taps.place(weight) is None and taps.place(bias) is None:
        return output
    with torch.no_grad():
        plain = function(input, normalized_shape, None, None, eps)
    return _normalised(taps, output, plain, weight, bias, len(normalized_shape))


def _rms_norm(
    taps: Tapping, function: Any, input: Tensor, normalized_shape: Any, weight: Any = None, eps: Any = None
) -> Tensor:
    output = function(input, normalized_shape, weight, eps)
    if taps.place(weight) is None:
        return output
    with torch.no_grad():
        plain = function(input, normalized_shape, None, eps)
    return _normalised(taps, output, plain, weight, None, len(normalized_shape))


def _channel_norm(taps: Tapping, output: Tensor, plain: Tensor, weight: Any, bias: Any) -> Tensor:
    """Tap a norm whose weights belong to the second axis, the channels."""
    output = taps.vector(
        output, weight, lambda back, _: (back * plain).flatten(2).sum(2) if back.dim() > 2 else back * plain
    )
    return taps.vector(output, bias, lambda back, _: back.flatten(2).sum(2) if back.dim() > 2 else back)


def _group_norm(
    taps: Tapping, function: Any, input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: Any = 1e-5
) -> Tensor:
    output = function(input, num_groups, weight, bias, eps)
    if taps.place(weight) is None and taps.place(bias) is None:
        return output
    with torch.no_grad():
        plain = function(input, num_groups, None, None, eps)
    return _channel_norm(taps, output, plain, weight, bias)


def _batch_norm(
    taps: Tapping,
    function: Any,
    input: Tensor,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    def normed(weight: Any, bias: Any) -> Tensor:
        return function(input, running_mean, running_var, weight, bias, training, momentum, eps)

    if training:
        output = normed(weight, bias)
    else:
        scale = (running_var + eps).rsqrt() * (1.0 if weight is None else weight.detach())
        output = _OfChannels.apply(input, scale, lambda: normed(weight, bias))  # type: ignore[no-untyped-call]
    if taps.place(weight) is None and taps.place(bias) is None:
        return output
    with torch.no_grad():
        plain = normed(None, None)
    return _channel_norm(taps, output, plain, weight, bias)


class _OfChannels(torch.autograd.Function):
    """A norm with fixed moments, which multiplies every channel by a number; torch's own backward pass is slow."""

    @staticmethod
    def forward(context: Any, input: Tensor, scale: Tensor, norm: Callable[[], Tensor]) -> Tensor:
        """The norm of the input."""
        context.scale = scale.view(1, -1, *[1] * (input.dim() - 2))
        return norm()

    @staticmethod
    def backward(context: Any, *back: Tensor) -> Any:
        """What comes back, times the numbers of its channels."""
        return back[0] * context.scale.to(back[0]), None, None


def _elementwise(taps: Tapping, function: Any, first: Any, second: Any, **named: Any) -> Any:
    """Parameters added to, or multiplied with, what belongs to rows; the same ones for every row."""
    places = [taps.place(part) for part in (first, second)]
    if places == [None, None]:
        return function(first, second, **named)
    weight, other = (second, first) if places[0] is None else (first, second)
    factor = other.detach() if function in PRODUCTS and isinstance(other, Tensor) else None
    if factor is not None and function in OVER:
        factor = factor.clone()
    output = function(first, second, **named)
    each_row = weight.dim() == output.dim() and weight.shape[0] != 1
    if None not in places or named or not isinstance(other, Tensor) or output.shape != other.shape or each_row:
        for part in (first, second):
            taps.leave(part)
        return output
    wanted = [1] * (output.dim() - weight.dim()) + list(weight.shape)

    def each(back: Tensor, axis: RowAxis) -> Tensor:
        rows = axis.first(back if factor is None else back * factor)
        shape = wanted[: axis.axis] + wanted[axis.axis + 1 :] if axis.order == "alone" else wanted
        return rows.sum_to_size(len(rows), *shape).flatten(1)

    return taps.vector(output, weight, each)


def _expanded(taps: Tapping, function: Any, weight: Tensor, *sizes: Any, **named: Any) -> Tensor:
    """Parameters repeated for every row, as the token that stands for a class."""
    output: Tensor = function(weight, *sizes, **named)
    if taps.place(weight) is None:
        return output
    wanted = [1] * (output.dim() - weight.dim()) + list(weight.shape)
    if any(size not in (1, there) for size, there in zip(wanted, output.shape, strict=True)):
        taps.leave(weight)
        return output

    def each(back: Tensor, axis: RowAxis) -> Tensor:
        rows = axis.first(back)
        return rows.sum_to_size(len(rows), *wanted[: axis.axis], *wanted[axis.axis + 1 :]).flatten(1)

    return taps.vector(output.clone(), weight, each)  # a copy, so that what follows does not look like parameters


_attention = (
    FunctionType(  # torch's own code, which here does not hand itself over once more, so that its parts are seen
        functional.multi_head_attention_forward.__code__,
        {**vars(functional), "has_torch_function": lambda _: False},
        argdefs=functional.multi_head_attention_forward.__defaults__,
    )
)


def _attended(taps: Tapping, _: Any, *arguments: Any, **named: Any) -> Any:
    with taps:
        return _attention(*arguments, **named)


def _recurrent(taps: Tapping, function: Any, *arguments: Any, **named: Any) -> Any:
    """A recurrent layer step by step, with rows on the first axis of every step."""

    def step(entering: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _linear(taps, functional.linear, entering, weight, bias, RowAxis(0, "alone"))

    outcome = unrolled(function, step, arguments)
    return taps.unknown(function, arguments, named) if outcome is None else outcome


OVER = {torch.Tensor.mul_, torch.Tensor.__imul__}  # products that are written over their first factor
PRODUCTS = {torch.mul, torch.Tensor.mul, torch.Tensor.__mul__, torch.Tensor.__rmul__, *OVER}
SUMS = {torch.add, *(getattr(torch.Tensor, name) for name in ("add", "__add__", "__radd__", "add_", "__iadd__"))}
TAPPED: dict[Any, Callable[..., Any]] = {
    functional.linear: _linear,
    torch.conv1d: _convolution,
    torch.conv2d: _convolution,
    torch.conv3d: _convolution,
    functional.embedding: _embedding,
    functional.layer_norm: _layer_norm,
    functional.rms_norm: _rms_norm,
    functional.group_norm: _group_norm,
    functional.batch_norm: _batch_norm,
    torch.addmm: _addmm,
    torch.matmul: _product,
    torch.mm: _product,
    torch.Tensor.matmul: _product,
    torch.Tensor.__matmul__: _product,
    torch.Tensor.expand: _expanded,
    torch.Tensor.expand_as: _expanded,
    torch.Tensor.repeat: _expanded,
    functional.multi_head_attention_forward: _attended,
    **dict.fromkeys((*LAYERS, *CELLS), _recurrent),
    **dict.fromkeys(PRODUCTS | SUMS, _elementwise),
}
WITHOUT_TABLES = {function: tapped for function, tapped in TAPPED.items() if tapped is not _embedding}
