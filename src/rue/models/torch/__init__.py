"""PyTorch modules, and skorch's nets around them."""
