"""One file for each section, with a function of its name; `SECTIONS` has them in the order of the page."""

from collections.abc import Callable

from rue.reports.blocks import Section
from rue.reports.case import Case
from rue.reports.sections.crosswalk import crosswalk
from rue.reports.sections.errors import errors
from rue.reports.sections.fitness import fitness
from rue.reports.sections.identity import identity
from rue.reports.sections.limitations import limitations
from rue.reports.sections.method import method
from rue.reports.sections.monitoring import monitoring
from rue.reports.sections.performance import performance
from rue.reports.sections.predictions import predictions
from rue.reports.sections.shift import shift
from rue.reports.sections.signoff import signoff
from rue.reports.sections.subgroups import subgroups
from rue.reports.sections.use import use

SECTIONS: tuple[Callable[[Case], Section], ...] = (
    identity,
    use,
    method,
    fitness,
    performance,
    errors,
    subgroups,
    shift,
    predictions,
    limitations,
    signoff,
    monitoring,
    crosswalk,
)
