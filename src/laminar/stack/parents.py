"""Parents: the id behind a `from` that is not a layer of the same file: a tag, an id, another stack's layer, or a remote ref."""

from __future__ import annotations

import re

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.stack.key import located
from laminar.stack.read import StackFile
from laminar.stack.specs import LayerSpec
from laminar.store.drivers import masked_text
from laminar.store.resolve import resolve as resolve_ref
from laminar.store.store import Store


def resolve(file: StackFile, store: Store, layer: LayerSpec, parent: str | None, *, fetch: bool = True) -> str | None:
    """The id that `layer` stands on, None for a bottom layer. A remote layer that is not here yet is pulled.

    Without `fetch` nothing is pulled: a remote is at most asked which id a name means there, which the key needs.
    """
    if parent is None:
        return None
    where = file.where_layer(layer.name, "from")
    try:
        if "#" in parent:
            from laminar.store.remote import pull_ref, remote_id  # brings what talks to networks

            return (pull_ref if fetch else remote_id)(store, _absolute(file, parent))
        return resolve_ref(store, parent, file.spec.stack.name)
    except LaminarError as error:
        if error.code == "L006":
            names = [*[x.name for x in file.spec.layer], *store.refs.names(), *store.refs.tags(damaged=False)]
            raise LaminarError(
                "L006",
                f"{where}: layer '{layer.name}' stands on '{masked_text(parent)}', which is no layer of this file, tag, ref or id; "
                + did_you_mean(parent, names),
                hint="laminar log lists what the store has; a remote layer is written URL#name",
            ) from None
        raise located(error, where, f"layer {layer.name}") from error


def asks(parent: str | None) -> str | None:
    """The remote that must be asked what this `from` means, without credentials; None where the file says enough."""
    if parent is None or "#" not in parent or re.search(r"@sha256:[0-9a-fA-F]{64}$", parent):
        return None
    return masked_text(parent).partition("#")[0]


def _absolute(file: StackFile, ref: str) -> str:
    """The remote ref with its remote spelled out: a name of [remotes], or a folder as seen from the stack file."""
    url, _, name = ref.partition("#")
    url = file.spec.remotes.get(url, url)
    if url.startswith("."):
        url = str((file.root / url).resolve())
    return f"{url}#{name}"
