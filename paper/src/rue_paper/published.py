"""The numbers of the paper's Table 1: negative log likelihood and its standard error."""

from typing import NamedTuple


class Published(NamedTuple):
    """A number and its standard error, as printed."""

    value: float
    error: float


COLUMNS = ("PBP", "MCDropout", "DeepEnsemble", "RUE", "Laplace", "Bootstrap SGD")

_TABLE = {
    "housing": ((2.57, 0.09), (2.46, 0.25), (2.39, 0.25), (2.54, 0.06), (4.12, 0.01), (2.55, 0.04)),
    "concrete": ((3.16, 0.02), (3.04, 0.09), (3.05, 0.15), (3.36, 0.02), (4.09, 0.01), (3.40, 0.01)),
    "energy": ((2.04, 0.02), (1.99, 0.09), (1.40, 0.17), (2.27, 0.02), (3.66, 0.01), (2.32, 0.01)),
    "kin8nm": ((-0.90, 0.01), (-0.95, 0.03), (-1.19, 0.02), (-0.34, 0.00), (0.11, 0.00), (-0.32, 0.00)),
    "naval": ((-3.73, 0.01), (-3.80, 0.05), (-4.17, 0.05), (-3.33, 0.00), (-2.74, 0.00), (-3.01, 0.00)),
    "power": ((2.84, 0.01), (2.80, 0.05), (2.78, 0.04), (2.88, 0.00), (4.51, 0.00), (2.90, 0.00)),
    "wine": ((0.97, 0.01), (0.93, 0.06), (0.93, 0.12), (1.01, 0.00), (1.47, 0.00), (1.01, 0.00)),
    "yacht": ((1.63, 0.02), (1.55, 0.12), (1.18, 0.19), (3.02, 0.05), (3.88, 0.01), (2.99, 0.04)),
}

# By data set and column. The paper quotes the three integrated methods from Lakshminarayanan et al. (2017), Table 1.
NLL = {
    (name, column): Published(*pair)
    for name, pairs in _TABLE.items()
    for column, pair in zip(COLUMNS, pairs, strict=True)
}

# Lakshminarayanan et al. (2017), Table 1 of the final version; the paper quotes an earlier version.
DEEP_ENSEMBLES = {
    "housing": Published(2.41, 0.25),
    "concrete": Published(3.06, 0.18),
    "energy": Published(1.38, 0.22),
    "kin8nm": Published(-1.20, 0.02),
    "naval": Published(-5.63, 0.05),
    "power": Published(2.79, 0.04),
    "wine": Published(0.94, 0.12),
    "yacht": Published(1.18, 0.21),
}
