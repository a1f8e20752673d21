"""Mutation operators over Python source: each site is one small change that a tired programmer
could have made.

    compare-flip       a < b      ->  a >= b       compare-boundary   a < b   ->  a <= b
    constant           n          ->  n + 1        (in comparisons and sums)
    condition-dropped  a and b    ->  a            condition-fixed    if c:   ->  if True:
    negated            if c:      ->  if not c:    (both branches change places)
    call-omitted       f(x)       ->  (nothing)    a call made for its effect
    write-omitted      self.x = y ->  (nothing)
    exchanged          f(); g()   ->  g(); f()     two effects next to each other

A mutant is named by its file, operator and the number of its site, so that a name means the same
change as long as the file does not change. Pure: text in, text out.

Where old and new are expressions, the mutated code computes both and tells `nodes._mutation` (the
overlay's own module) whether they ever differed: a site that was reached and never made a
difference is no bug that a run could show. The operands are evaluated twice then, so only such are
taken as have no effect (`_is_pure`).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

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


@dataclass(frozen=True, slots=True)
class Site:
    """One possible change. ``line`` and ``says`` are for people."""

    operator: str
    number: int
    line: int
    says: str


def sites(source: str) -> list[Site]:
    """Every site of a file, in a fixed order."""
    return [site for site, _ in _changes(ast.parse(source))]


def mutate(source: str, operator: str, number: int) -> str:
    """The source with one change; KeyError when there is no such site."""
    tree = ast.parse(source)
    for site, change in _changes(tree):
        if (site.operator, site.number) == (operator, number):
            change()
            _import_reports(tree)
            return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    raise KeyError(f"no site {operator}:{number}")


_Change = Callable[[], None]


def _changes(tree: ast.Module) -> Iterator[tuple[Site, _Change]]:
    counts: dict[str, int] = {}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for operator, node, says, change in _of_function(function):
            number = counts[operator] = counts.get(operator, -1) + 1
            yield Site(operator, number, getattr(node, "lineno", 0), says), change


_Found = tuple[str, ast.AST, str, _Change]


def _of_function(function: ast.FunctionDef) -> Iterator[_Found]:
    for holder in _own_nodes(function):
        for name, value in ast.iter_fields(holder):
            if isinstance(value, list):
                for index, item in enumerate(value):
                    yield from _of_place(item, _setter_at(value, index))
                if name in ("body", "orelse", "finalbody"):
                    yield from _of_block(value)
            else:
                yield from _of_place(value, _setter(holder, name))


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The function's nodes without those of functions inside it, which are walked on their own, and
    without decorators, annotations and defaults."""
    waiting: list[ast.AST] = [function]
    while waiting:
        node = waiting.pop(0)
        yield node
        children = function.body if node is function else list(ast.iter_child_nodes(node))
        waiting += [c for c in children if not isinstance(c, ast.FunctionDef | ast.ClassDef)]


def _setter(holder: ast.AST, name: str) -> Callable[[ast.expr], None]:
    return lambda new: setattr(holder, name, new)


def _setter_at(items: list[ast.AST], index: int) -> Callable[[ast.expr], None]:
    def put(new: ast.expr) -> None:
        items[index] = new

    return put


# -- expressions --------------------------------------------------------------------------------


def _of_place(node: object, put: Callable[[ast.expr], None]) -> Iterator[_Found]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _compare(node, put)
    elif isinstance(node, ast.BoolOp):
        for index in range(len(node.values)):
            rest = [v for i, v in enumerate(node.values) if i != index]
            new: ast.expr = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            yield _expression("condition-dropped", node, new, put)
    elif isinstance(node, ast.If) and not _is_type_checking(node.test):
        test = _setter(node, "test")
        for fixed in (True, False):
            yield _expression("condition-fixed", node.test, ast.Constant(fixed), test)
        if node.orelse:
            yield _expression("negated", node.test, ast.UnaryOp(ast.Not(), node.test), test)


def _compare(node: ast.Compare, put: Callable[[ast.expr], None]) -> Iterator[_Found]:
    kind = type(node.ops[0])
    for operator, table in (("compare-flip", FLIPPED), ("compare-boundary", BOUNDARY)):
        if kind in table:
            new = ast.Compare(node.left, [table[kind]()], node.comparators)
            yield _expression(operator, node, new, put)
    right = node.comparators[0]
    if isinstance(right, ast.Constant) and type(right.value) is int:
        more = ast.Compare(node.left, node.ops, [ast.Constant(right.value + 1)])
        yield _expression("constant", node, more, put)


def _expression(
    operator: str, old: ast.expr, new: ast.expr, put: Callable[[ast.expr], None]
) -> _Found:
    says = f"{ast.unparse(old)}  ->  {ast.unparse(new)}"

    def change() -> None:
        if _is_pure(old):
            put(_report("differs", copy.deepcopy(old), copy.deepcopy(new)))
        else:
            put(_report("reached", copy.deepcopy(new)))

    return operator, old, says, change


def _is_pure(node: ast.expr) -> bool:
    """Whether evaluating it twice is like evaluating it once."""
    impure = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    return not any(isinstance(inner, impure) for inner in ast.walk(node))


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


# -- statements ---------------------------------------------------------------------------------


def _of_block(block: list[ast.stmt]) -> Iterator[_Found]:
    for index, statement in enumerate(block):
        if _is_effect(statement):
            operator = "call-omitted" if isinstance(statement, ast.Expr) else "write-omitted"
            says = f"{_short(statement)}  ->  (nothing)"
            yield operator, statement, says, _replacer(block, index, 1, [])
        following = block[index + 1] if index + 1 < len(block) else None
        if following is not None and _is_effect(statement) and _is_effect(following):
            says = f"{_short(statement)} <-> {_short(following)}"
            pair = [following, statement]
            yield "exchanged", statement, says, _replacer(block, index, 2, pair)


def _replacer(block: list[ast.stmt], index: int, count: int, new: list[ast.stmt]) -> _Change:
    def change() -> None:
        block[index : index + count] = [ast.Expr(_report("reached")), *new]

    return change


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


# -- telling ------------------------------------------------------------------------------------


def _report(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(f"_mutation_{name}", ast.Load()), list(arguments), [])


def _import_reports(tree: ast.Module) -> None:
    names = [ast.alias(n, f"_mutation_{n}") for n in ("reached", "differs")]
    at = 0
    for index, statement in enumerate(tree.body):
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if docstring or future:
            at = index + 1
    tree.body.insert(at, ast.ImportFrom("nodes._mutation", names, 0))
