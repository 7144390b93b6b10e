"""Explain: every input of a layer's key, and on a miss which of them changed from what to what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from laminar.data.remember import Memory
from laminar.stack.data_since import changed_since
from laminar.stack.in_words import strategy_in_words
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
    files: list[str] = field(default_factory=list)  # of the data, changed since that build
    left_out: list[str] = field(default_factory=list)  # source files written since the build that is reused: nothing of that counts

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
            "left_out": self.left_out,
        }


def explain(file: StackFile, store: Store, name: str) -> Explanation:
    step = plan(file, store, targets=[name])[-1]
    if step.inputs is None:  # its parent is to be built: compare all that is known already
        inputs = inputs_of(file, step.layer, None, fingerprint_folder(store))
        earlier = nearest_build(store.records(), file.spec.stack.name, name, inputs)
        differences = [d for d in changes(earlier.inputs, inputs) if d[0] != "parent"] if earlier else []
        rows = flat(inputs) | {"parent": "(not built yet)"}
        return Explanation(step, rows, earlier.key if earlier else None, differences, _files(file, store, step, earlier, differences))
    if step.action == "cached":
        return Explanation(step, flat(step.inputs), step.key, [], left_out=_left_out(file, step))
    earlier, differences = step.record, step.differences
    return Explanation(
        step, flat(step.inputs), earlier.key if earlier else None, differences, _files(file, store, step, earlier, differences)
    )


def other_strategy(step: Step) -> str:
    """Where a layer was built with a strategy that is not asked about now: how to ask about that one. Empty: nothing to say.

    A strategy that changes what is learnt is part of the key, so a build that had one on its command line made another layer.
    """
    if step.action != "build" or step.record is None or step.inputs is None:
        return ""
    before, now = (inputs["train"].get("strategy") for inputs in (step.record.inputs, step.inputs))
    if before is None or now is not None:
        return ""
    return (
        f"the build before had a strategy ({strategy_in_words(before)}), which makes another layer: "
        f"say --strategy {before['kind']} --workers {before['workers']} here too, or write it under train"
    )


def _left_out(file: StackFile, step: Step) -> list[str]:
    """Source files that were written since the layer was built, whose definitions say the same as then."""
    if step.inputs is None or step.record is None:
        return []
    made = [entry for entry in (step.inputs["model"], *step.inputs["replace"].values()) if entry is not None]
    paths = sorted({key.partition(":")[0] for entry in made for key in entry["code"]})
    before = step.record.created - step.record.seconds
    found = []
    for path in paths:
        places = [place for place in (file.root / path, file.root / "src" / path) if place.is_file()]
        if places and places[0].stat().st_mtime > before:
            found.append(path)
    return found


def _files(file: StackFile, store: Store, step: Step, earlier: BuildRecord | None, differences: list[tuple[str, Any, Any]]) -> list[str]:
    contents = next(((old, new) for field, old, new in differences if field == "data.content"), None)
    if earlier is None or contents is None:
        return []
    return changed_since(
        file.spec.data[step.layer.data].sources,
        file.root,
        Memory(fingerprint_folder(store)),
        before=contents[0],
        now=contents[1],
        when=earlier.created - earlier.seconds,  # data was read before the training
    )
