"""The same from Python: `Stack.load("laminar.toml").build()` and `load("digits/head")`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, final

from laminar.core import watch
from laminar.core.events import Emit, nowhere
from laminar.stack.build import BuildReport, build
from laminar.stack.explain import Explanation, explain
from laminar.stack.plan import Step, plan
from laminar.stack.project import Project, open_project
from laminar.store.resolve import resolve
from laminar.store.store import Store

if TYPE_CHECKING:
    from torch import nn


@final
class Stack:
    """A laminar.toml with its store. Every call reads the file as it is at that moment, as the command line does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def load(cls, path: str | Path = "laminar.toml") -> Stack:
        stack = cls(Path(path))
        stack.project().need_file()
        return stack

    def project(self) -> Project:
        return open_project(self.path)

    @property
    def name(self) -> str:
        return self.project().need_file().spec.stack.name

    @property
    def store(self) -> Store:
        return self.project().open_store()

    def build(self, *layers: str, force: bool = False, emit: Emit = nowhere) -> BuildReport:
        """Train what is missing or changed; all layers, or these and what they stand on."""
        project = self.project()
        return build(project.need_file(), project.open_store(), targets=list(layers) or None, force=force, emit=emit)

    def status(self) -> list[Step]:
        project = self.project()
        return plan(project.need_file(), project.open_store())

    def explain(self, layer: str) -> Explanation:
        project = self.project()
        return explain(project.need_file(), project.open_store(), layer)

    def layer(self, ref: str) -> nn.Module:
        """The model of a layer of this stack, in eval mode."""
        return load(ref, self.path)


def load(ref: str, path: str | Path | None = None) -> nn.Module:
    """The model that `ref` names ("digits/head", "head~1", a tag, an id), in eval mode, from the store of the project around `path`.

    It is read from the layer's graph, so it needs no code of whoever trained it.
    """
    from laminar.stack.use import load_model

    project = open_project(Path(path) if path is not None else None)
    store = project.open_store(create=False)
    id = resolve(store, ref, project.stack)
    watch.layer_loaded(store.root, project.stack, ref, id)
    return load_model(store, id, project.root)
