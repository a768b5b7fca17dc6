"""Where a source file can be changed by one operator, number or call: the sites of mutation testing.

Text for people is left alone: docstrings, type hints, what is raised or warned of, f-strings, `__repr__`, `__str__`,
`describe` and every function that returns `str`; so are progress bars and the settings of a dataclass's fields.
"""

import ast
from dataclasses import dataclass
from itertools import pairwise

ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")}
COMPARISON: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
OTHER_NAME = {
    "min": "max",
    "max": "min",
    "amin": "amax",
    "amax": "amin",
    "argmin": "argmax",
    "argmax": "argmin",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "sum": "mean",
    "mean": "sum",
}
AXES = {"unsqueeze", "squeeze", "sum", "mean", "max", "min", "argmax", "argmin", "any", "all", "softmax", "gather"}
LIMITS = {"clamp", "clamp_min", "clamp_max", "clip"}
WORDS = {"__repr__", "__str__", "describe"}
SPOKEN = {"warn"}  # calls whose arguments are read by people
SIZE, ROUNDING = 16, 1e-5  # a module's constant from there on is a size, up to there a rounding
SETTINGS = {"repr", "strict", "stacklevel", "dtype", "device"}  # keywords that change no number


@dataclass(frozen=True)
class Site:
    """A change of the bytes from `start` to `end`."""

    start: int
    end: int
    line: int
    right: str
    wrong: str

    def applied(self, source: bytes) -> bytes:
        """The source with this change."""
        return source[: self.start] + self.wrong.encode() + source[self.end :]

    def reads_otherwise(self, source: bytes) -> bool:
        """Whether the change leaves Python, and other Python than before."""
        try:
            changed = ast.parse(self.applied(source))
        except SyntaxError:
            return False
        return ast.dump(changed) != ast.dump(ast.parse(source))


def sites(source: bytes) -> list[Site]:
    """All sites of a file, in the order of its text.

    >>> [(site.right, site.wrong) for site in sites(b"def f(a): return a[1:] + 2")]
    [('1', '2'), ('+', '-'), ('2', '3')]
    """
    visitor = _Sites(source)
    visitor.visit(ast.parse(source))
    return sorted(set(visitor.sites), key=lambda site: (site.start, site.end, site.wrong))


