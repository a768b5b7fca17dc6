"""Checks of settings before anything is computed: they must be objects, not names or classes."""

from rue.core.errors import RueError, SettingError

WANTED = {
    "curvature": ("at", "GaussNewton() or Hessian()"),
    "damping": ("__call__", "Fixed(0.1), SmallestEigenvalue(), MeanFraction() or NoDamping()"),
    "solver": ("factor", "Cholesky(), Eigen(), Dual(), Projection() or ConjugateGradient()"),
    "resampler": ("draw", "Multinomial(), BayesianBootstrap(), Poisson() or Jackknife()"),
}


def check_parts(**settings: object) -> None:
    """Raise for a setting that is not an object of the right kind; None leaves the choice to the method.

    >>> check_parts(curvature=None)
    """
    for name, value in settings.items():
        member, examples = WANTED[name]
        if value is not None and (isinstance(value, type) or not hasattr(value, member)):
            raise SettingError(f"{name} must be an object such as {examples}, got {value!r}")


def check_level(name: str, level: float, wrong: type[RueError] = SettingError) -> None:
    """Raise `wrong` if a level, a confidence or a rate is not strictly between 0 and 1.

    >>> check_level("level", 0.9)
    """
    if not 0 < level < 1:
        percent = level if 1 < level < 100 else 90
        raise wrong(f"{name} is {level:g}, expected strictly between 0 and 1; write {percent:g} % as {percent / 100:g}")
