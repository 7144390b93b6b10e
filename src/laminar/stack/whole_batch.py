"""Whole batches: a batch above the number of training samples, of which every step takes all samples, whatever the batch is."""

from __future__ import annotations

from laminar.core.figures import many
from laminar.data.count import at_most_training_samples
from laminar.data.fingerprint import fingerprint
from laminar.stack.plan import Step, fingerprint_folder
from laminar.stack.read import StackFile
from laminar.stack.specs import LayerSpec
from laminar.store.store import Store


def batch_note(layer: LayerSpec, samples: int | None) -> str:
    """Empty where the batch is no larger than the `samples` that there are at most."""
    if samples is None or layer.train.batch <= samples:
        return ""
    return (
        f"batch is {layer.train.batch:,}, but data.{layer.data} has no more than {many(samples, 'training sample')}: "
        f"every step takes all of them, as with batch = {samples}"
    )


def batch_notes(file: StackFile, store: Store, steps: list[Step]) -> dict[str, str]:
    """By layer, as far as the number of samples is known without reading much."""
    cache = fingerprint_folder(store)
    found = {}
    for step in steps:
        spec = file.spec.data[step.layer.data]
        content = step.inputs["data"] if step.inputs is not None else fingerprint(spec, file.root, cache)
        if note := batch_note(step.layer, at_most_training_samples(spec, content, file.root, cache)):
            found[step.layer.name] = note
    return found
