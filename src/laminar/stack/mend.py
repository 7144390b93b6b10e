"""Mend: verify the store, repair what remotes have, and train again what they have not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from laminar.core import digest
from laminar.core.events import Emit
from laminar.stack.build import build
from laminar.stack.plan import plan
from laminar.stack.project import Project
from laminar.store.repair import repair
from laminar.store.store import Store
from laminar.store.verify import Finding, Progress, verify


@dataclass(frozen=True)
class Mended:
    findings: list[Finding]
    mended: list[tuple[Finding, str]] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    unreachable: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = {
            "findings": msgspec.to_builtins(self.findings),
            "mended": [{"path": finding.path, "how": how} for finding, how in self.mended],
            "rebuilt": self.rebuilt,
            "left": msgspec.to_builtins(self.left),
            "unreachable": self.unreachable,
        }
        return plain


def check(store: Store, progress: Progress | None = None) -> Mended:
    findings = verify(store, progress=progress)
    return Mended(findings, left=findings)


def mend(project: Project, store: Store, emit: Emit) -> Mended:
    """Remotes first; then the layers of this stack that are still incomplete are built again, and everything is verified once more."""
    findings = verify(store)
    if not findings:
        return Mended(findings)
    done = repair(store, findings)
    rebuilt: list[str] = []
    if project.file is not None and done.left:
        broken = set(done.rebuild)
        wanted = [
            s.layer.name
            for s in plan(project.file, store)
            if s.action == "build" and (s.record is None or s.record.id in broken or not s.key)
        ]
        for name in wanted if broken else []:
            report = build(project.file, store, targets=[name], emit=emit)
            rebuilt += [f"{layer.name} {digest.short(layer.id)}" for layer in report.layers if layer.action == "built"]
    return Mended(findings, done.mended, rebuilt, verify(store), done.unreachable)
