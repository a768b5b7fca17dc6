"""Settings are objects, not their names or classes: checked before anything is computed."""

from rue.core.errors import RueError, SettingError

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


def check_level(name: str, level: float, wrong: type[RueError] = SettingError) -> None:
    """Refuse a level, a confidence or a rate that does not lie strictly between 0 and 1; `wrong` is what is raised.

    >>> check_level("level", 0.9)
    """
    if not 0 < level < 1:
        percent = level if 1 < level < 100 else 90
        raise wrong(f"{name} is {level:g}, expected strictly between 0 and 1; write {percent:g} % as {percent / 100:g}")
