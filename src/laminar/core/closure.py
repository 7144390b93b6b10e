"""Source closure: which of the user's own definitions a factory reaches, what each of them says, and which libraries they import.

From one function or class we follow the names it uses: definitions of the same module, names imported from other modules of
the project, attributes of imported project modules. So a changed helper two imports away changes the closure, and a changed
neighbour that nobody reached does not. What runs at import time (calls, decorators, class bodies and defaults that call, patches, `if`,
`try`, `for`) counts for every module reached, in its order. Where names cannot be followed (`import *`, `globals()`, a module passed as a
value) the whole module counts: too much is a needless training, too little would be a stale layer.

Own code lies in the project, in its `src`, on PYTHONPATH and in editable installs; libraries count by version (search_path.py).
Definitions are compared as text that leaves out what cannot change a value (canonical.py). The text of a kernel counts for what reads it
by `laminar.kernel("leaky.c")` (kernel_files.py). What only running code finds (a plug-in by its path) is seen when it runs (observe.py).
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from laminar.core import canonical, digest
from laminar.core.kernel_files import kernel_files, kernel_names, kernel_paths, kernel_text, only_reads_kernels
from laminar.core.search_path import is_library, module_base
from laminar.core.search_path import module_file as module_file

WHOLE = "*"
EVERY = "**"
_DYNAMIC = frozenset({"globals", "vars", "eval", "exec", "__import__"})
_HOOKS = (b"__init_subclass__", b"__subclasses__", b"metaclass")  # ways in which a class is found by nobody naming it


@dataclass(frozen=True)
class Reached:
    """The source code that a factory reaches."""

    sources: dict[str, str]  # {"models.py:convnet": sha256, ...}
    libraries: frozenset[str]  # modules that no source of ours says


def closure(module: str, symbol: str | None, root: Path) -> dict[str, str]:
    """`{"models.py:convnet": sha256, ...}` for everything of the user's own that `module:symbol` of the project at `root` reaches."""
    return reach(module, symbol, root).sources


def reach(module: str, symbol: str | None, root: Path) -> Reached:
    found, inspects = _reach(module, symbol, root, lenient=True)
    if inspects:
        found, _ = _reach(module, symbol, root, lenient=False)  # something may read annotations, so they count
    return found


def _reach(module: str, symbol: str | None, root: Path, *, lenient: bool) -> tuple[Reached, bool]:
    found: dict[str, str] = {}
    libraries: set[str] = set()
    todo = [(module, symbol or WHOLE)]
    seen: set[tuple[str, str]] = set()
    inspects = False
    while todo:
        name, wanted = todo.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        source = _read(name, root, lenient, symbol if name == module else None)
        if source is None:
            continue
        inspects = inspects or source.inspects
        if lenient and inspects:
            return Reached({}, frozenset()), True
        if wanted == EVERY:  # an import whose name is computed may mean any of them
            todo.extend((other, WHOLE) for other in _every_module(root))
            continue
        if "." in name:  # importing a.b runs a/__init__.py
            todo.append((name.rpartition(".")[0], ""))
        runs = source.runs()
        todo.extend((other, "") for other in runs)  # what an imported module does at import counts, whatever is taken from it
        ordered = [other for other in runs if _does_something(other, root, lenient, frozenset({name}))]
        if len(ordered) > 1:
            found[f"{source.path}:imports"] = digest.of_json(ordered)
        libraries |= source.libraries
        for key, text, uses in source.reach(wanted):
            found[f"{source.path}:{key}"] = digest.of_bytes(text.encode())
            todo.extend(uses)
        libraries |= source.libraries_inside(wanted)
        for path, text in source.kernels(wanted):
            found[path] = digest.of_bytes(text.encode())
    return Reached(dict(sorted(found.items())), frozenset(libraries)), inspects


def closure_digest(module_file: Path, root: Path, symbol: str | None = None) -> str:
    """One sha256 for the closure of a module file under `root`."""
    relative = module_file.resolve().relative_to(root.resolve()).with_suffix("")
    parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
    return digest.of_json(closure(".".join(parts), symbol, root))


def definitions(module: str, root: Path) -> dict[str, int] | None:
    """The names that a project module has, with their lines (0: imported). None where only running it would show them all."""
    source = _read(module, root, True, None)
    if source is None or source.opaque or "__getattr__" in source.definitions:
        return None
    found = dict.fromkeys((*source.modules, *source.imported, *source.names), 0)
    found.update({name: group[0].lineno for name, group in source.definitions.items()})
    for node in (node for group in (*source.definitions.values(), source.always) for statement in group for node in ast.walk(statement)):
        if isinstance(node, ast.Import | ast.ImportFrom):  # of a library, inside `try` or `if`
            found.update({(alias.asname or alias.name).partition(".")[0]: 0 for alias in node.names if alias.name not in found})
        elif isinstance(node, ast.Global):
            found.update(dict.fromkeys(node.names, node.lineno))
    runs = (node for statement in source.always for node in ast.walk(statement))
    writes = any(isinstance(n, ast.Name) and n.id in (*_DYNAMIC, "setattr") for n in runs)  # globals()["name"] = …
    return None if writes or "*" in found else {name: line for name, line in found.items() if name.isidentifier()}


