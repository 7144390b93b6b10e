"""Choosing data: a [data.NAME] of the stack file, or any source by its own name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.sources import kinds
from laminar.data.spec import DataSpec
from laminar.stack.plan import fingerprint_folder
from laminar.stack.project import Project
from laminar.stack.read import StackFile


def choose_data(project: Project, text: str) -> DataSpec:
    """What `text` names: a data set of the stack file first, then a source such as `digits` or `folder:photos`."""
    names = project.file.spec.data if project.file is not None else {}
    if text in names:
        return names[text]
    if text.partition(":")[0] in kinds():
        return DataSpec(source=text)
    if project.file is None:
        return DataSpec(source=text)  # opening it says which sources there are
    raise LaminarError(
        "L006",
        f"'{text}' is neither a [data.…] of {project.file.path.name} nor a source; {did_you_mean(text, [*names, *kinds()])}",
        hint="data sets: " + (", ".join(names) or "none yet") + "; sources: " + ", ".join(kinds()),
    )


def fingerprints(project: Project) -> Path | None:
    """Where a store that is there remembers files; None where there is no store, which looking at data does not make."""
    return fingerprint_folder(project.open_store(create=False)) if project.store_path.is_dir() else None


def skipping_bad(file: StackFile) -> StackFile:
    """The same stack with `skip_bad` in every data set of images."""
    data = {
        name: msgspec.structs.replace(spec, skip_bad=True) if set(spec.kinds) <= {"folder", "index"} else spec
        for name, spec in file.spec.data.items()
    }
    return replace(file, spec=msgspec.structs.replace(file.spec, data=data))