class _Sites(ast.NodeVisitor):
    """Collects sites; what it does not visit is not changed."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.sites: list[Site] = []
        self.offsets = [0]
        for line in source.splitlines(keepends=True):
            self.offsets.append(self.offsets[-1] + len(line))
        self.in_condition = False  # of a function that returns bool

    # ---------------------------------------------------------------- what is text, or no number

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Defaults and body, without annotations and decorators."""
        returned = ast.unparse(node.returns) if node.returns else ""
        if node.name in WORDS or returned == "str":
            return
        for default in (*node.args.defaults, *(value for value in node.args.kw_defaults if value)):
            self.visit(default)
        outer, self.in_condition = self.in_condition, returned == "bool"
        for statement in node.body:
            self.visit(statement)
        self.in_condition = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """The body, without decorators."""
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """The value, without the annotation."""
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Not changed: what is raised is said to people."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Not changed: text."""

    # ---------------------------------------------------------------- operators

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Another sign between two numbers."""
        if type(node.op) in ARITHMETIC and not (_is_text(node.left) or _is_text(node.right)):
            right, wrong = ARITHMETIC[type(node.op)]
            self._between(node.left, node.right, right, wrong)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """The same where a number is added to."""
        if type(node.op) in ARITHMETIC and not _is_text(node.value):
            right, wrong = ARITHMETIC[type(node.op)]
            self._between(node.target, node.value, f"{right}=", f"{wrong}=")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """The limit on the other side, and the other answer."""
        for (left, other), operator in zip(pairwise((node.left, *node.comparators)), node.ops, strict=True):
            right, wrongs = COMPARISON[type(operator)]
            for wrong in wrongs:
                self._between(left, other, right, wrong)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """And for or."""
        right, wrong = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, other in pairwise(node.values):
            self._between(left, other, right, wrong)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Without the minus, or the not."""
        if isinstance(node.op, ast.USub | ast.Not):
            start, end = self._start(node), self._start(node.operand)
            text = self.source[start:end].decode()
            sign = "-" if isinstance(node.op, ast.USub) else "not"
            self._add(start, end, text, text.replace(sign, "", 1).lstrip(), node.lineno)
        self.generic_visit(node)

    # ---------------------------------------------------------------- values and calls

    def visit_Constant(self, node: ast.Constant) -> None:
        """True for False, n + 1 for n, twice a fraction."""
        value = node.value
        if isinstance(value, bool):
            self._replace(node, str(not value))
        elif isinstance(value, int):
            self._replace(node, str(value + 1))
        elif isinstance(value, float):
            self._replace(node, repr(2 * value if value else 1.0))

    def visit_Call(self, node: ast.Call) -> None:
        """The largest for the smallest, a sum for a mean, a limit left away."""
        name = _called(node)
        if name in SPOKEN:
            return
        if name in LIMITS and isinstance(node.func, ast.Attribute):
            of_library = isinstance(node.func.value, ast.Name) and node.func.value.id in ("np", "torch")
            kept = node.args[0] if of_library else node.func.value
            self._replace(node, ast.get_source_segment(self.source.decode(), kept) or "")
        if name in OTHER_NAME and not (isinstance(node.func, ast.Name) and name == "sum"):
            end = self._end(node.func)
            self._add(end - len(name), end, name, OTHER_NAME[name], node.func.end_lineno or node.lineno)
        self.visit(node.func)
        for place, argument in enumerate(node.args):
            if not (name in AXES and place == 0 and isinstance(node.func, ast.Attribute) and _from_the_end(argument)):
                self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg not in SETTINGS and name != "track":
                self.visit(keyword.value)

    def visit_Return(self, node: ast.Return) -> None:
        """The other answer of a condition."""
        if node.value is not None:
            if self.in_condition:
                self._replace(node.value, f"not ({ast.get_source_segment(self.source.decode(), node.value)})")
            self.visit(node.value)

    def visit_Slice(self, node: ast.Slice) -> None:
        """One row more, or one fewer; numbers are changed as such."""
        for edge, sign in ((node.lower, "+"), (node.upper, "-")):
            if edge is not None and not isinstance(edge, ast.Constant):
                self._replace(edge, f"({ast.get_source_segment(self.source.decode(), edge)}) {sign} 1")
        self.generic_visit(node)

    # ---------------------------------------------------------------- places

    def _start(self, node: ast.expr) -> int:
        return self.offsets[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr) -> int:
        return self.offsets[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def _replace(self, node: ast.expr, wrong: str) -> None:
        start, end = self._start(node), self._end(node)
        self._add(start, end, self.source[start:end].decode(), wrong, node.lineno)

    def _between(self, left: ast.expr, right: ast.expr, sign: str, wrong: str) -> None:
        """Change the sign that stands between two expressions, where no comment does."""
        start, end = self._end(left), self._start(right)
        gap = self.source[start:end].decode()
        if "#" not in gap and sign in gap:
            at = start + len(gap[: gap.index(sign)].encode())
            line = self.source[:at].count(b"\n") + 1
            self._add(at, at + len(sign), sign, wrong, line)

    def _add(self, start: int, end: int, right: str, wrong: str, line: int) -> None:
        self.sites.append(Site(start, end, line, right, wrong))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def sized_lines(source: bytes) -> set[int]:
    """Lines of a module's constants that are a size, an effort or a rounding: from 16 on, or up to 1e-5.

    Another size of a block or one tree more is another choice, not an error.

    >>> sized_lines(b"ROWS = 2**10\\nSHARE = 0.5\\nTINY = 1e-9")
    {1, 3}
    """
    lines = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            numbers = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
            power = any(isinstance(part, ast.Pow) for part in ast.walk(node.value))
            sized = all(
                isinstance(value, int | float) and ((isinstance(value, int) and value >= SIZE) or 0 < value <= ROUNDING)
                for value in numbers
            )
            if numbers and (sized or (power and all(isinstance(value, int) for value in numbers))):
                lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _from_the_end(node: ast.expr) -> bool:
    """Whether an axis is counted from the end: without the minus it is the same axis of most tensors."""
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)