def takes_any_keyword(module: str, symbol: str, root: Path) -> bool:
    """Has the factory a `**` that sees in which order it is called? Unless it is a plain function without one, it may."""
    source = _read(module, root, True, None)
    group = source.definitions.get(symbol, []) if source is not None else []
    if len(group) != 1 or not isinstance(group[0], ast.FunctionDef | ast.ClassDef) or group[0].decorator_list:
        return True
    if isinstance(group[0], ast.ClassDef):
        begins = [s for s in group[0].body if isinstance(s, ast.FunctionDef) and s.name in ("__init__", "__new__")]
        return len(begins) != 1 or bool(group[0].keywords) or begins[0].args.kwarg is not None
    return group[0].args.kwarg is not None


@dataclass
class _Source:
    """One parsed module: definitions by name, what always counts, and what each import name stands for."""

    name: str
    path: str
    home: Path  # the folder that the file lies in
    is_package: bool
    root: Path
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    always: list[ast.stmt] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)  # local name -> project module
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)  # local name -> (project module, name in it)
    names: dict[str, str] = field(default_factory=dict)  # local name -> what it stands for, of libraries
    means: dict[str, str] = field(default_factory=dict)  # the same, with `:name` for what the module binds itself
    libraries: set[str] = field(default_factory=set)  # that importing the module imports
    imports: list[str] = field(default_factory=list)  # the project's modules that importing this one runs, in order
    loggers: set[str] = field(default_factory=set)
    opaque: bool = False
    inspects: bool = False
    loads: frozenset[str] = frozenset()  # names by which it calls laminar.kernel
    _texts: dict[int, str] = field(default_factory=dict)  # of statements, by their id
    _said: dict[str, str] | None = None

    def _text(self, statement: ast.stmt) -> str:
        if self._said is None:
            own = {local: f"{module}.{name}" for local, (module, name) in self.imported.items() if name != WHOLE}
            said = {**self.names, **self.modules, **own}
            self._said = {local: what for local, what in said.items() if local not in self.definitions and "*" not in local}
        found = self._texts.get(id(statement))
        if found is None:
            found = self._texts[id(statement)] = canonical.text(statement, self._said)
        return found

    def runs(self) -> list[str]:
        """The project's modules that importing this one runs."""
        return [name for name in dict.fromkeys(self.imports) if name != self.name]

    def libraries_inside(self, wanted: str) -> set[str]:
        """Return the imports inside of the functions that are reached."""
        everything = wanted == WHOLE or self.opaque
        reached = [s for group in self.definitions.values() for s in group] if everything else self.definitions.get(wanted, [])
        return {top for statement in reached for node in ast.walk(statement) for top in _libraries(node, self)}

    def reach(self, wanted: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
        """(key, canonical text, what it uses next) of the definition `wanted`, of what always counts, or of all."""
        if wanted == WHOLE or self.opaque:
            everything = [s for group in self.definitions.values() for s in group] + self.always
            uses = [u for statement in everything for u in self._uses(statement)]
            uses += [(m, WHOLE) for m in self.modules.values()] + list(self.imported.values())
            text = "\n".join(self._text(s) for s in sorted({id(s): s for s in everything}.values(), key=lambda s: s.lineno))
            yield WHOLE, text, uses
            return
        if self.always:
            yield "on import", "\n".join(map(self._text, self.always)), [u for s in self.always for u in self._uses(s)]
        if wanted in self.definitions:
            group = self.definitions[wanted]
            yield wanted, "\n".join(map(self._text, group)), [u for s in group for u in self._uses(s)]
        elif wanted in self.imported:
            yield wanted, "->" + ":".join(self.imported[wanted]), [self.imported[wanted]]
        elif wanted in self.names:
            yield wanted, "->" + self.names[wanted], []
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
        for statement in (*named, *self.always):
            for given in kernel_files(statement, self.loads):
                for file in kernel_paths(given, self.home, self.root):
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
            elif isinstance(node, ast.Call) and self._imports_by_name(node.func):
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

    def _imports_by_name(self, function: ast.expr) -> bool:
        return (canonical.name_of(function, self.names) or "").split(".")[-1] in ("import_module", "__import__")

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


def _does_something(module: str, root: Path, lenient: bool, above: frozenset[str]) -> bool:
    """Does importing it run more than definitions?"""
    source = _read(module, root, lenient, None) if module not in above else None
    if source is None:
        return False
    return bool(source.always) or any(_does_something(other, root, lenient, above | {module}) for other in source.runs())


def _read(module: str, root: Path, lenient: bool, start: str | None) -> _Source | None:
    file = module_file(module, root)
    if file is None:
        return None
    base = module_base(module, root) or root
    return _parse(module, file, base, root, lenient, start, digest.stat_signature(file))


@functools.lru_cache(maxsize=512)
def _parse(
    module: str,
    file: Path,
    base: Path,
    root: Path,
    lenient: bool,
    start: str | None,
    signature: tuple[int, int, int, int],  # noqa: ARG001 - part of the cache key
) -> _Source:
    source = _Source(module, file.relative_to(base).as_posix(), file.parent, file.name == "__init__.py", root)
    text = file.read_bytes()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        # A file that does not parse has no definitions to follow: its bytes count as they are, and the import will complain.
        source.opaque = True
        source.always.append(ast.Expr(ast.Constant(text.hex()), lineno=1, col_offset=0))
        return source
    names = _names_of_libraries(tree.body, source)
    source.means = {**{name: f":{name}" for name in canonical.bound_anywhere(tree)}, **names}
    source.names = names
    source.inspects = any(word in text for word in canonical.INSPECTING)
    source.loggers = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Call)
        and canonical.name_of(statement.value.func, source.names) == "logging.getLogger"
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    canonical.prune(tree, lenient=lenient, names=source.names, loggers=source.loggers, start=start)
    source.loads = kernel_names(tree.body)
    rebound = _bound_again(tree.body)
    for statement in tree.body:
        _file_statement(source, statement, rebound)
    return source


