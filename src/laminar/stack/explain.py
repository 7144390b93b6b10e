"""Explain: every input of a layer's key, and on a miss which of them changed from what to what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from laminar.stack.data_since import written_since
from laminar.stack.key import changes, flat, inputs_of
from laminar.stack.plan import Step, fingerprint_folder, nearest_build, plan
from laminar.stack.read import StackFile
from laminar.store.manifest import BuildRecord
from laminar.store.store import Store


@dataclass(frozen=True)
class Explanation:
    step: Step
    inputs: dict[str, Any]  # flat: field -> value
    compared_with: str | None  # key of the nearest earlier build
    differences: list[tuple[str, Any, Any]]
    files: list[str] = field(default_factory=list)  # of the data, written since that build, where its content changed

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.step.layer.name,
            "action": self.step.action,
            "why": self.step.why,
            "key": self.step.key,
            "id": self.step.id,
            "inputs": self.inputs,
            "compared_with": self.compared_with,
            "changes": [{"input": f, "from": old, "to": new} for f, old, new in self.differences],
            "files": self.files,
        }


def explain(file: StackFile, store: Store, name: str) -> Explanation:
    step = plan(file, store, targets=[name])[-1]
    if step.inputs is None:  # its parent is to be built: compare all that is known already
        inputs = inputs_of(file, step.layer, None, fingerprint_folder(store))
        earlier = nearest_build(store.records(), file.spec.stack.name, name, inputs)
        differences = [d for d in changes(earlier.inputs, inputs) if d[0] != "parent"] if earlier else []
        rows = flat(inputs) | {"parent": "(not built yet)"}
        return Explanation(step, rows, earlier.key if earlier else None, differences, _files(file, step, earlier, differences))
    if step.action == "cached":
        return Explanation(step, flat(step.inputs), step.key, [])
    earlier, differences = step.record, step.differences
    return Explanation(step, flat(step.inputs), earlier.key if earlier else None, differences, _files(file, step, earlier, differences))


def _files(file: StackFile, step: Step, earlier: BuildRecord | None, differences: list[tuple[str, Any, Any]]) -> list[str]:
    if earlier is None or not any(field == "data.content" for field, _, _ in differences):
        return []
    began = earlier.created - earlier.seconds  # data was read before the training
    return written_since(file.spec.data[step.layer.data].source, file.root, began)
