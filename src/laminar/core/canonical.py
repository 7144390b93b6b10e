"""Canonical text: the text of a definition, without anything that cannot change a value.

    prune(tree, …)          in place: docstrings, annotations, `pass`, and prints, logging and asserts that have no effect
    text(statement, names)  the rest as text: imported names by what they stand for, locals by numbers

So a renamed local, `import torch.nn as nn` for `from torch import nn`, or another print does not change the text. In case of doubt, code
stays in the text: an annotation where something reads annotations, a call that is not known to be harmless, a local where `locals()` is
called. In functions that run in forward(), only asserts about shapes and types are removed, because one about values prevents an export.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Any, Final, final

INSPECTING: Final = tuple(
    word.encode()
    for word in (
        "__annotations__",
        "get_type_hints",
        "get_annotations",
        "signature(",
        "getfullargspec",
        "inspect.",
        "import inspect",
        "jit.script",
    )
) + tuple(
    f"import {name}".encode() for name in ("pydantic", "beartype", "jaxtyping", "typeguard", "msgspec", "attr", "fire", "singledispatch")
)
"""A module with one of these may read annotations: then they count."""
PURE_DECORATORS: Final = frozenset(
    {
        "staticmethod",
        "classmethod",
        "property",
        "dataclasses.dataclass",
        "functools.lru_cache",
        "functools.cache",
        "functools.cached_property",
    }
    | {
        "functools.total_ordering",
        "contextlib.contextmanager",
        "typing.final",
        "typing.overload",
        "typing.runtime_checkable",
        "enum.unique",
    }
    | {"abc.abstractmethod", "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "typing.override", "functools.wraps"}
)
PURE_CALLS: Final = frozenset(
    {"dataclasses.field", "typing.TypeVar", "typing.NewType", "typing.ParamSpec", "logging.getLogger", "re.compile", "pathlib.Path"}
    | {"functools.partial", "collections.namedtuple", "enum.auto", "property", "collections.OrderedDict", "dataclasses.dataclass"}
    | {"functools.lru_cache", "functools.wraps", "torch.no_grad", "torch.inference_mode", "torch.device", "torch.Size"}
)
_LITERAL_CALLS: Final = frozenset(
    {"frozenset", "set", "tuple", "list", "dict", "range", "int", "float", "str", "bool", "complex", "slice", "len"}
)
_BY_NAME: Final = frozenset({"locals", "vars", "eval", "exec", "dir", "globals"})
_ABOUT_SHAPE: Final = frozenset({"shape", "ndim", "dtype", "device", "names", "itemsize", "is_cuda", "requires_grad"})
_SHAPE_METHODS: Final = frozenset({"dim", "size", "numel", "is_floating_point", "is_complex", "element_size", "stride", "ndimension"})
_SHAPE_CALLS: Final = frozenset({"len", "isinstance", "type", "hasattr", "callable", "issubclass"})
_VALUE_CALLS: Final = frozenset(
    {"int", "float", "str", "repr", "tuple", "list", "all", "any", "abs", "min", "max", "sum", "round", "sorted"}
)
_LEVELS: Final = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical"})
_PLACE: Final[dict[str, Any]] = {"lineno": 0}
_BUILDERS: Final = frozenset({"__init__", "__post_init__"})


# Pruning


def prune(tree: ast.Module, *, lenient: bool, names: Mapping[str, str], loggers: Collection[str], start: str | None) -> None:
    """Take out, in place, what has no effect on values. `lenient`: annotations as well. `start`: a function that only builds a model."""
    bound = bound_anywhere(tree)
    own = {name for name, times in bound.items() if times > (name in names or name in loggers)} | ({"print"} if "*" in bound else set())
    _Pruner(lenient, {**names, **{name: f":{name}" for name in own}}, {name for name in loggers if name not in own}, start).visit(tree)


def bound_anywhere(tree: ast.AST) -> dict[str, int]:
    """Every name that a module binds in any scope, and how often: none of them is a builtin for certain."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        names: list[str | None] = []
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names = [node.id]
        elif isinstance(node, ast.arg):
            names = [node.arg]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            names = [node.name]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.asname or alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.Global | ast.Nonlocal):
            names = list(node.names)
        for name in names:
            if name:
                found[name] = found.get(name, 0) + 1
    return found


