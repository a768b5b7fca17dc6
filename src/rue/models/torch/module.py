"""The adapter for `torch.nn.Module`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from rue.core.chunks import inputs_of
from rue.core.concepts import Batch, Facts, Family, Inputs, Reader, TrainingSet
from rue.core.coordinates import CurvedRows
from rue.core.costs import hopeless
from rue.core.errors import ModelError, ResourceError, SettingError, ShapeError
from rue.core.memory import free_bytes
from rue.core.model import Model
from rue.core.nested import leaves, map_leaves, take
from rue.core.process import undivided
from rue.core.stored import storable
from rue.losses import Loss, stated
from rue.losses.stated import OURS, Reduction, Scale
from rue.models.admission import described, shapes
from rue.models.reading import read_leaf
from rue.models.torch.backward import padding, refuse_layers, refuse_steps, refuse_unregistered, refuse_wrong_derivative
from rue.models.torch.blocks import Place
from rue.models.torch.calling import arguments, audited_output, kernels
from rue.models.torch.copying import of_this_thread, private_copy
from rue.models.torch.drawn_layers import Drawing, sketched
from rue.models.torch.forward_size import FEW, row_bytes, rows_at_once
from rue.models.torch.graph import trainable_leaves
from rue.models.torch.layer_bases import LayerBases, turned
from rue.models.torch.layer_products import LayerProducts, layer_products
from rue.models.torch.layer_sketch import LayerSketch
from rue.models.torch.optimizer import coefficients, read_optimizer
from rue.models.torch.parameters import Layout, audited, read_centre, stored
from rue.models.torch.recurrent import stepwise
from rue.models.torch.unwrapping import eager

Penalty = Callable[[dict[str, Tensor]], Tensor]

TRIED = 1024  # coordinates that show whether layers are read off rightly, where no sketch is used
LOOKED_AT = 16  # rows whose outputs are compared with what the backward pass says of them


@storable
@dataclass(frozen=True)
class ModuleCore:
    """A trained module, its loss and its penalty, as functions of a flat theta."""

    jacobian: ClassVar[None] = None  # computed by automatic differentiation
    few_outputs: ClassVar[None] = None

    module: nn.Module = field(repr=False)
    layout: Layout = field(repr=False)
    theta: Tensor = field(repr=False)
    fixed: dict[str, Tensor] = field(repr=False)  # parameters that are not audited, and buffers
    loss: Loss
    l2: Tensor = field(repr=False)  # (d,)
    centre: Tensor = field(repr=False)  # (d,), what the penalty shrinks towards
    extra: Penalty | None
    reduction: Reduction
    scale: Scale = OURS  # the ratio of the loss that was trained to `loss`
    l2_given: bool = True
    l2_reason: str | None = None  # where the l2 comes from, if an optimizer was given
    penalty_scale: float = 1.0  # factor of the penalty beside the sum of `loss`; set when the model is bound to data
    as_stated: Loss | None = field(default=None, repr=False)  # the loss before binding, where binding changed it
    row_shape: tuple[int, ...] | None = None  # () or (k,): the shape of the module's output for one row
    row_bytes: int = 0  # of the largest hidden layer of one row; measured when the model is bound to data
    apart: bool = False  # layers count as independent of each other

    @property
    def stated_loss(self) -> Loss:
        """The loss as the user stated it, for another module of the same kind."""
        return self.as_stated or self.loss

    @property
    def stated(self) -> bool:
        """Whether the user or an optimizer stated the penalty."""
        return self.l2_given or self.extra is not None

    @property
    def ridge(self) -> Tensor | None:
        """The coefficients of ½(θ − centre)² in the summed objective; None beside a penalty of the user's own."""
        return None if self.extra is not None else (self.penalty_scale * stored(self.l2)).expand_as(self.theta)

    @property
    def family(self) -> Family:
        """That of the loss, with the layers as blocks where they count as independent."""
        return replace(self.loss.family, blocks=self.layout.layers()) if self.apart else self.loss.family

    @property
    def settled(self) -> Facts:
        """What `settle_module` found."""
        return {"row_shape": self.row_shape, "row_bytes": self.row_bytes, "penalty_scale": self.penalty_scale}

    def settled_again(self, row_shape: tuple[int, ...] | None, row_bytes: int, penalty_scale: float) -> "ModuleCore":
        """The core with what was found."""
        shape = None if row_shape is None else tuple(row_shape)
        settled = replace(self, row_shape=shape, row_bytes=row_bytes, penalty_scale=penalty_scale)
        if not _own_shape(settled):
            return settled
        stated = self.stated_loss  # not self.loss, because the model may be bound again
        return replace(settled, loss=replace(stated, value=partial(_without_axis, stated.value)), as_stated=stated)

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (m, k) at these parameters; without gradients, in pieces of rows whose hidden layers fit."""
        if torch.is_grad_enabled():
            return self._predicted(theta, inputs, twice=True)
        count = len(leaves(inputs)[0])
        size = rows_at_once(self.row_bytes, self.theta.device) or count
        pieces = (take(inputs, slice(start, start + size)) for start in range(0, max(1, count), size))
        parts = [self._predicted(theta, piece, twice=True) for piece in pieces]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        return whole.detach() if whole.requires_grad else whole  # because forward enabled gradients itself

    @property
    def weights(self) -> int:
        """The number of all parameters and buffers, also of those that are not audited."""
        return self.theta.numel() + sum(part.numel() for part in self.fixed.values())

    def predict_once(self, inputs: Inputs) -> Tensor:
        """Outputs (m, k) at the module's own parameters, with any kernel that has a first derivative."""
        return self._predicted(self.theta, inputs, twice=False)

    def reached(self, inputs: Inputs) -> frozenset[Place]:
        """Where the tensors of parameters lie that outputs of these rows depend on, as torch's graph shows."""
        parts = {name: part.detach().requires_grad_() for name, part in self.layout.split(self.theta).items()}
        module = of_this_thread(self.module)
        with torch.enable_grad(), undivided(), kernels(module, twice=False), stepwise(module):
            found = {id(leaf) for leaf in trainable_leaves(self._called(parts, inputs))}
        pairs = zip(parts.values(), self.layout.places(), strict=True)
        return frozenset(place for part, place in pairs if id(part) in found)

    def sketched(self, inputs: Inputs, size: int, seed: int, read: Reader | None = None) -> LayerSketch:
        """Coordinates of the parameters, layer by layer."""
        rows = read or (lambda: iter([inputs]))
        return sketched(self, self.layout.places(), inputs, rows, Drawing(size, seed))

    def eigenbases(self, read: Reader, rows: Iterable[CurvedRows]) -> LayerBases:
        """Coordinates of all parameters, in eigenbases of every layer."""
        inputs = next(read())
        whole = replace(self.sketched(inputs, self.theta.numel(), 0, read), half=False)
        return turned(whole, inputs, rows)

    def gradient_products(self, data: TrainingSet, metric: Tensor, direction: Tensor) -> LayerProducts:
        """Products of gradients, layer by layer."""
        first = next(iter(data.batches())).inputs
        sketch = replace(self.sketched(first, TRIED, 0, inputs_of(data)), half=False)
        return layer_products(sketch, data, metric, direction)

    def by_layer(self) -> "ModuleCore":
        """The same core, whose layers count as independent of each other."""
        return replace(self, apart=True)

    def _predicted(self, theta: Tensor, inputs: Inputs, twice: bool) -> Tensor:
        module = of_this_thread(self.module)  # before the switches: copying waits for other threads, too
        with undivided(), kernels(module, twice), stepwise(module):
            outputs = self.call(theta, inputs)
        if outputs.dim() == 2 and self.row_shape not in (None, (), outputs.shape[1:]):
            raise ShapeError(
                f"the module returned {tuple(outputs.shape[1:])} for a row, and {self.row_shape} for the first rows; "
                "pad every batch to one length where the outputs are those of all tokens, or make rows of the "
                "tokens: rue.tokens.rows"
            )
        if outputs.dim() == 0:  # a module that ends in squeeze(), for a single row
            outputs = outputs.reshape(1)
        return outputs.unsqueeze(-1) if outputs.dim() == 1 else outputs

    def penalty(self, theta: Tensor) -> Tensor:
        """½ Σ l2 (θ − centre)² plus the user's own penalty, scaled to the summed objective."""
        value = 0.5 * (stored(self.l2).to(theta) * (theta - stored(self.centre).to(theta)).square()).sum()
        if self.extra is not None:
            value = value + self.extra(self.layout.split(theta))
        return self.penalty_scale * value

    def contents(self) -> Iterator[str | Tensor]:
        """Names and values of the audited parameters, then of the fixed ones and the buffers."""
        yield "\n".join(self.layout.names)
        yield self.theta
        for name, values in sorted(self.fixed.items()):
            yield name
            yield values

    def describe(self) -> Facts:
        """Loss, penalty and size."""
        coefficients = stored(self.l2).unique().tolist()  # sorted
        return {
            "loss": self.loss.name,
            "l2": coefficients[0] if len(coefficients) == 1 else tuple(coefficients),
            "l2_given": self.l2_given,
            "penalty": getattr(self.extra, "__name__", "callable") if self.extra is not None else None,
            "reduction": self.reduction,
            "penalty_scale": self.penalty_scale,
            **({} if self.l2_reason is None else {"l2_reason": self.l2_reason}),
            "dtype": str(self.theta.dtype).removeprefix("torch."),
            "device": str(self.theta.device),
            "parameters": self.layout.names,
        }

    def call(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """The module's output in its own shape."""
        return self._called(self.layout.split(theta), inputs)

    def _called(self, parameters: Mapping[str, Tensor], inputs: Inputs) -> Tensor:
        module = of_this_thread(self.module)
        positional, named = arguments(module, inputs)
        with eager(module):
            return audited_output(functional_call(module, {**self.fixed, **parameters}, positional, named))

    def counted(self, total_weight: float, batches: Callable[[Any], Iterator[Batch]] | None) -> float:
        """The total weight of all rows in a mean: their weights, times those of their classes."""
        if self.scale.count is None:
            return total_weight
        assert batches is not None  # only models without class weights are bound without rows
        return sum(float((part.weight * self.scale.count(part.targets)).sum()) for part in batches(self))

    def check_extra(self, extra: Penalty) -> None:
        """Refuse a penalty of the module's parameters instead of its argument: its derivative would be zero."""
        theta = self.theta.detach().requires_grad_()
        with torch.enable_grad(), described("the penalty could not take the named parameters, a dict of tensors"):
            value: Any = extra(self.layout.split(theta))
        cut = isinstance(value, Tensor) and (
            not value.requires_grad or torch.autograd.grad(value.sum(), theta, allow_unused=True)[0] is None
        )
        if cut:
            raise ModelError(
                "the penalty does not depend on the parameters it is given; use its argument, a dict of tensors by "
                "name, rather than net.parameters()"
            )


@dataclass(frozen=True)
class ModuleBoundary:
    """Reads raw inputs and targets as tensors; a module's outputs are its predictions."""

    answer: ClassVar[None] = None
    response: ClassVar[None] = None
    classes: ClassVar[None] = None

    def read(self, core: ModuleCore, inputs: Any) -> Inputs:
        """Tensors on the module's device, floating ones in its dtype."""
        return map_leaves(lambda leaf: read_leaf(leaf, core.theta, whole_numbers_in_frames=False), inputs)

    def read_targets(self, core: ModuleCore, targets: Any) -> Any:
        """Tensors like inputs; the loss may want floating targets of the shape of the outputs."""
        read = map_leaves(lambda leaf: read_leaf(leaf, core.theta, whole_numbers_in_frames=True), targets)
        if core.loss.fit_targets is None or core.row_shape is None:
            return read
        fitted = core.loss.fit_targets(read, 1 if not core.row_shape else core.row_shape[0])
        return fitted.to(core.theta.dtype) if fitted.is_floating_point() else fitted


@storable
def settle_module(
    core: ModuleCore, inputs: Inputs, total_weight: float, batches: Callable[[Any], Iterator[Batch]] | None
) -> ModuleCore:
    """Set the outputs' shape and the penalty's scale by a first batch, or refuse the model."""
    refuse_layers(core.module)
    if core.extra is not None:
        core.check_extra(core.extra)
    with described(f"the module could not take inputs of {shapes(inputs)}"):
        core = replace(core, row_bytes=_row_bytes(core, inputs))
        inputs = take(inputs, slice(0, rows_at_once(core.row_bytes, core.theta.device)))
    n = len(leaves(inputs)[0])
    with torch.no_grad(), described(f"the module could not take inputs of {shapes(inputs)}"):
        outputs = core.call(core.theta, map_leaves(torch.clone, inputs))
    if outputs.dim() == 0 and n == 1:
        outputs = outputs.reshape(1)
    if outputs.dim() not in (1, 2) or len(outputs) != n:
        raise ShapeError(
            f"the module returned {tuple(outputs.shape)} for {n} rows, expected ({n},) or ({n}, k); "
            "wrap it in a module that returns one number or one vector per row"
        )
    if outputs.is_floating_point() and torch.finfo(outputs.dtype).eps > torch.finfo(core.theta.dtype).eps:
        raise ModelError(
            f"the module returns {str(outputs.dtype).removeprefix('torch.')}, too coarse for derivatives, where its "
            f"parameters are {str(core.theta.dtype).removeprefix('torch.')}; audit a copy without autocast or half() "
            "in its forward pass"
        )
    _check_backward(core, inputs)
    shaped = replace(core, row_shape=tuple(outputs.shape[1:]))
    k = 1 if outputs.dim() == 1 else outputs.shape[1]
    rows = shaped.counted(total_weight, batches) if core.reduction == "mean" else total_weight
    scale = core.scale.penalty(core.reduction, rows, k)
    return core.settled_again(tuple(outputs.shape[1:]), core.row_bytes, scale)


def _row_bytes(core: ModuleCore, inputs: Inputs) -> int:
    """Of the largest hidden layer of a row; 0 where there are too few rows to tell."""
    if len(leaves(inputs)[0]) < max(FEW):
        return core.row_bytes
    return row_bytes(
        lambda few: core.call(core.theta, few), lambda count: map_leaves(torch.clone, take(inputs, slice(0, count)))
    )


def _check_backward(core: ModuleCore, inputs: Inputs) -> None:
    few = take(inputs, slice(0, LOOKED_AT))
    theta, split = core.theta, core.layout.split

    def of_few(theta: Tensor) -> Tensor:
        return core.predict(theta, map_leaves(torch.clone, few))

    refuse_unregistered(of_few, theta)
    refuse_steps(lambda theta: core.predict(theta, map_leaves(torch.clone, inputs)), theta, split)
    refuse_wrong_derivative(of_few, theta, split, padding(core.module))


def _own_shape(core: ModuleCore) -> bool:
    """Whether the loss is a user's callable that gets outputs (n,), because the module returns them in that shape."""
    return core.row_shape == () and core.loss.fit_targets is None


def _without_axis(value: Callable[[Tensor, Any], Tensor], outputs: Tensor, targets: Any) -> Tensor:
    return value(outputs.squeeze(-1), targets)


def wrap_module(
    module: nn.Module,
    loss: str | Loss | Callable[..., Tensor] | None,
    l2: float | Mapping[str, float] | None,
    penalty: Penalty | None,
    reduction: Reduction | None,
    select: str | Sequence[str] | None,
    optimizer: object = None,
    centre: object = None,
) -> Model:
    """A trained module as a model: theta and functions of it. The module itself does not change."""
    return module_model(module_core(module, loss, l2, penalty, reduction, select, optimizer, centre))


def plain_module(model: Model) -> ModuleCore | None:
    """The core of a wrapped module; None for any other model, also for estimators that contain a module."""
    plain = isinstance(model.core, ModuleCore) and model.boundary.answer is None
    return cast(ModuleCore, model.core) if plain else None


def module_model(core: ModuleCore) -> Model:
    """A model from a core, with the boundary of modules."""
    return Model(core, ModuleBoundary(), settle=settle_module)


def module_core(
    module: nn.Module,
    loss: str | Loss | Callable[..., Tensor] | None,
    l2: float | Mapping[str, float] | None,
    penalty: Penalty | None,
    reduction: Reduction | None,
    select: str | Sequence[str] | None,
    optimizer: object = None,
    centre: object = None,
) -> ModuleCore:
    """The core of a trained module: theta and functions of it."""
    statement = stated(loss)
    agreed = statement.agreed(reduction)
    if penalty is not None and not callable(penalty):
        raise SettingError(
            f"penalty must be a callable of named parameters, got {type(penalty).__name__}; a number is l2"
        )
    optimized = None if optimizer is None else read_optimizer(optimizer, module, l2_given=l2 is not None)
    chosen = audited(module, select, None if optimized is None else optimized.names)
    layout = Layout(tuple(chosen), tuple(p.shape for p in chosen.values()))
    _refuse_hopeless(chosen)
    theta = torch.cat([p.detach().reshape(-1) for p in chosen.values()])
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    fixed = {name: value.detach().clone() for name, value in state.items() if name not in chosen}
    return ModuleCore(
        module=private_copy(module),
        layout=layout,
        theta=theta,
        fixed=fixed,
        loss=statement.loss,
        l2=stored(coefficients(layout, l2, optimized)).to(theta.device).expand_as(theta),
        centre=read_centre(centre, module, layout, theta),
        extra=penalty,
        reduction=agreed,
        scale=statement.scale,
        l2_given=l2 is not None or (optimized is not None and optimized.l2 is not None),
        l2_reason=optimized.why if optimized is not None and l2 is None else None,
    )


def _refuse_hopeless(audited: Mapping[str, Tensor]) -> None:
    """Refuse so many parameters that admitting the module would already exhaust the memory, before they are copied."""
    first = next(iter(audited.values()))
    d = sum(parameter.numel() for parameter in audited.values())
    refused = hopeless(d, first.element_size(), free_bytes(first.device))
    if refused is not None:
        raise ResourceError(f"{d:,} parameters do not fit in memory, whatever the rows.\n{refused}")
