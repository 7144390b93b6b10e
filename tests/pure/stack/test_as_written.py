"""What a record says of a layer and its data: all that laminar.toml says, but no password."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.stack.as_written import data_as_written, layer_as_written, without_secrets
from laminar.stack.read import parse

TEXT = """
[stack]
name = "cells"

[data.cells]
source = "index:https://me:geheim@a/cells/index.json#sha256=00"
mirrors = ["ftp://me:geheim@b/cells", "folder", "s3://c/cells?endpoint=http://d:1"]

[[layer]]
name = "base"
from = "ftp://me:geheim@host:21/models/base@sha256:00ff"
data = "cells"
train = { epochs = 1 }
"""


def test_passwords_stay_behind() -> None:
    file = parse(TEXT, Path("laminar.toml"))
    layer, data = layer_as_written(file, "base"), data_as_written(file, "cells")
    assert layer == {"name": "base", "from": "ftp://me:***@host:21/models/base@sha256:00ff", "data": "cells", "train": {"epochs": 1}}
    assert data == {
        "name": "cells",
        "source": "index:https://me:***@a/cells/index.json#sha256=00",
        "mirrors": ["ftp://me:***@b/cells", "folder", "s3://c/cells?endpoint=http://d:1"],
    }
    assert "geheim" in str(file.raw), "what is read is left alone"


@pytest.mark.parametrize(
    "text", ["digits", "folder:a@b:c", "ftp://me@host:2121/a@b", "python:mine:make", "npz:x:y@z.npz", "http://h:80/a?"]
)
def test_what_has_no_password_is_as_it_was(text: str) -> None:
    assert without_secrets({"a": [text, 1, None]}) == {"a": [text, 1, None]}


def test_every_address_of_an_index_is_masked() -> None:
    text = "index:https://me:geheim@a/index.json, ftp://you:secret@b/index.json?token=geheim#sha256=00"
    assert without_secrets(text) == "index:https://me:***@a/index.json, ftp://you:***@b/index.json?token=***#sha256=00"
    assert without_secrets({"source": ["folder:x", "index:https://me:geheim@a/i"]}) == {"source": ["folder:x", "index:https://me:***@a/i"]}
