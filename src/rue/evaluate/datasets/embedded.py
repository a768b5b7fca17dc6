"""Two data sets that come with scikit-learn, so that nothing has to be downloaded."""

import numpy as np

from rue.evaluate.datasets.dataset import Dataset

LICENCE = "shipped with scikit-learn (BSD 3-Clause)"


def diabetes() -> Dataset:
    """442 patients in raw units: ten baseline measurements and the progression of the disease a year later.

    >>> diabetes().X.shape
    (442, 10)
    """
    from sklearn.datasets import load_diabetes

    shipped = load_diabetes(scaled=False)
    return Dataset(
        "diabetes",
        np.array(shipped.data, dtype=np.float64),
        np.array(shipped.target, dtype=np.float64),
        tuple(shipped.feature_names),
        "progression",
        "Efron, Hastie, Johnstone and Tibshirani (2004), Least Angle Regression, through scikit-learn",
        LICENCE,
        "Raw units, not the scaled columns scikit-learn gives by default.",
    )


def digits() -> Dataset:
    """1797 handwritten digits of 8 × 8 pixels; y holds the digit, a whole number from 0 to 9 stored as a float.

    >>> digits().X.shape
    (1797, 64)
    """
    from sklearn.datasets import load_digits

    shipped = load_digits()
    return Dataset(
        "digits",
        np.array(shipped.data, dtype=np.float64),
        np.array(shipped.target, dtype=np.float64),
        tuple(shipped.feature_names),
        "digit",
        "Alpaydin and Kaynak (1998), Optical Recognition of Handwritten Digits (test part), through scikit-learn",
        LICENCE,
        "Classes, not quantities. Pixels count from 0 to 16; the first column is constant.",
    )
