"""What torch's graph shows of outputs: the tensors with a gradient of their own that they were computed from."""

from torch import Tensor


def trainable_leaves(outputs: Tensor) -> list[Tensor]:
    """The tensors with a gradient of their own that these outputs were computed from."""
    found: dict[int, Tensor] = {}
    seen, waiting = set(), [outputs.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found[id(leaf)] = leaf
        waiting += [parent for parent, _ in node.next_functions]
    return list(found.values())
