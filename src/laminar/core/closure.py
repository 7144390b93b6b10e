"""Source closure: which of the project's own definitions a factory reaches, and what each of them says.

From one function or class we follow the names it uses: definitions of the same module, names imported from other modules of
the project, attributes of imported project modules. So a changed helper two imports away changes the closure, and a changed
neighbour that nobody reached does not. What runs at import time (calls, decorated definitions, patches, `if`, `try`, `for`)
counts for every module reached. Where names cannot be followed (`import *`, `globals()`, a module passed as a value) the whole
module counts: too much is a needless training, too little would be a stale layer.

Comments, formatting and docstrings do not count: definitions are compared as syntax trees. The text of a kernel counts for what reads it
by `laminar.kernel("leaky.c")` (kernel_files.py).
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from laminar.core import digest
from laminar.core.kernel_files import kernel_files, kernel_names, kernel_paths, kernel_text, only_reads_kernels

WHOLE = "*"
EVERY = "**"
_DYNAMIC = frozenset({"globals", "vars", "eval", "exec", "__import__"})
_HOOKS = (b"__init_subclass__", b"__subclasses__", b"metaclass")  # ways in which a class is found by nobody naming it


def closure(module: str, symbol: str | None, root: Path) -> dict[str, str]:
    """`{"models.py:convnet": sha256, ...}` for everything of the project under `root` that `module:symbol` reaches."""
    found: dict[str, str] = {}
    todo = [(module, symbol or WHOLE)]
    seen: set[tuple[str, str]] = set()
    while todo:
        name, wanted = todo.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        source = _read(name, root)
        if source is None:
            continue
        if wanted == EVERY:  # an import whose name is computed may mean any of them
            todo.extend((other, WHOLE) for other in _every_module(root))
            continue
        if "." in name:  # importing a.b runs a/__init__.py
            todo.append((name.rpartition(".")[0], ""))
        todo.extend((other, "") for other in source.runs())  # what an imported module does at import counts, whatever is taken from it
        for key, text, uses in source.reach(wanted):
            found[f"{source.path}:{key}"] = digest.of_bytes(text.encode())
            todo.extend(uses)
        for path, text in source.kernels(wanted):
            found[path] = digest.of_bytes(text.encode())
    return dict(sorted(found.items()))


def closure_digest(module_file: Path, root: Path, symbol: str | None = None) -> str:
    """One sha256 for the closure of a module file under `root`."""
    relative = module_file.resolve().relative_to(root.resolve()).with_suffix("")
    parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
    return digest.of_json(closure(".".join(parts), symbol, root))


def module_file(module: str, root: Path) -> Path | None:
    """The file of a project module, or None when the project has no such module."""
    path = root.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def definitions(module: str, root: Path) -> dict[str, int] | None:
    """The names that a project module has, with their lines (0: imported). None where only running it would show them all."""
    source = _read(module, root)
    if source is None or source.opaque or "__getattr__" in source.definitions:
        return None
    found = dict.fromkeys((*source.modules, *source.imported), 0)
    found.update({name: group[0].lineno for name, group in source.definitions.items()})
    for node in (node for group in (*source.definitions.values(), source.always) for statement in group for node in ast.walk(statement)):
        if isinstance(node, ast.Import | ast.ImportFrom):  # of a library, inside `try` or `if`
            found.update({(alias.asname or alias.name).partition(".")[0]: 0 for alias in node.names if alias.name not in found})
        elif isinstance(node, ast.Global):
            found.update(dict.fromkeys(node.names, node.lineno))
    runs = (node for statement in source.always for node in ast.walk(statement))
    writes = any(isinstance(n, ast.Name) and n.id in (*_DYNAMIC, "setattr") for n in runs)  # globals()["name"] = …
    return None if writes or "*" in found else {name: line for name, line in found.items() if name.isidentifier()}


@dataclass
class _Source:
    """One parsed module: definitions by name, what always counts, and what each import name stands for."""

    name: str
    path: str
    is_package: bool
    root: Path
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    always: list[ast.stmt] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)  # local name -> project module
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)  # local name -> (project module, name in it)
    opaque: bool = False
    loads: frozenset[str] = frozenset()  # names by which it calls laminar.kernel
    _texts: dict[int, str] = field(default_factory=dict)  # of statements, by their id

    def _text(self, statement: ast.stmt) -> str:
        found = self._texts.get(id(statement))
        if found is None:
            found = self._texts[id(statement)] = ast.unparse(statement)
        return found

    def runs(self) -> set[str]:
        """The project's modules that importing this one runs."""
        return {*self.modules.values(), *(module for module, _ in self.imported.values())} - {self.name}

    def reach(self, wanted: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
        """(key, canonical text, what it uses next) of the definition `wanted`, of what always counts, or of all."""
        if wanted == WHOLE or self.opaque:
            everything = [s for group in self.definitions.values() for s in group] + self.always
            uses = [u for statement in everything for u in self._uses(statement)]
            uses += [(m, WHOLE) for m in self.modules.values()] + list(self.imported.values())
            text = "\n".join(self._text(s) for s in sorted({id(s): s for s in everything}.values(), key=lambda s: s.lineno))
            yield WHOLE, text, uses
            return
        for statement in self.always:
            text = self._text(statement)
            yield "import " + hashlib.sha256(text.encode()).hexdigest()[:8], text, self._uses(statement)
        if wanted in self.definitions:
            group = self.definitions[wanted]
            yield wanted, "\n".join(map(self._text, group)), [u for s in group for u in self._uses(s)]
        elif wanted in self.imported:
            yield wanted, "->" + ":".join(self.imported[wanted]), [self.imported[wanted]]
        elif wanted:
            submodule = f"{self.name}.{wanted}"
            if "__getattr__" in self.definitions:
                yield "__getattr__", wanted, [(self.name, WHOLE)]
            elif self.is_package and module_file(submodule, self.root):
                yield wanted, "->" + submodule, [(submodule, WHOLE)]

    def kernels(self, wanted: str) -> Iterator[tuple[str, str]]:
        """(path, text) of kernels that `laminar.kernel("leaky.c")` reads in what `reach` gives."""
        everything = wanted == WHOLE or self.opaque
        named = [s for group in self.definitions.values() for s in group] if everything else self.definitions.get(wanted, [])
        home = (self.root / self.path).parent
        for statement in (*named, *self.always):
            for given in kernel_files(statement, self.loads):
                for file in kernel_paths(given, home, self.root):
                    yield file.relative_to(self.root).as_posix() if file.is_relative_to(self.root) else file.name, kernel_text(file)

    def _uses(self, statement: ast.stmt) -> list[tuple[str, str]]:
        uses: list[tuple[str, str]] = []
        attribute_bases: set[int] = set()
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute):
                dotted = _dotted(node.value)
                if dotted == "sys" and node.attr == "modules":
                    uses.append((self.name, WHOLE))
                elif dotted is not None and (target := self._module_of(dotted)) is not None:
                    uses.append((target, node.attr))
                    attribute_bases.update(id(n) for n in ast.walk(node.value))
            elif isinstance(node, ast.Import | ast.ImportFrom):
                for local, project_module, name in _imports(node, self):
                    uses.append((project_module, name or WHOLE))
                    if local == "*":
                        uses.append((project_module, WHOLE))
            elif isinstance(node, ast.Call) and (_dotted(node.func) or "").split(".")[-1] in ("import_module", "__import__"):
                asked = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
                uses.append((asked, WHOLE) if isinstance(asked, str) and not asked.startswith(".") else (self.name, EVERY))
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and id(node) not in attribute_bases:
                if node.id in self.definitions:
                    uses.append((self.name, node.id))
                elif node.id in self.imported:
                    uses.append(self.imported[node.id])
                elif node.id in self.modules:
                    uses.append((self.modules[node.id], WHOLE))
                elif node.id in _DYNAMIC:
                    uses.append((self.name, WHOLE))
        return uses

    def _module_of(self, dotted: str) -> str | None:
        """The project module that `helpers.act` stands for in this file, following `import helpers.act`."""
        first, _, rest = dotted.partition(".")
        base = self.modules.get(first)
        if base is None:
            if first in self.imported:
                module, name = self.imported[first]
                base = f"{module}.{name}"
            else:
                return None
        target = f"{base}.{rest}" if rest else base
        return target if module_file(target, self.root) else None


