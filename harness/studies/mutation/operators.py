"""Mutation operators over Python source: each site is one small change that a tired programmer
could have made.

    compare-flip       a < b      ->  a >= b       compare-boundary   a < b   ->  a <= b
    constant           n          ->  n + 1        (in comparisons and sums)
    condition-dropped  a and b    ->  a            condition-fixed    if c:   ->  if True:
    negated            if c:      ->  if not c:    (both branches change places)
    call-omitted       f(x)       ->  (nothing)    a call made for its effect
    write-omitted      self.x = y ->  (nothing)
    exchanged          f(); g()   ->  g(); f()     two effects next to each other

A mutant is named by its file, operator, function and what it changes (`Site.mark`), so that a name
means the same change as long as that place does not change. Pure: text in, text out.

Where old and new can be compared, the mutated code computes both and tells `nodes._mutation` (the
overlay's own module) whether they ever differed: a site that was reached and never made a
difference is no bug that a run could show. What is compared is the truth of a condition, the value
of another expression, what was to be written with what is there. That evaluates operands twice, so
it is done where that has no effect (`purity`); the other sites are *blind*.

The same sites can be watched without being changed, many at once: `watch` makes a source that
behaves as the old one does, and tells of each site whether it was reached and what the change would
have made of it. One run with it says which mutants a scenario could notice at all.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from harness.studies.mutation.purity import NOTHING, is_pure, read_again

FLIPPED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
BOUNDARY: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_HARMLESS: Final = frozenset({"debug", "info", "warning", "error", "exception", "log"})
"""What is said to a log is no effect that a broker's promises rest on."""
_Put = Callable[[ast.expr], None]
_IsPure = Callable[[ast.expr], bool]


@dataclass(frozen=True, slots=True)
class Site:
    """One possible change. ``line`` and ``says`` are for people; ``within``: its function's name;
    ``again``: how many of the same operator and text come before it in functions of that name;
    ``blind``: that it was reached is all that can be told of it."""

    operator: str
    number: int
    line: int
    says: str
    within: str = ""
    again: int = 0
    blind: bool = False

    @property
    def mark(self) -> str:
        """What stays the same while the changed place does, wherever in its file it moves."""
        text = f"{self.operator}:{self.within}:{self.says}:{self.again}"
        return f"{self.operator}:{self.within}:{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def sites(source: str, known: frozenset[str] = NOTHING) -> list[Site]:
    """Every site of a file, in a fixed order. ``known``: pure functions (`purity.pure_names`)."""
    return [site for site, _ in _changes(ast.parse(source), known)]


def mutate(source: str, operator: str, number: int, known: frozenset[str] = NOTHING) -> str:
    """The source with one change; KeyError when there is no such site."""
    tree = ast.parse(source)
    for site, found in _changes(tree, known):
        if (site.operator, site.number) == (operator, number):
            found.change()
            return _finished(tree)
    raise KeyError(f"no site {operator}:{number}")


def watch(source: str, name: Callable[[Site], str | None], known: frozenset[str] = NOTHING) -> str:
    """The source as it is, telling of every site that ``name`` names (None: not watched)."""
    tree = ast.parse(source)
    compared: dict[int, tuple[str, _Expression, list[ast.expr]]] = {}
    passed: list[tuple[_Statement, ast.stmt]] = []
    for site, found in list(_changes(tree, known)):
        named = name(site)
        if named is None:
            continue
        if isinstance(found, _Statement):
            passed.append((found, found.told("passed", ast.Constant(named))))
        else:
            group = compared.setdefault(id(found.old), (named, found, []))
            group[2].append(found.other(named))
    for key, found, others in compared.values():
        every = ast.Lambda(_NO_ARGUMENTS, ast.Tuple(others, ast.Load()))
        found.put(_report("watched", ast.Constant(key), found.old, every))
    for statement, telling in passed:
        statement.block.insert(statement.place(), telling)
    return _finished(tree)


def _changes(tree: ast.Module, known: frozenset[str]) -> Iterator[tuple[Site, _Found]]:
    counts: Counter[str] = Counter()
    same: Counter[tuple[str, str, str]] = Counter()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for found in _of_function(function, known):
            text = (found.operator, function.name, found.says)
            site = Site(
                operator=found.operator,
                number=counts[found.operator],
                line=found.old.lineno,
                says=found.says,
                within=function.name,
                again=same[text],
                blind=found.is_blind,
            )
            counts[found.operator] += 1
            same[text] += 1
            yield site, found


