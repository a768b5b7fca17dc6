"""Everything `rue` raises or warns with.

RueError
├── InputError (ValueError)         an argument cannot be used
│   ├── DataError                   rows, values and types of the data
│   ├── ShapeError                  shapes that do not fit together
│   ├── DeviceError                 tensors on different devices
│   └── ModelError                  a model that cannot be audited as it is
│       └── OpaqueError             one whose parameters cannot be read; its predictions still can be audited
├── SettingError (ValueError)       settings that contradict each other or the problem
├── ResourceError (MemoryError)     an audit that this machine has no memory for
├── WorkerLostError (ConnectionError)  another process that a sum was shared with has ended
├── FetchError (OSError)            a data set that is not on this machine and could not be downloaded
├── WriteError (OSError)            a file that could not be written; what was there before is unchanged
└── NumericalError (ArithmeticError)
    ├── NotConvergedError           an answer whose residual is too large
    ├── NotPositiveDefiniteError    a curvature that cannot be inverted as it is
    └── DerivativeError             a derivative the model does not have
RueWarning (UserWarning)            the number holds, but its limits should be known
└── CrowdedWarning                  too many effective parameters for the number of training rows
"""


class RueError(Exception):
    """Every error that `rue` raises on purpose: the finding and, where given separately, the advice.

    >>> error = SettingError("a share of 0.05 cannot be kept", "allow at least 0.091")
    >>> str(error), error.finding
    ('a share of 0.05 cannot be kept; allow at least 0.091', 'a share of 0.05 cannot be kept')
    """

    def __init__(self, finding: str, advice: str = "") -> None:
        super().__init__(f"{finding}; {advice}" if advice else finding)
        self.finding = finding
        self.advice = advice


class InputError(RueError, ValueError):
    """An argument cannot be used."""


class DataError(InputError):
    """The rows, values or types of the data are wrong."""


class ShapeError(InputError):
    """Shapes do not fit together."""


class DeviceError(InputError):
    """Tensors are on different devices."""


class ModelError(InputError):
    """The model cannot be audited as it is."""


class OpaqueError(ModelError):
    """The parameters of the model cannot be read."""


class SettingError(RueError, ValueError):
    """Settings contradict each other or the problem at hand."""


class ResourceError(RueError, MemoryError):
    """There is not enough memory, or time, for an audit."""


class WorkerLostError(RueError, ConnectionError):
    """Another process that a sum was shared with has ended."""


class FetchError(RueError, OSError):
    """A data set is not on this machine and could not be downloaded."""


class WriteError(RueError, OSError):
    """A file could not be written; what was there before is unchanged."""


class NumericalError(RueError, ArithmeticError):
    """A computation gave a number that cannot be trusted."""


class NotConvergedError(NumericalError):
    """The residual of a solve is too large."""


class NotPositiveDefiniteError(NumericalError):
    """The curvature has eigenvalues that are zero or negative."""


class DerivativeError(NumericalError):
    """The model has no such derivative."""


class RueWarning(UserWarning):
    """The number holds, but the user should know this about it."""


class CrowdedWarning(RueWarning):
    """The model has so many effective parameters that its left-out predictions by influence are off."""