def _read(module: str, root: Path) -> _Source | None:
    file = module_file(module, root)
    if file is None:
        return None
    signature = digest.stat_signature(file)
    return _parse(module, file, root, signature)


@functools.lru_cache(maxsize=256)
def _parse(module: str, file: Path, root: Path, signature: tuple[int, int, int, int]) -> _Source:  # noqa: ARG001 - part of the cache key
    source = _Source(module, file.relative_to(root).as_posix(), file.name == "__init__.py", root)
    try:
        tree = ast.parse(file.read_bytes())
        _NoDocstrings().visit(tree)
    except (SyntaxError, ValueError):
        # A file that does not parse has no definitions to follow: its bytes count as they are, and the import will complain.
        source.opaque = True
        source.always.append(ast.Expr(ast.Constant(file.read_bytes().hex()), lineno=1, col_offset=0))
        return source
    source.loads = kernel_names(tree.body)
    for statement in tree.body:
        _file_statement(source, statement)
    return source


def _file_statement(source: _Source, statement: ast.stmt) -> None:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for local, module, name in _imports(statement, source):
            if local == "*":
                source.opaque = True
                source.imported.setdefault("*" + module, (module, WHOLE))
            elif name is None:
                source.modules[local] = module
            else:
                source.imported[local] = (module, name)
        if not any(True for _ in _imports(statement, source)):
            for alias in statement.names:  # a third-party name: which one it is belongs to the definition's meaning
                local = (alias.asname or alias.name).split(".")[0]
                source.definitions.setdefault(local, []).append(statement)
    elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        source.definitions.setdefault(statement.name, []).append(statement)
        if statement.decorator_list or (isinstance(statement, ast.ClassDef) and _is_found_by_its_base(statement, source)):
            source.always.append(statement)
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        for name in names:
            source.definitions.setdefault(name, []).append(statement)
        plain = not any(isinstance(n, ast.Attribute | ast.Subscript) for t in targets for n in ast.walk(t))
        calls = statement.value is not None and any(isinstance(n, ast.Call) for n in ast.walk(statement.value))
        if not plain or (calls and not only_reads_kernels(statement, source.loads)):
            source.always.append(statement)
    elif not _is_inert(statement):
        source.always.append(statement)
        for node in ast.walk(statement):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                source.definitions.setdefault(node.name, []).append(statement)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                source.definitions.setdefault(node.id, []).append(statement)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                for local, module, name in _imports(node, source):
                    if name is None:
                        source.modules[local] = module
                    else:
                        source.imported[local] = (module, name)


