"""Which networks probabilistic backpropagation can train, and their widths."""

from torch import nn

from rue.core.errors import ModelError
from rue.core.model import Model
from rue.models.torch.module import plain_module

WANTED = "PBP trains nn.Sequential(nn.Linear, nn.ReLU, ..., nn.Linear), with biases and one output"


def widths(model: Model) -> tuple[int, ...]:
    """Inputs, hidden units of each layer, and the one output, of the module behind a wrapped model."""
    core = plain_module(model)
    if core is None:
        raise ModelError(
            f"the model is a {type(model.core).__name__}, not a wrapped module; {WANTED}: rue.wrap such a net"
        )
    if not model.family.gaussian:
        raise ModelError(
            f"the loss is {core.loss.name!r}, but PBP's noise is Gaussian; wrap the module with "
            'loss="squared_error", or use RUE for this loss'
        )
    parts = _flattened(core.module)
    for place, part in enumerate(parts):
        wanted = nn.ReLU if place % 2 else nn.Linear
        if type(part) is not wanted:
            raise ModelError(
                f"part {place} of the network is {part}, expected nn.{wanted.__name__}; {WANTED}: give a net of these"
            )
    linear = [part for part in parts if isinstance(part, nn.Linear)]
    _check_linear(linear, len(parts))
    return (linear[0].in_features, *(layer.out_features for layer in linear))


def _check_linear(layers: list[nn.Linear], parts: int) -> None:
    if not parts % 2:
        raise ModelError(
            f"the network ends in {'nn.ReLU' if parts else 'nothing'}; {WANTED}: end it in nn.Linear(h, 1)"
        )
    without = [str(layer) for layer in layers if layer.bias is None]
    if without:
        raise ModelError(f"{without[0]} has no bias; {WANTED}: make it with bias=True")
    if layers[-1].out_features != 1:
        raise ModelError(f"the network has {layers[-1].out_features} outputs; {WANTED}: give a net for each output")


def _flattened(module: nn.Module) -> list[nn.Module]:
    """The parts of nested Sequentials in order; any other module is a part."""
    if type(module) is not nn.Sequential:
        return [module]
    return [part for child in module for part in _flattened(child)]
