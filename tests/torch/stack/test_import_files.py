"""Files that are not whole: the hint is about the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.stack.files import export_layer, import_layer
from tests.conftest import Example


@pytest.mark.parametrize("suffix", [".pt2", ".safetensors"])
def test_a_truncated_file_must_be_had_again(built: Example, tmp_path: Path, suffix: str) -> None:
    store = built.store()
    path = tmp_path / f"head{suffix}"
    export_layer(store, store.refs.get("digits/head"), path, built.root)
    data = path.read_bytes()
    layers = store.layers()
    for size in (0, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(LaminarError) as caught:
            import_layer(store, path, name="zoo/head", root=built.root)
        assert caught.value.code in ("L207", "L208"), size
        assert "head" in caught.value.message
        assert "again" in caught.value.hint
        assert "pull" not in caught.value.hint
    assert store.layers() == layers
    assert "zoo/head" not in store.refs.names()