def _is_inert(statement: ast.stmt) -> bool:
    """A docstring, `pass`, or the `if __name__ == "__main__"` block: never runs, or says nothing, on import."""
    if isinstance(statement, ast.Pass) or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
        return not isinstance(statement, ast.Expr) or isinstance(getattr(statement.value, "value", None), str)
    if isinstance(statement, ast.If):
        test = statement.test
        return not statement.orelse and ast.unparse(test).replace('"', "'") == "__name__ == '__main__'"
    return False


def _is_found_by_its_base(statement: ast.ClassDef, source: _Source) -> bool:
    """A class with a metaclass, or below a class of the project that keeps a list of its subclasses: defining it has effects."""
    if statement.keywords:
        return True
    files = [module_file(source.name, source.root)]
    for base in statement.bases:
        first = (_dotted(base) or "").partition(".")[0]
        module = source.imported[first][0] if first in source.imported else source.modules.get(first)
        files.append(module_file(module, source.root) if module else None)
    own = any(
        (_dotted(base) or "") in source.definitions or file is not None for base, file in zip(statement.bases, files[1:], strict=True)
    )
    return own and any(hook in file.read_bytes() for file in files if file is not None for hook in _HOOKS)


def _every_module(root: Path) -> Iterator[str]:
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        if all(part.isidentifier() for part in parts) and not any(
            (root / Path(*parts[:i]) / "pyvenv.cfg").exists() for i in range(1, len(parts))
        ):
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(node: ast.Import | ast.ImportFrom, source: _Source) -> Iterator[tuple[str, str, str | None]]:
    """(local name, project module, name in it or None) of what an import takes from the project itself."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.split(".")[0]
            if module_file(alias.name, source.root) or module_file(top, source.root):
                yield (alias.asname, alias.name, None) if alias.asname else (top, top, None)
                if not alias.asname and alias.name != top:
                    yield ("*dotted*" + alias.name, alias.name, None)
        return
    module = _absolute(node, source)
    if module_file(module, source.root) is None and not source.root.joinpath(*module.split(".")).is_dir():
        return
    for alias in node.names:
        local = "*" if alias.name == "*" else alias.asname or alias.name
        if alias.name != "*" and module_file(f"{module}.{alias.name}", source.root):
            yield local, f"{module}.{alias.name}", None
        elif module_file(module, source.root):
            yield local, module, WHOLE if alias.name == "*" else alias.name


def _absolute(node: ast.ImportFrom, source: _Source) -> str:
    if not node.level:
        return node.module or ""
    parts = source.name.split(".")
    keep = len(parts) - node.level + (1 if source.is_package else 0)
    return ".".join([*parts[: max(keep, 0)], *([node.module] if node.module else [])])


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return f"{inner}.{node.attr}" if inner else None
    return None


class _NoDocstrings(ast.NodeTransformer):
    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return node
