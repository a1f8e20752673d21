"""Which expressions can be evaluated twice: what a mutated place needs to compare old with new.

A call is pure when what it names is: some of Python's own (`len`, `max`, `dict.get`, ...), what
only looks at a clock or a file, and those of the broker's own functions whose bodies do nothing but
ask and compute. The last are found by reading the package: a name is pure when every function of
that name is, whoever's method it is. Names are all that is known, so what cannot be told is impure.

Not pure though it looks like it: ``queue.get``, and what uses up an iterator (``any(rows)``,
``[r for r in rows]``) unless that is known to be a container, which can be read again.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

NOTHING: Final[frozenset[str]] = frozenset()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FUNCTIONS: Final = _words("""
    abs asdict bool bytes cast chr crc32c divmod field float getattr hasattr id int isinstance
    issubclass len memoryview ord range replace repr round str
""")
_CONSUMING: Final = _words("""
    all any dict enumerate filter frozenset list map max min reversed set sorted sum tuple zip
""")
"""They read an argument to its end: an iterator would be empty the second time."""
_CONTAINERS: Final = _words("""
    Collection Mapping Sequence Set dict frozenset list set str tuple bytes
""")
_METHODS: Final = _words("""
    bit_length casefold count decode difference encode endswith find fullmatch get index
    intersection is_alive is_set isalnum isascii isdecimal isdigit isdisjoint issubset issuperset
    items keys lower lstrip match partition removeprefix removesuffix rfind rpartition rstrip split
    splitlines startswith strip symmetric_difference union upper values with_suffix

    current_thread exists fileno fsdecode fsencode fstat get_ident getsize is_dir is_file is_symlink
    lexists monotonic monotonic_ns realpath relative_to stat time time_ns
""")
"""Of strings and containers; and what only looks: at a clock, a thread, a file."""
_IMPURE_OWNERS: Final = ("queue", "session", "client", "zk")
"""What is called so takes away what it gets, or asks over the network."""
_ASKING: Final = ast.Return | ast.If | ast.For | ast.Pass | ast.Assert | ast.Raise


def is_pure(
    node: ast.AST, known: frozenset[str] = NOTHING, again: frozenset[str] = NOTHING
) -> bool:
    """Whether evaluating it twice is like evaluating it once. ``known``: see `pure_names`;
    ``again``: local names of what can be read again, see `read_again`."""
    return not any(_has_effect(inner, known, again) for inner in ast.walk(node))


def read_again(function: ast.FunctionDef) -> frozenset[str]:
    """The local names of containers: by their annotations, or made as such wherever they are
    assigned. Any other may be an iterator."""
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    containers = {p.arg for p in parameters if p.annotation and _is_container(p.annotation)}
    stored: Counter[str] = Counter()
    made: Counter[str] = Counter()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] += 1
        elif isinstance(node, ast.AnnAssign) and _is_container(node.annotation):
            made.update(_names([node.target]))
        elif isinstance(node, ast.Assign) and _makes_container(node.value):
            made.update(_names(node.targets))
    once = {name for name in containers if not stored[name]}
    return frozenset(once | {n for n in made if made[n] == stored[n] and n not in containers})


def _names(targets: list[ast.expr]) -> list[str]:
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_container(annotation: ast.expr) -> bool:
    return ast.unparse(annotation).partition("[")[0] in _CONTAINERS


def _makes_container(value: ast.expr) -> bool:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in ("dict", "frozenset", "list", "set", "sorted", "tuple")
    made = ast.List | ast.Dict | ast.Set | ast.Tuple | ast.ListComp | ast.DictComp | ast.SetComp
    return isinstance(value, made)


def _has_effect(node: ast.AST, known: frozenset[str], again: frozenset[str]) -> bool:
    if isinstance(node, ast.Call):
        return not _is_pure_call(node, known, again)
    if isinstance(node, ast.comprehension):
        return not _is_read_again(node.iter, again)
    return isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr)


def _is_pure_call(call: ast.Call, known: frozenset[str], again: frozenset[str]) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        if function.id in ("max", "min") and len(call.args) > 1:
            return True  # of values, not of what one of them yields
        if function.id in _CONSUMING:
            return all(_is_read_again(argument, again) for argument in call.args)
        return function.id in _FUNCTIONS or function.id in known
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr in _METHODS:
        return not _is_impure_owner(function.value)
    return function.attr in known


def _is_read_again(argument: ast.expr, again: frozenset[str]) -> bool:
    """Whether it yields the same when it is evaluated and read a second time. A bare name may be
    an iterator that was made before."""
    if isinstance(argument, ast.Name):
        return argument.id in again
    return not isinstance(argument, ast.Starred)


def _is_impure_owner(owner: ast.expr) -> bool:
    last = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return any(word in last.lower() for word in _IMPURE_OWNERS)


# -- the package's own functions ------------------------------------------------------------------


@cache
def pure_names(package: Path) -> frozenset[str]:
    """The names of the package's functions and data classes of which every one is pure: the
    greatest set whose members call nothing but each other and what is pure anyway."""
    functions: dict[str, list[ast.FunctionDef]] = {}
    classes: dict[str, list[ast.ClassDef]] = {}
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(node)
    values = {name for name, of in classes.items() if all(_is_value(c) for c in of)}
    pure = {n for n, of in functions.items() if n not in classes and all(_only_asks(f) for f in of)}
    while True:
        known = frozenset(pure | values)
        left = {n for n in pure if all(_calls_only(f, known) for f in functions[n])}
        if left == pure:
            return known
        pure = left


def _is_value(made: ast.ClassDef) -> bool:
    """A class that only holds what it is given."""
    decorators = {ast.unparse(d).partition("(")[0].rpartition(".")[2] for d in made.decorator_list}
    bases = {ast.unparse(b) for b in made.bases}
    own = {node.name for node in made.body if isinstance(node, ast.FunctionDef)}
    fresh = "default_factory" not in ast.unparse(made)
    holds = "dataclass" in decorators or "NamedTuple" in bases
    return holds and fresh and not own & {"__init__", "__post_init__", "__new__"}


def _only_asks(function: ast.FunctionDef) -> bool:
    """Whether nothing but local names is written, besides what its calls may do."""
    nodes = list(_body(function))
    if any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for n in nodes):
        return False
    return all(_is_asking(n) for n in nodes if isinstance(n, ast.stmt))


def _is_asking(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return all(_is_local(target) for target in statement.targets)
    if isinstance(statement, ast.AnnAssign | ast.AugAssign):
        return isinstance(statement.target, ast.Name)
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)  # a docstring
    if isinstance(statement, ast.With):  # a lock of its own, held while it looks
        return all("lock" in ast.unparse(item.context_expr).lower() for item in statement.items)
    return isinstance(statement, _ASKING | ast.Continue | ast.Break)


def _is_local(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return all(_is_local(part) for part in target.elts)
    return isinstance(target, ast.Name)


def _calls_only(function: ast.FunctionDef, known: frozenset[str]) -> bool:
    again = read_again(function)
    return not any(_has_effect(node, known, again) for node in _body(function))


def _body(function: ast.FunctionDef) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += ast.iter_child_nodes(node)
