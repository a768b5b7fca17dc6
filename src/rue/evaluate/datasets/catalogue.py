"""The eight data sets of the paper: their columns, checksums, sources and remarks."""

from dataclasses import dataclass

UCI = "UCI Machine Learning Repository"
CC_BY = "CC BY 4.0, as stated by the UCI Machine Learning Repository"


@dataclass(frozen=True)
class CatalogueEntry:
    """The description of a data set: its columns, its size, the SHA-256 of its CSV, and its source."""

    name: str
    rows: int
    features: tuple[str, ...]
    target: str
    sha256: str
    source: str
    licence: str
    note: str

    @property
    def header(self) -> str:
        """The first line of the CSV, target last."""
        return ",".join((*self.features, self.target))


_HOUSING = CatalogueEntry(
    "housing",
    506,
    ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"),
    "MEDV",
    "79ac716620024011b03c0c44d2bf99069b8173649181926d9109c25475a3804c",
    "Harrison and Rubinfeld (1978), Boston house prices, from StatLib",
    "no explicit licence is known",
    "Column B encodes a racial assumption about house prices: it is kept to reproduce the paper and for nothing else. "
    "16 targets are capped at 50.",
)

_CONCRETE = CatalogueEntry(
    "concrete",
    1030,
    (
        *("Cement", "Blast Furnace Slag", "Fly Ash", "Water"),
        *("Superplasticizer", "Coarse Aggregate", "Fine Aggregate", "Age"),
    ),
    "Concrete compressive strength",
    "0ad79c3a7c55fff91fb3f21589bef3a52653bb8a498b9b4d11bd17890b5da980",
    f"Yeh (1998), Concrete Compressive Strength, {UCI} 165",
    CC_BY,
    "25 rows are duplicates. Features are rounded to one decimal, the target to two, as in earlier benchmarks.",
)

_ENERGY = CatalogueEntry(
    "energy",
    768,
    (
        *("Relative Compactness", "Surface Area", "Wall Area", "Roof Area"),
        *("Overall Height", "Orientation", "Glazing Area", "Glazing Area Distribution"),
    ),
    "Heating Load",
    "31b92b7ca0676993ee080ddab097c01cf407fb3f85a0d88c8ec1717098738db4",
    f"Tsanas and Xifara (2012), Energy Efficiency, {UCI} 242",
    CC_BY,
    "Simulated buildings. The target is the heating load; the cooling load is left out.",
)

_KIN8NM = CatalogueEntry(
    "kin8nm",
    8192,
    ("theta1", "theta2", "theta3", "theta4", "theta5", "theta6", "theta7", "theta8"),
    "y",
    "e74acfb93744b300a8bca76890a2a4a2f3dedf0ea6a76a7fb353da44ee91c773",
    "DELVE, kin family (8 inputs, highly non-linear, medium noise), through the collection of Luis Torgo",
    "no explicit licence is known",
    "A simulated robot arm of eight links.",
)

_NAVAL = CatalogueEntry(
    "naval",
    11934,
    (
        *("lp", "v", "GTT", "GTn", "GGn", "Ts", "Tp", "T48"),
        *("T1", "T2", "P48", "P1", "P2", "Pexh", "TIC", "mf"),
    ),
    "kMc",
    "612d3993400cee2bc24d5ee6e763e064e363cbd8daf82852c6144762f4fbcaad",
    f"Coraddu and others (2014), Condition Based Maintenance of Naval Propulsion Plants, {UCI} 316",
    CC_BY,
    "Simulated. T1 and P1 are constant: guard the standard deviation. The target is the compressor decay kMc, a grid "
    "of 51 values; the turbine decay kMt is left out.",
)

_POWER = CatalogueEntry(
    "power",
    9568,
    ("AT", "V", "AP", "RH"),
    "PE",
    "76855630b59fb9b2ef08e02d5907f8c73f18d97a476ac25f06cca6dd7fe2df21",
    f"Tüfekci and Kaya (2014), Combined Cycle Power Plant, {UCI} 294",
    CC_BY,
    "41 rows are duplicates. The archive holds five shuffles of the same rows; these are in the order of the fifth.",
)

_WINE = CatalogueEntry(
    "wine",
    1599,
    (
        *("fixed acidity", "volatile acidity", "citric acid", "residual sugar", "chlorides"),
        *("free sulfur dioxide", "total sulfur dioxide", "density", "pH", "sulphates", "alcohol"),
    ),
    "quality",
    "f7461bdf87937848907243b819977587c9f340636fcd5c436ac6fba5a3e07a95",
    f"Cortez and others (2009), Wine Quality, {UCI} 186",
    CC_BY,
    "Red wines only. 240 rows are duplicates. The target is a grade, a whole number from 3 to 8.",
)

_YACHT = CatalogueEntry(
    "yacht",
    308,
    (
        *("Longitudinal position of the center of buoyancy", "Prismatic coefficient", "Length-displacement ratio"),
        *("Beam-draught ratio", "Length-beam ratio", "Froude number"),
    ),
    "Residuary resistance per unit weight of displacement",
    "5182ea66db9281b5db5d03d9bf62e8436e2e53ce1bd65eca323b571d36a55af1",
    f"Gerritsma, Onnink and Versluis (1981), Yacht Hydrodynamics, {UCI} 243",
    CC_BY,
    "22 hulls at 14 speeds each: rows of one hull are not independent.",
)

CATALOGUE = {
    entry.name: entry for entry in (_HOUSING, _CONCRETE, _ENERGY, _KIN8NM, _NAVAL, _POWER, _WINE, _YACHT)
}  # in the paper's order

NAMES = tuple(CATALOGUE)
