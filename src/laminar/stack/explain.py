"""Explain: every input of a layer's key, and on a miss which of them changed from what to what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laminar.stack.key import changes, flat
from laminar.stack.plan import Step, nearest_build, plan
from laminar.stack.read import StackFile
from laminar.store.store import Store


@dataclass(frozen=True)
class Explanation:
    step: Step
    inputs: dict[str, Any]  # flat: field -> value
    compared_with: str | None  # key of the nearest earlier build
    differences: list[tuple[str, Any, Any]]

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
        }


def explain(file: StackFile, store: Store, name: str) -> Explanation:
    step = plan(file, store, targets=[name])[-1]
    if step.inputs is None:  # its parent is to be built: compare all that is known already
        from laminar.stack.key import inputs_of
        from laminar.stack.plan import fingerprint_folder

        inputs = inputs_of(file, step.layer, None, fingerprint_folder(store))
        earlier = nearest_build(store.records(), file.spec.stack.name, name, inputs)
        differences = [d for d in changes(earlier.inputs, inputs) if d[0] != "parent"] if earlier else []
        rows = flat(inputs) | {"parent": "(not built yet)"}
        return Explanation(step, rows, earlier.key if earlier else None, differences)
    if step.action == "cached":
        # What changed since the layer that the ref showed before: a hit may still be a move.
        return Explanation(step, flat(step.inputs), step.key, [])
    return Explanation(step, flat(step.inputs), step.record.key if step.record else None, step.differences)
