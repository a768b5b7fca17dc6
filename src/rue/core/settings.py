"""Settings are objects, not their names or classes: checked before anything is computed."""

from rue.core.errors import SettingError

WANTED = {
    "curvature": ("at", "GaussNewton() or Hessian()"),
    "damping": ("__call__", "Fixed(0.1), SmallestEigenvalue(), MeanFraction() or NoDamping()"),
    "solver": ("factor", "Cholesky(), Eigen(), Dual(), Projection() or ConjugateGradient()"),
    "resampler": ("draw", "Multinomial(), BayesianBootstrap(), Poisson() or Jackknife()"),
}


def check_parts(**settings: object) -> None:
    """Refuse what is not an object of its kind; None leaves the choice to the method.

    >>> check_parts(curvature=None)
    """
    for name, value in settings.items():
        member, examples = WANTED[name]
        if value is not None and (isinstance(value, type) or not hasattr(value, member)):
            raise SettingError(f"{name} must be an object such as {examples}, got {value!r}")
