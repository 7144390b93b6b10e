"""Import of a project's own modules, kept apart from every other project's in the same process.

Each project root becomes a package of its own in `sys.modules` (`_laminar_project_<digest>`), so that relative imports, late
imports inside functions, dataclasses and `inspect` work as usual, `sys.path` is never touched, and two projects may both have a
`models.py`. Absolute imports between the project's modules are sent to that package by an `__import__` that only its modules see.
Sources are compiled anew each time: no `__pycache__` is written into the project, and a change within the same second is seen.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from laminar.core import digest
from laminar.core.closure import module_file

PREFIX: Final = "_laminar_project_"
_LOCK: Final = threading.RLock()


@dataclass
class _Project:
    package: str
    root: Path
    read: dict[Path, str] = field(default_factory=dict)  # file -> digest of the text that was executed

    def stale(self) -> bool:
        return any(not path.is_file() or digest.of_file(path) != seen for path, seen in self.read.items())


_PROJECTS: Final[dict[Path, _Project]] = {}
_BY_PACKAGE: Final[dict[str, _Project]] = {}


def import_from(root: Path, module: str, *, fresh: bool = False) -> ModuleType:
    """The module called `module` of the project at `root`: the one imported before, or a fresh one when any of its files changed.

    `fresh` runs the project's modules anew in any case: what they remember of earlier calls is not there.
    """
    with _LOCK:
        if fresh:
            _PROJECTS.pop(root.resolve(), None)
        project = _project(root.resolve())
        try:
            return importlib.import_module(f"{project.package}.{module}")
        except BaseException:
            # A half-imported project must not be what the next call finds.
            _PROJECTS.pop(project.root, None)
            raise


def forget(root: Path) -> None:
    """The next import runs the project's modules anew: what earlier code did to them is not there."""
    with _LOCK:
        _PROJECTS.pop(root.resolve(), None)


def root_of(path: Path) -> Path | None:
    """The root of the project that `path` was imported from."""
    return next((project.root for project in _BY_PACKAGE.values() if path in project.read), None)


def also_read(module: Path, file: Path) -> None:
    """A module of a project read another file of it as it was imported: when that changes, the module is imported anew."""
    for project in _BY_PACKAGE.values():
        if module in project.read:
            project.read[file] = digest.of_file(file)


def is_code(file: Path) -> bool:
    """Was it imported, or read as a kernel?"""
    return any(file in project.read for project in _BY_PACKAGE.values())


def _project(root: Path) -> _Project:
    known = _PROJECTS.get(root)
    if known is not None and not known.stale():
        return known
    package = f"{PREFIX}{digest.of_bytes(str(root).encode())[:12]}_{len(_BY_PACKAGE)}"
    project = _Project(package, root)
    spec = ModuleSpec(package, None, is_package=True)
    spec.submodule_search_locations = [str(root)]
    # Older generations stay in sys.modules: models made of their classes are still in use.
    sys.modules[package] = importlib.util.module_from_spec(spec)
    _PROJECTS[root] = _BY_PACKAGE[package] = project
    return project


class _Loader(SourceFileLoader):
    """Compiles the source as it is now, remembers its digest, and gives the module its project's `__import__`."""

    def __init__(self, fullname: str, path: str, project: _Project) -> None:
        super().__init__(fullname, path)
        self._project = project

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        self._project.read[Path(path)] = digest.of_bytes(source)
        return self.source_to_code(source, path)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _importer(self._project)}
        super().exec_module(module)


class _Finder:
    """Finds modules below a project's package, and nothing else."""

    @classmethod
    def find_spec(cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG003
        package, _, module = fullname.partition(".")
        project = _BY_PACKAGE.get(package)
        if project is None or not module:
            return None
        file = module_file(module, project.root)  # of the project, or another of the user's own
        if file is None:
            folder = project.root.joinpath(*module.split("."))
            if not folder.is_dir():
                return None
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(folder)]
            return spec
        return importlib.util.spec_from_file_location(
            fullname,
            file,
            loader=_Loader(fullname, str(file), project),
            submodule_search_locations=[str(file.parent)] if file.name == "__init__.py" else None,
        )


sys.meta_path.insert(0, _Finder)


def _importer(project: _Project) -> Any:
    def project_import(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        if level or not _owns(project, name.partition(".")[0]):
            return builtins.__import__(name, globals, locals, fromlist, level)
        module = importlib.import_module(f"{project.package}.{name}")
        if not fromlist:
            return sys.modules[f"{project.package}.{name.partition('.')[0]}"]
        for wanted in fromlist:
            if wanted != "*" and not hasattr(module, wanted) and hasattr(module, "__path__"):
                try:
                    importlib.import_module(f"{module.__name__}.{wanted}")
                except ModuleNotFoundError as error:
                    if error.name != f"{module.__name__}.{wanted}":
                        raise
        return module

    return project_import


def _owns(project: _Project, top: str) -> bool:
    """Does `import top` inside the project mean the project's own file? A bare folder does only where no library has that name."""
    if module_file(top, project.root) is not None:
        return True
    folder = project.root / top
    if not folder.is_dir() or not any(folder.glob("*.py")) or top in sys.modules:
        return False
    try:
        return importlib.util.find_spec(top) is None
    except (ImportError, ValueError):
        return True
