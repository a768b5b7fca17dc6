"""Everything `rue` raises or warns with.

RueError
├── InputError (ValueError)         what was handed in
│   ├── DataError                   rows, values and types of the data
│   ├── ShapeError                  shapes that do not fit together
│   ├── DeviceError                 tensors that live apart
│   └── ModelError                  a model that cannot be audited as it stands
│       └── OpaqueError             one whose parameters cannot be read: its predictions still can
├── SettingError (ValueError)       settings that contradict each other or the problem
├── FetchError (OSError)            a data set that is not at hand and could not be fetched
└── NumericalError (ArithmeticError)
    ├── NotConvergedError           an answer whose residual is too large to believe
    ├── NotPositiveDefiniteError    curvature that cannot be inverted as it stands
    └── DerivativeError             a derivative the model does not have
RueWarning (UserWarning)            believe the number, but read this first
└── CrowdedWarning                  too many effective parameters for the number of training rows
"""


class RueError(Exception):
    """Every error that `rue` raises on purpose: what was found and, where it was given apart, what to do.

    >>> error = SettingError("a share of 0.05 cannot be kept", "allow at least 0.091")
    >>> str(error), error.finding
    ('a share of 0.05 cannot be kept; allow at least 0.091', 'a share of 0.05 cannot be kept')
    """

    def __init__(self, finding: str, advice: str = "") -> None:
        super().__init__(f"{finding}; {advice}" if advice else finding)
        self.finding = finding
        self.advice = advice


class InputError(RueError, ValueError):
    """What was handed in cannot be used."""


class DataError(InputError):
    """The rows, values or types of the data are wrong."""


class ShapeError(InputError):
    """Shapes do not fit together."""


class DeviceError(InputError):
    """Tensors live on different devices."""


class ModelError(InputError):
    """The model cannot be audited as it stands."""


class OpaqueError(ModelError):
    """The parameters of the model cannot be read."""


class SettingError(RueError, ValueError):
    """Settings contradict each other or the problem at hand."""


class FetchError(RueError, OSError):
    """A data set is not at hand and could not be fetched."""


class NumericalError(RueError, ArithmeticError):
    """A number came out that should not be believed."""


class NotConvergedError(NumericalError):
    """The residual of a solve is too large."""


class NotPositiveDefiniteError(NumericalError):
    """The curvature has directions that are flat or point downwards."""


class DerivativeError(NumericalError):
    """The model has no such derivative."""


class RueWarning(UserWarning):
    """The number stands, but this should be read beside it."""


class CrowdedWarning(RueWarning):
    """The model has so many effective parameters that its left-out predictions by influence are off."""
