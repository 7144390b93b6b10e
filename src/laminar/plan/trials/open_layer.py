"""A layer of a stack as a job, without building it: its parent must be there."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterator

from laminar.core.errors import LaminarError
from laminar.core.events import Emit, nowhere
from laminar.core.nearest import did_you_mean
from laminar.data.open import open_data
from laminar.stack.foreign import stands_on_foreign
from laminar.stack.key import located
from laminar.stack.make import make
from laminar.stack.open_job import Description, prepare_job
from laminar.stack.parents import resolve
from laminar.stack.plan import fingerprint_folder
from laminar.stack.read import StackFile, parent_of
from laminar.stack.specs import LayerSpec
from laminar.store import locks
from laminar.store.retention import PASSING
from laminar.store.store import Store
from laminar.train.job import Job


@contextlib.contextmanager
def open_layer(file: StackFile, store: Store, name: str, emit: Emit = nowhere) -> Iterator[tuple[Job, Description]]:
    """The job and its description, in a run of its own that is gone afterwards."""
    layer = next((one for one in file.spec.layer if one.name == name), None)
    if layer is None:
        names = [one.name for one in file.spec.layer]
        raise LaminarError("L006", f"{file.path.name} has no layer '{name}'; {did_you_mean(name, names)}", hint="laminar status lists them")
    with passing_run(store) as run:
        try:
            data = open_data(file.spec.data[layer.data], file.root, cache=fingerprint_folder(store))
        except LaminarError as error:
            raise located(error, file.where("data", layer.data, "source"), f"data.{layer.data}") from error
        parent = _parent(file, store, layer)
        made = make(file, store, layer, parent, data)
        stands_on_foreign(store, parent, made, file.root, data, layer.train.batch)
        job = prepare_job(file, store, layer, made, data, store.run_folder(run), emit=emit).job
        yield job, Description(file, store.root, layer.name, parent, run)


def _parent(file: StackFile, store: Store, layer: LayerSpec) -> str | None:
    """The id that it stands on. A layer of the same file is there only when it was built."""
    name = parent_of(file.spec, layer)
    if any(one.name == name for one in file.spec.layer) and store.refs.get(f"{file.spec.stack.name}/{name}") is None:
        raise LaminarError(
            "L006",
            f"{file.where_layer(layer.name, 'from')}: layer '{layer.name}' stands on '{name}', which is not built yet",
            hint=f"laminar build {name}",
        )
    return resolve(file, store, layer, name)


@contextlib.contextmanager
def passing_run(store: Store) -> Iterator[str]:
    """A run that leaves nothing behind; nor do those that were killed before."""
    run = f"{PASSING}{secrets.token_hex(6)}"
    folder = store.run_folder(run)
    _sweep(store)
    try:
        with store.lease(runs=[run]):
            folder.mkdir(parents=True, exist_ok=True)
            yield run
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(store: Store) -> None:
    """Trials whose process was killed. A living one has its lease before it has a folder, so look for folders first."""
    left = [path for path in store.layout.runs.glob(f"{PASSING}*") if path.is_dir()] if store.layout.runs.is_dir() else []
    needed = locks.living(store.layout, remove_dead=False).runs if left else ()
    for path in left:
        if path.name not in needed:
            shutil.rmtree(path, ignore_errors=True)
