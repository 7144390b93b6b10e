"""A record that somebody else wrote calls no function of the project but as the project's own stack file does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from laminar.core.errors import LaminarError
from laminar.stack.calls import may_call
from laminar.stack.key import code_of
from laminar.stack.make import from_code, remake
from laminar.stack.project import open_project
from laminar.store.manifest import Graph, Manifest
from laminar.store.own import has_own_steps, is_own
from tests.conftest import Example

HARM = """
from pathlib import Path
from subprocess import run
from torch import nn


def net(path):
    Path(path).write_text("harm")
    return nn.Linear(2, 2)
"""


def head(project: Example) -> Manifest:
    store = project.store()
    manifest: Manifest = store.layer(str(store.refs.get("digits/head")))
    return manifest


def with_steps(manifest: Manifest, steps: list[dict[str, Any]]) -> Manifest:
    return msgspec.structs.replace(manifest, model={**manifest.model, "steps": steps})


def own_steps(manifest: Manifest) -> list[dict[str, Any]]:
    return [dict(step) for step in manifest.model["steps"]]


def call(project: Example, factory: str, args: dict[str, Any]) -> dict[str, Any]:
    """As a stranger would write it who knows the source of the project."""
    return {"factory": factory, "args": args, "known": {}, "code": code_of(factory, project.root, "").sources}


@pytest.mark.parametrize(
    ("factory", "args"),
    [("harm:net", {"path": "{folder}/harmed"}), ("harm:run", {"args": ["touch", "{folder}/harmed"]}), ("harm:Path", {})],
)
def test_a_stranger_who_knows_the_source_calls_none_of_it(built: Example, tmp_path: Path, factory: str, args: dict[str, Any]) -> None:
    (built.root / "harm.py").write_text(HARM)
    harmed = tmp_path / "harmed"
    args = {name: str(harmed) if name == "path" else ["touch", str(harmed)] for name in args}
    forged = with_steps(head(built), [call(built, factory, args)])
    assert from_code(built.store(), forged, built.root) is None
    assert remake(built.store(), forged, built.root)[1] == "graph"
    assert not harmed.exists()
    ungraphed = msgspec.structs.replace(forged, graph=Graph(train=None, eval=None, note="it was left out"))
    with pytest.raises(LaminarError, match=rf"calls functions in a way that laminar.toml here does not: {factory}\(") as caught:
        remake(built.store(), ungraphed, built.root)
    assert caught.value.code == "L206" and not harmed.exists()


def test_the_same_args_as_in_the_stack_file_are_no_harm(built: Example) -> None:
    """So a colleague's layer is made by the project's code, as before."""
    store, manifest = built.store(), head(built)
    (store.layout.own / f"{manifest.id}.json").unlink()
    assert not is_own(store, manifest)
    assert from_code(store, manifest, built.root) is not None


CHANGES: dict[str, Any] = {
    "other args": lambda step: step | {"args": step["args"] | {"classes": 7}},
    "an arg more": lambda step: step | {"args": step["args"] | {"seed": 1}},
    "another function": lambda step: step | {"factory": step["factory"].replace("convnet", "head")},
    "another place": lambda step: step | {"replace": "features"},
    "another order": lambda step: step | {"order": ["classes", "channels"]},
    "known as something else": lambda step: step | {"known": step["known"] | {"old": "x"}},
    "known as a path": lambda step: step | {"known": step["known"] | {"classes": "/etc/passwd"}},
    "known as too many": lambda step: step | {"known": step["known"] | {"classes": 1 << 40}},
    "a shape of words": lambda step: step | {"known": step["known"] | {"input_shape": ["x"]}},
    "a shape too large": lambda step: step | {"known": step["known"] | {"input_shape": [1 << 40, 1 << 40]}},
    "no args": lambda step: {name: value for name, value in step.items() if name != "args"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_call_is_not_made(built: Example, change: str) -> None:
    file, steps = open_project(built.root).need_file(), own_steps(head(built))
    assert may_call(steps, file)
    assert not may_call([CHANGES[change](steps[0]), *steps[1:]], file)
    assert not may_call(steps, None)


def test_own_layers_are_made_by_code_whatever_the_stack_file_has_become(built: Example) -> None:
    manifest = head(built)
    assert has_own_steps(built.store(), manifest)
    built.toml.unlink()
    assert from_code(built.store(), manifest, built.root) is not None


def test_a_manifest_that_was_fetched_again_has_not_the_steps_that_were_written_here(built: Example) -> None:
    """Its id does not speak of them."""
    store, manifest = built.store(), head(built)
    steps = own_steps(manifest)
    forged = with_steps(manifest, [steps[0] | {"args": steps[0]["args"] | {"path": "x"}}, *steps[1:]])
    assert forged.own_id() == manifest.id and is_own(store, forged) and not has_own_steps(store, forged)
    assert from_code(store, forged, built.root) is None