def _names_of_libraries(body: list[ast.stmt], source: _Source) -> dict[str, str]:
    """`{"nn": "torch.nn"}` of imports that are no project's."""
    found: dict[str, str] = {}
    for statement in body:
        if not isinstance(statement, ast.Import | ast.ImportFrom) or any(True for _ in _imports(statement, source)):
            continue
        for alias in statement.names:
            if isinstance(statement, ast.Import):
                found[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]
            elif not statement.level and alias.name != "*" and statement.module != "__future__":
                found[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
    return found


def _libraries(node: ast.AST, source: _Source) -> Iterator[str]:
    """The top modules that an import takes from elsewhere."""
    if not isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.ImportFrom) and node.level):
        return
    for name in [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]:
        top = name.partition(".")[0]
        if is_library(top) and module_file(top, source.root) is None and not source.root.joinpath(top).is_dir():
            yield top


def _bound_again(body: list[ast.stmt]) -> bool:
    """Is a global assigned twice? Then what other globals are depends on the order."""
    names = [
        n.id
        for s in body
        if isinstance(s, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for t in (s.targets if isinstance(s, ast.Assign) else [s.target])
        for n in ast.walk(t)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]
    return len(names) != len(set(names))


def _file_statement(source: _Source, statement: ast.stmt, rebound: bool) -> None:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        source.libraries |= set(_libraries(statement, source))
        for local, module, name in _imports(statement, source):
            source.imports.append(module)
            if local == "*":
                source.opaque = True
                source.imported.setdefault("*" + module, (module, WHOLE))
            elif name is None:
                source.modules[local] = module
            else:
                source.imported[local] = (module, name)
        if isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names):
            source.definitions.setdefault("*", []).append(statement)
    elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        source.definitions.setdefault(statement.name, []).append(statement)
        found_by_base = isinstance(statement, ast.ClassDef) and _is_found_by_its_base(statement, source)
        if found_by_base or canonical.runs_something(statement, source.means):
            source.always.append(statement)
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        for name in names:
            source.definitions.setdefault(name, []).append(statement)
        runs = isinstance(statement, ast.AugAssign) or canonical.runs_something(statement, source.means)
        if names != ["__all__"] and (rebound or (runs and not _only_reads_kernels(statement, source.loads))):
            source.always.append(statement)
    elif not _is_inert(statement):
        source.always.append(statement)
        for node in ast.walk(statement):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                source.definitions.setdefault(node.name, []).append(statement)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                source.definitions.setdefault(node.id, []).append(statement)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                source.libraries |= set(_libraries(node, source))
                for local, module, name in _imports(node, source):
                    source.imports.append(module)
                    if name is None:
                        source.modules[local] = module
                    else:
                        source.imported[local] = (module, name)


def _only_reads_kernels(statement: ast.stmt, loads: frozenset[str]) -> bool:
    """A call that only reads a kernel, bound to plain names."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", statement)]
    plain = not any(isinstance(n, ast.Attribute | ast.Subscript) for t in targets for n in ast.walk(t))
    return plain and only_reads_kernels(statement, loads)


def _is_inert(statement: ast.stmt) -> bool:
    """A docstring, `pass`, the `if __name__ == "__main__"` block, imports for type checkers: never runs, or says nothing, on import."""
    if isinstance(statement, ast.Pass) or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
        return not isinstance(statement, ast.Expr) or isinstance(getattr(statement.value, "value", None), str)
    if isinstance(statement, ast.If):
        test = ast.unparse(statement.test).replace('"', "'")
        return not statement.orelse and test in ("__name__ == '__main__'", "TYPE_CHECKING", "typing.TYPE_CHECKING")
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
