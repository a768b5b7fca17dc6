"""The NumPy arrays that cross the boundary of the package, by what they hold."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]  # numbers
Whole = NDArray[np.int64]  # whole numbers: rows, classes, counts
Labels = NDArray[Any]  # names of classes or groups
