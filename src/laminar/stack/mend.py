"""Mend: verify the store, repair what remotes have, and train again what they have not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from laminar.core import digest
from laminar.core.events import Emit
from laminar.stack.as_written import data_as_written, layer_as_written
from laminar.stack.build import build
from laminar.stack.plan import known, plan
from laminar.stack.project import Project
from laminar.stack.read import StackFile
from laminar.store.manifest import BuildRecord
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


def _restore_record(file: StackFile, store: Store) -> tuple[Finding, str] | None:
    """A build record that is gone while its layer is here: made anew from the layer and from what the stack file says."""
    for step in plan(file, store):
        if step.action == "cached" or step.key is None or step.inputs is None or known(store, step.key) is not None:
            continue
        for id in store.layers():
            manifest = store.layer(id)
            if manifest.key == step.key and store.complete(id):
                store.write_record(
                    BuildRecord(
                        key=step.key,
                        id=id,
                        inputs=step.inputs,
                        stack=file.spec.stack.name,
                        name=step.layer.name,
                        spec=layer_as_written(file, step.layer.name),
                        data=data_as_written(file, step.layer.data),
                        metrics=manifest.metrics,
                        seconds=manifest.seconds,
                        created=manifest.created,
                        run=manifest.run,
                        provenance=manifest.provenance,
                    )
                )
                path = str(store.layout.key(step.key))
                found = Finding(path=path, kind="key", problem="missing", detail="its layer is here", name=step.key, layers=(id,))
                return found, "made anew from its layer and laminar.toml"
    return None


def mend(project: Project, store: Store, emit: Emit) -> Mended:
    """Remotes first; then the layers of this stack that are still incomplete are built again, and everything is verified once more."""
    findings = verify(store)
    if not findings:
        return Mended(findings)
    done = repair(store, findings)
    rebuilt: list[str] = []
    if project.file is not None:
        while (restored := _restore_record(project.file, store)) is not None:
            done.mended.append(restored)
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
