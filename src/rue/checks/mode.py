"""Does the module predict as it does in evaluation mode?"""

from dataclasses import replace

import torch

from rue.checks.check import Check, Senseless
from rue.checks.subject import Subject, some
from rue.core.derivatives import outputs
from rue.models.torch.copying import private_copy
from rue.models.torch.module import plain_module

NAME = "mode"
ROUNDING = {torch.float32: 1e-4, torch.float64: 1e-8}  # relative differences of outputs that may be rounding
LIMITS = "red where the outputs of evaluation mode differ beyond rounding: those are what a model predicts in use"


def mode(subject: Subject) -> Check | str:
    """Compare the outputs as wrapped with those of a copy in evaluation mode; the user's module does not change."""
    model = subject.model
    core = plain_module(model if model.behind is None else replace(model, core=model.behind))
    if core is None:
        return Senseless("an estimator has no modes")
    training = any(part.training for part in core.module.modules())
    inputs = some(next(subject.data.batches()).inputs)
    as_wrapped = outputs(core, inputs)
    apart = 0.0
    if training:
        evaluated = outputs(replace(core, module=private_copy(core.module).eval()), inputs)
        apart = float((evaluated - as_wrapped).abs().max() / as_wrapped.abs().max().clamp_min(1e-300))
    how = "in training mode" if training else "in evaluation mode"
    measured = (
        f"the module was wrapped {how}, and {len(as_wrapped)} training rows' outputs are {apart:.2g} (relative) away "
    )
    measured += "from those of evaluation mode"
    if apart <= ROUNDING.get(as_wrapped.dtype, 1e-4):
        return Check(NAME, "green", apart, measured, LIMITS, "")
    return Check(NAME, "red", apart, measured, LIMITS, "call net.eval() before rue.wrap")
