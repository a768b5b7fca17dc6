"""How much of the spread is due to a finite number of sampled members, or of a forest's trees."""

from math import sqrt

from rue.checks.check import Check, Light, Senseless
from rue.checks.subject import Subject

NAME = "sampling error"
FINE, ROUGH = 0.1, 0.25  # relative standard error of a standard deviation, as of 51 and 9 members
TREES, FEW = 0.25, 0.5  # share of the variance that is due to the number of trees


def sampling_error(subject: Subject) -> Check | str:
    """1/√(2(b − 1)) for members; for a forest the Monte Carlo share of its variance."""
    if subject.sampled_trees is not None:
        trees, share = subject.sampled_trees
        light: Light = "green" if share <= TREES else "amber" if share <= FEW else "red"
        return Check(
            NAME,
            light,
            share,
            f"{share:.0%} of the forest's resampling variance is due to its having {trees} trees "
            f"(n = {subject.data.n} rows)",
            f"amber above {TREES}, red above {FEW}: then more of the spread is the trees' than the data's",
            "" if light == "green" else "grow more trees",
        )
    if subject.members is None:
        return Senseless("nothing is sampled: the answer is in closed form")
    error = 1 / sqrt(2 * (subject.members - 1))
    light = "green" if error <= FINE else "amber" if error <= ROUGH else "red"
    return Check(
        NAME,
        light,
        error,
        f"a standard deviation over {subject.members} members has a relative standard error of {error:.1%}",
        f"green up to {FINE:.0%} (51 members), red above {ROUGH:.0%} (fewer than 9): normal members give 1/√(2(b − 1))",
        "" if light == "green" else "take more members, or a closed form such as LinearRUE",
    )
