"""The training rows as models say that never saw them, and where those left-out predictions come from."""

from rue.left_out.one_step import LeftOut, left_out, leverage, step_without

__all__ = ["LeftOut", "left_out", "leverage", "step_without"]