def _of_function(function: ast.FunctionDef, known: frozenset[str]) -> Iterator[_Found]:
    conditions = _conditions(function)
    pure = partial(is_pure, known=known, again=read_again(function))
    for holder in _own_nodes(function):
        for name, value in ast.iter_fields(holder):
            if isinstance(value, list):
                for index, item in enumerate(value):
                    yield from _of_place(item, _setter_at(value, index), conditions, pure)
                if name in ("body", "orelse", "finalbody"):
                    made_only = holder is function and function.name == "__init__"
                    yield from _of_block(value, pure, made_only)
            else:
                yield from _of_place(value, _setter(holder, name), conditions, pure)


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The function's nodes without those of functions inside it, which are walked on their own, and
    without decorators, annotations and defaults."""
    waiting: list[ast.AST] = [function]
    while waiting:
        node = waiting.pop(0)
        yield node
        children = function.body if node is function else list(ast.iter_child_nodes(node))
        waiting += [c for c in children if not isinstance(c, ast.FunctionDef | ast.ClassDef)]


def _conditions(function: ast.FunctionDef) -> set[int]:
    """Ids of the expressions of which nothing but their truth is used."""
    waiting: list[ast.expr] = []
    for node in _own_nodes(function):
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            waiting.append(node.test)
        elif isinstance(node, ast.comprehension):
            waiting += node.ifs
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            waiting.append(node.operand)
        elif isinstance(node, ast.Return) and node.value is not None and _is_bool(function):
            waiting.append(node.value)
    found: set[int] = set()
    while waiting:
        node = waiting.pop()
        found.add(id(node))
        waiting += node.values if isinstance(node, ast.BoolOp) else []
    return found


def _is_bool(function: ast.FunctionDef) -> bool:
    return isinstance(function.returns, ast.Name) and function.returns.id == "bool"


def _setter(holder: ast.AST, name: str) -> _Put:
    return lambda new: setattr(holder, name, new)


def _setter_at(items: list[ast.AST], index: int) -> _Put:
    def put(new: ast.expr) -> None:
        items[index] = new

    return put


# -- expressions --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Expression:
    """``old`` becomes ``new``. ``kind``: how the two are compared, see `overlay`."""

    operator: str
    old: ast.expr
    new: ast.expr
    put: _Put
    kind: str
    is_blind: bool

    @property
    def says(self) -> str:
        return f"{ast.unparse(self.old)}  ->  {ast.unparse(self.new)}"

    def change(self) -> None:
        new = copy.deepcopy(self.new)
        if self.is_blind:
            self.put(_report("reached", new))
        else:
            old = copy.deepcopy(self.old)
            self.put(_report("differs", ast.Constant(self.kind), old, _later(new)))

    def other(self, name: str) -> ast.expr:
        """What a watched site of this name compares the old with."""
        new = None if self.is_blind else copy.deepcopy(self.new)
        return ast.Tuple([ast.Constant(name), ast.Constant(self.kind), _later(new)], ast.Load())


def _of_place(node: object, put: _Put, conditions: set[int], pure: _IsPure) -> Iterator[_Found]:
    def expression(operator: str, old: ast.expr, new: ast.expr, put: _Put) -> _Expression:
        is_truth = isinstance(old, ast.Compare) or id(old) in conditions
        kind = "truth" if is_truth else "value"
        return _Expression(operator, old, new, put, kind, not pure(old))

    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for operator, new in _compare(node):
            yield expression(operator, node, new, put)
    elif isinstance(node, ast.BoolOp):
        for index in range(len(node.values)):
            rest = [v for i, v in enumerate(node.values) if i != index]
            fewer: ast.expr = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            yield expression("condition-dropped", node, fewer, put)
    elif isinstance(node, ast.If) and not _is_type_checking(node.test):
        test = _setter(node, "test")
        for fixed in (True, False):
            yield expression("condition-fixed", node.test, ast.Constant(fixed), test)
        if node.orelse:
            yield expression("negated", node.test, ast.UnaryOp(ast.Not(), node.test), test)


def _compare(node: ast.Compare) -> Iterator[tuple[str, ast.expr]]:
    kind = type(node.ops[0])
    for operator, table in (("compare-flip", FLIPPED), ("compare-boundary", BOUNDARY)):
        if kind in table:
            yield operator, ast.Compare(node.left, [table[kind]()], node.comparators)
    right = node.comparators[0]
    if isinstance(right, ast.Constant) and type(right.value) is int:
        more = ast.Constant(right.value + 1)
        yield "constant", ast.Compare(node.left, node.ops, [more])


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


# -- statements ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Statement:
    """``count`` statements of a block, from ``old`` on, become others."""

    operator: str
    old: ast.stmt
    says: str
    block: list[ast.stmt]
    count: int
    new: tuple[ast.stmt, ...]
    is_blind: bool

    def change(self) -> None:
        at = self.place()
        self.block[at : at + self.count] = [self.told("unwritten"), *self.new]

    def place(self) -> int:
        return next(i for i, statement in enumerate(self.block) if statement is self.old)

    def told(self, report: str, *arguments: ast.expr) -> ast.stmt:
        sides = [None, None] if self.is_blind else copy.deepcopy(_sides(self.old))
        return ast.Expr(_report(report, *arguments, *map(_later, sides)))


def _of_block(block: list[ast.stmt], pure: _IsPure, made_only: bool = False) -> Iterator[_Found]:
    """``made_only``: what the block writes is seen by nobody before its end."""
    for index, statement in enumerate(block):
        if _is_effect(statement):
            operator = "call-omitted" if isinstance(statement, ast.Expr) else "write-omitted"
            says = f"{_short(statement)}  ->  (nothing)"
            sides = _sides(statement)
            blind = not sides or not all(pure(side) for side in sides)
            yield _Statement(operator, statement, says, block, 1, (), blind)
        following = block[index + 1] if index + 1 < len(block) else None
        if following is None or (made_only and _are_apart(statement, following)):
            continue
        if _is_effect(statement) and _is_effect(following):
            says = f"{_short(statement)} <-> {_short(following)}"
            yield _Statement("exchanged", statement, says, block, 2, (following, statement), True)


def _are_apart(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether both are writes of which neither reads what the other writes."""
    if not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign):
        return False
    return not any(
        ast.unparse(target) in ast.unparse(other.value)
        for one, other in ((first, second), (second, first))
        for target in one.targets
    )