@final
class _Pruner(ast.NodeTransformer):
    def __init__(self, lenient: bool, names: Mapping[str, str], loggers: Collection[str], start: str | None) -> None:
        self._lenient, self._names, self._loggers, self._start = lenient, names, loggers, start
        self._within: list[str] = []  # functions; "" for a class

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._within.append("")
        return self._left(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        if self._lenient:
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg) and not _calls(argument.annotation):
                    argument.annotation = None
            if not _calls(node.returns):
                node.returns = None
        self._within.append(node.name)
        return self._left(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def _left(self, node: Any) -> ast.AST:
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        self.generic_visit(node)
        self._within.pop()
        return self._filled(node)

    def _filled(self, node: Any) -> ast.AST:
        for part in ("body", "orelse", "finalbody", "handlers"):
            inner = getattr(node, part, None)
            if not isinstance(inner, list):
                continue
            kept = [s for s in inner if not isinstance(s, ast.Pass)]
            setattr(node, part, kept or ([ast.Pass()] if part == "body" else []))
        return node  # type: ignore[no-any-return]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        return self._filled(node) if isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try | ast.ExceptHandler) else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if self._within and isinstance(node.value, ast.Constant):
            return None
        return None if self._within and self._says_something(node.value) else node

    def visit_Assert(self, node: ast.Assert) -> ast.AST | None:
        builds = bool(self._within) and (self._within[-1] in _BUILDERS or (self._start is not None and self._within == [self._start]))
        harmless = self._harmless(node.test, values=builds) and (node.msg is None or self._printable(node.msg))
        return None if self._within and harmless else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        in_function = bool(self._within) and self._within[-1] != ""
        if self._lenient and node.value is not None and (in_function or (not self._within and not _calls(node.annotation) and node.simple)):
            return self.generic_visit(ast.copy_location(ast.Assign([node.target], node.value), node))
        return self.generic_visit(node)

    def _says_something(self, call: ast.expr) -> bool:
        """A print, or a call of a logger."""
        if not isinstance(call, ast.Call) or not all(self._printable(a) for a in call.args):
            return False
        if isinstance(call.func, ast.Name) and call.func.id == "print" and "print" not in self._names:
            return all(self._printable(k.value) and k.arg in ("sep", "end", "flush") for k in call.keywords)
        if isinstance(call.func, ast.Attribute) and call.func.attr in _LEVELS and isinstance(call.func.value, ast.Name):
            logs = call.func.value.id in self._loggers or self._names.get(call.func.value.id) == "logging"
            return logs and all(self._printable(k.value) and k.arg in ("stacklevel", "exc_info") for k in call.keywords)
        return False

    def _printable(self, node: ast.expr) -> bool:
        """Can it be shown without an effect? A tensor that is traced can, but for formats, which ask for its value."""
        if isinstance(node, ast.JoinedStr):
            return all(self._printable(part) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self._printable(node.value) if node.format_spec is None else self._harmless(node.value, values=False)
        if isinstance(node, ast.Name | ast.Constant):
            return True
        if isinstance(node, ast.Attribute):
            return self._printable(node.value)
        if isinstance(node, ast.Tuple | ast.List):
            return all(self._printable(item) for item in node.elts)
        return self._harmless(node, values=False)

    def _harmless(self, node: ast.expr, *, values: bool) -> bool:
        """Has it no effect, and needs it no tensor's value? `values`: plain names stand for no tensors that are traced."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name):
            return values
        if isinstance(node, ast.Attribute):
            return self._plain(node.value) if node.attr in _ABOUT_SHAPE or values else False
        if isinstance(node, ast.BoolOp | ast.Tuple | ast.List):
            return all(self._harmless(v, values=values) for v in (node.values if isinstance(node, ast.BoolOp) else node.elts))
        if isinstance(node, ast.UnaryOp):
            return self._harmless(node.operand, values=values)
        if isinstance(node, ast.BinOp):
            return self._harmless(node.left, values=values) and self._harmless(node.right, values=values)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if all(isinstance(o, ast.Is | ast.IsNot) for o in node.ops):
                return all(isinstance(s, ast.Constant) or self._plain(s) for s in sides)
            return all(self._harmless(side, values=values) for side in sides)
        if isinstance(node, ast.Subscript):
            return self._harmless(node.value, values=values) and self._harmless(node.slice, values=values)
        if isinstance(node, ast.Slice):
            return all(part is None or self._harmless(part, values=values) for part in (node.lower, node.upper, node.step))
        if isinstance(node, ast.Call) and not node.keywords:
            if isinstance(node.func, ast.Name) and node.func.id not in self._names:
                if node.func.id in _SHAPE_CALLS:
                    return all(self._plain(a) for a in node.args)
                return values and node.func.id in _VALUE_CALLS and all(self._harmless(a, values=values) for a in node.args)
            if isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPE_METHODS:
                return self._plain(node.func.value) and all(self._harmless(a, values=values) for a in node.args)
        return False

    def _plain(self, node: ast.expr) -> bool:
        """A name, or attributes of one; or several."""
        if isinstance(node, ast.Tuple):
            return all(self._plain(item) for item in node.elts)
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name)


def _calls(node: ast.AST | None) -> bool:
    """Does it do something when it is evaluated?"""
    return node is not None and any(isinstance(n, ast.Call | ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr) for n in ast.walk(node))


# Effects on import


def runs_something(statement: ast.stmt, dotted: Mapping[str, str]) -> bool:
    """Does a definition do more, when its module is imported, than bind its name?"""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = statement.args
        told = [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
        notes = [a.annotation for a in ast.walk(arguments) if isinstance(a, ast.arg)] + [statement.returns]
        return any(_does(n, dotted) for n in [*told, *notes]) or not all(_pure_decorator(d, dotted) for d in statement.decorator_list)
    if isinstance(statement, ast.ClassDef):
        if not all(_pure_decorator(d, dotted) for d in statement.decorator_list) or any(_does(base, dotted) for base in statement.bases):
            return True
        return any(runs_something(inner, dotted) for inner in statement.body)
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        plain = not any(isinstance(n, ast.Attribute | ast.Subscript) for t in targets for n in ast.walk(t))
        return not plain or _does(statement.value, dotted)
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    return not isinstance(statement, ast.Pass)


def _does(node: ast.AST | None, dotted: Mapping[str, str]) -> bool:
    if node is None:
        return False
    for part in ast.walk(node):
        if isinstance(part, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            return True
        if isinstance(part, ast.Call):
            name = name_of(part.func, dotted)
            literal = name in _LITERAL_CALLS and all(not isinstance(n, ast.Name) for a in part.args for n in ast.walk(a))
            if name not in PURE_CALLS and not literal:
                return True
    return False


def _pure_decorator(node: ast.expr, dotted: Mapping[str, str]) -> bool:
    if isinstance(node, ast.Call):
        if any(_does(a, dotted) for a in (*node.args, *(k.value for k in node.keywords))):
            return False
        node = node.func
    name = name_of(node, dotted) or ""
    return name in PURE_DECORATORS or name.endswith((".setter", ".getter", ".deleter"))


def name_of(node: ast.AST, dotted: Mapping[str, str]) -> str | None:
    """`dataclass` as what it stands for: dataclasses.dataclass."""
    if isinstance(node, ast.Name):
        return dotted.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        inner = name_of(node.value, dotted)
        return f"{inner}.{node.attr}" if inner else None
    return None


# Text


def text(statement: ast.stmt, names: Mapping[str, str]) -> str:
    """`names`: what imported names stand for."""
    return ast.unparse(_Renamer(names).visit(_copied(statement)))


def _copied(node: Any) -> Any:
    """A tree of its own, in a part of the time that deepcopy takes. All of it is on one line."""
    if isinstance(node, list):
        return [_copied(item) for item in node]
    if not isinstance(node, ast.AST):
        return node
    fields: dict[str, Any] = {name: _copied(getattr(node, name, None)) for name in node._fields}
    return node.__class__(**fields, **_PLACE)


class _Scope(dict[str, str]):
    """Names bound in a function or class -> what they are called in the text."""

    is_class = False


@final
class _Renamer(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._scopes: list[_Scope] = []
        self._count = 0

    def visit_Name(self, node: ast.Name) -> ast.AST:
        for depth, scope in enumerate(reversed(self._scopes)):
            if node.id in scope and (depth == 0 or not scope.is_class):
                return ast.Name(scope[node.id], node.ctx)
        if isinstance(node.ctx, ast.Load) and node.id in self._names:
            return ast.Name(self._names[node.id], node.ctx)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args = self._outside(node.args)
        node.returns = self.visit(node.returns) if node.returns is not None else None
        scope = self._function(node)
        self._scopes.append(scope)
        node.body = [self.visit(s) for s in node.body]
        self._scopes.pop()
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.args = self._outside(node.args)
        self._scopes.append(_Scope({a.arg: a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}))
        node.body = self.visit(node.body)
        self._scopes.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.bases = [self.visit(b) for b in node.bases]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        scope = _Scope({name: name for name in _bound(node.body)[0]})
        scope.is_class = True
        self._scopes.append(scope)
        node.body = [self.visit(s) for s in node.body]
        self._scopes.pop()
        return node

    def _comprehension(self, node: Any) -> ast.AST:
        node.generators[0].iter = self.visit(node.generators[0].iter)
        bound = [n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)]
        self._scopes.append(_Scope({name: self._fresh() for name in dict.fromkeys(bound)}))
        for number, generator in enumerate(node.generators):
            generator.target = self.visit(generator.target)
            if number:
                generator.iter = self.visit(generator.iter)
            generator.ifs = [self.visit(test) for test in generator.ifs]
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                setattr(node, part, self.visit(getattr(node, part)))
        self._scopes.pop()
        return node  # type: ignore[no-any-return]

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _outside(self, arguments: ast.arguments) -> ast.arguments:
        """Defaults and annotations belong to the scope around."""
        arguments.defaults = [self.visit(d) for d in arguments.defaults]
        arguments.kw_defaults = [d if d is None else self.visit(d) for d in arguments.kw_defaults]
        for argument in ast.walk(arguments):
            if isinstance(argument, ast.arg) and argument.annotation is not None:
                argument.annotation = self.visit(argument.annotation)
        return arguments

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> _Scope:
        stored, fixed, outer = _bound(node.body)
        parameters = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        by_name = any(isinstance(n, ast.Name) and n.id in _BY_NAME for n in ast.walk(node))
        scope = _Scope({name: name for name in (*parameters, *fixed)})
        for name in stored:
            if name not in scope:
                scope[name] = name if by_name else self._fresh()
        for name in outer["global"]:
            scope[name] = name
        return scope

    def _fresh(self) -> str:
        self._count += 1
        return f"${self._count}"


def _bound(body: list[ast.stmt]) -> tuple[list[str], set[str], dict[str, set[str]]]:
    """Names that a scope stores, in order; names bound by a definition, import or handler; names declared global and nonlocal."""
    stored: dict[str, None] = {}
    fixed: set[str] = set()
    outer: dict[str, set[str]] = {"global": set(), "nonlocal": set()}
    todo: list[ast.AST] = list(reversed(body))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            fixed.add(node.name)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            for inner in ast.walk(node):
                if isinstance(inner, ast.NamedExpr) and isinstance(inner.target, ast.Name):
                    stored.setdefault(inner.target.id)
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            stored.setdefault(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            fixed.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            fixed.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            fixed.add(node.rest)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            outer["global" if isinstance(node, ast.Global) else "nonlocal"].update(node.names)
        todo.extend(reversed(list(ast.iter_child_nodes(node))))
    return [name for name in stored if name not in outer["global"] | outer["nonlocal"]], fixed, outer
