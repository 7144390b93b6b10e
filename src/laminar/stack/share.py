"""Share: push and pull by the names people use: of remotes (laminar.toml, `laminar remote add`, or a URL) and of layers."""

from __future__ import annotations

from laminar.stack.project import Project
from laminar.store.remote import Progress, PushResult, pull
from laminar.store.remote import push as push_layer
from laminar.store.remote_files import Remote
from laminar.store.remotes import Remotes
from laminar.store.resolve import ref_name, resolve
from laminar.store.store import Store


def open_remote(project: Project, store: Store, text: str) -> Remote:
    """To be closed by who asked for it."""
    named = project.file.spec.remotes if project.file else {}
    return Remote.at(named.get(text) or Remotes(store).url(text))


def push(project: Project, store: Store, remote: str, ref: str, *, check: bool = False, progress: Progress | None = None) -> PushResult:
    """Send the layer; on the remote it is called as here: by its ref, and by its tag when it was named by one.

    `check`: what the remote has already is read back and hashed, and sent again where it is damaged.
    """
    id = resolve(store, ref, project.stack)
    manifest = store.layer(id)
    name = ref_name(store, ref, project.stack)
    names = [name or f"{manifest.stack}/{manifest.name}"]
    if store.refs.tagged(ref):
        names = [ref]
    with open_remote(project, store, remote) as place:
        return push_layer(store, place, id, names, check=check, progress=progress)


def pull_layer(project: Project, store: Store, remote: str, ref: str, *, into: str | None = None, progress: Progress | None = None) -> str:
    with open_remote(project, store, remote) as place:
        return pull(store, place, ref, into=into, progress=progress)