def _sides(statement: ast.stmt) -> list[ast.expr]:
    """Of a write: what is there before, and what would be there after it. Empty: not to be told."""
    target: ast.expr
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, after = statement.targets[0], statement.value
    elif isinstance(statement, ast.AugAssign):
        target = statement.target
        after = ast.BinOp(_loaded(target), statement.op, statement.value)
    else:
        return []
    return [_loaded(target), after]


def _loaded(target: ast.expr) -> ast.expr:
    loaded = copy.deepcopy(target)
    loaded.ctx = ast.Load()  # type: ignore[attr-defined]
    return loaded


def _is_effect(statement: ast.stmt) -> bool:
    """A call made for its effect, or a write to what outlives the function."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        return not (isinstance(function, ast.Attribute) and function.attr in _HARMLESS)
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign):
        targets = [statement.target]
    return bool(targets) and all(isinstance(t, ast.Attribute | ast.Subscript) for t in targets)


def _short(statement: ast.stmt) -> str:
    text = ast.unparse(statement).replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."


_Found = _Expression | _Statement

# -- telling ------------------------------------------------------------------------------------

_REPORTS: Final = ("reached", "differs", "unwritten", "watched", "passed")
_NO_ARGUMENTS: Final = ast.arguments([], [], None, [], [], None, [])


def _later(new: ast.expr | None) -> ast.expr:
    """To be evaluated by whom it is told to: it may raise where the old does not."""
    return ast.Constant(None) if new is None else ast.Lambda(_NO_ARGUMENTS, new)


def _report(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(f"_mutation_{name}", ast.Load()), list(arguments), [])


def _finished(tree: ast.Module) -> str:
    _import_reports(tree)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _import_reports(tree: ast.Module) -> None:
    names = [ast.alias(n, f"_mutation_{n}") for n in _REPORTS]
    at = 0
    for index, statement in enumerate(tree.body):
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if docstring or future:
            at = index + 1
    tree.body.insert(at, ast.ImportFrom("nodes._mutation", names, 0))
