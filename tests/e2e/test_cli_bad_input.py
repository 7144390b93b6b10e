"""Every kind of bad input: its exit code, its error code, and a message that names file, line and the nearest valid word."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Example, cli
from tests.unprivileged import unprivileged

CASES = {
    "unknown key": ("epochs = 2", "epoch = 2", 2, "L003", ["laminar.toml:20", "'epochs'"]),
    "wrong type": ("epochs = 2", 'epochs = "two"', 2, "L004", ["laminar.toml:20", "train.epochs"]),
    "missing module": ('"models:convnet"', '"modles:convnet"', 2, "L201", ["laminar.toml:17", "modles", "'models'"]),
    "missing factory": ('"models:convnet"', '"models:convnt"', 2, "L201", ["convnt", "convnet"]),
    "wrong argument": ("channels = [4, 8]", "chanels = [4, 8]", 2, "L202", ["laminar.toml:18", "'channels'"]),
    "cycle": ('from = "strokes"', 'from = "head"', 2, "L005", ["laminar.toml:24", "head -> head"]),
    "freeze": ('freeze = ["features"]', 'freeze = ["featurs"]', 2, "L203", ["laminar.toml:25", "featurs", "'features'"]),
    "replace": ("{ head =", "{ haed =", 2, "L203", ["laminar.toml:26", "haed", "'head'"]),
    "class count": ("classes = 5 }", "classes = 4 }", 2, "L204", ["laminar.toml:18", "4", "5"]),
    "class name": ("[0, 2, 4, 6, 8]", "[0, 2, 4, 6, 18]", 2, "L104", ["laminar.toml:7", "18"]),
    "source": ('source = "digits"', 'source = "digit"', 2, "L105", ["laminar.toml:6", "'digits'"]),
    "missing folder": ('source = "digits"', 'source = "folder:pictures"', 2, "L101", ["laminar.toml:6", "pictures"]),
    "missing npz": ('source = "digits"', 'source = "npz:x.npz"', 2, "L101", ["laminar.toml:6", "x.npz"]),
    "nan": ("lr = 0.01, seed = 0, threads = 1 }", "lr = 1e30, seed = 0, threads = 1 }", 6, "L601", ["step", "strokes"]),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_named(example: Example, name: str) -> None:
    old, new, exit_code, code, words = CASES[name]
    example.edit("laminar.toml", old, new)
    done = example.cli("build", check=exit_code)
    assert f"error {code}" in done.stderr, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert "fix:" in done.stderr


def test_truncated_and_empty_data(example: Example) -> None:
    rng = np.random.default_rng(0)
    np.savez(example.root / "whole.npz", x=rng.integers(0, 255, (40, 1, 8, 8), dtype=np.uint8), y=np.arange(40) % 5)
    data = (example.root / "whole.npz").read_bytes()
    (example.root / "half.npz").write_bytes(data[: len(data) // 2])
    np.savez(example.root / "empty.npz", x=np.zeros((0, 1, 8, 8), np.uint8), y=np.zeros(0, np.int64))
    (example.root / "noise.gz").write_bytes(gzip.compress(b"x" * 10)[:-4])
    for source, code in (("npz:half.npz", "L102"), ("npz:empty.npz", "L103"), ("idx:noise.gz,noise.gz", "L102")):
        text = example.toml.read_text()
        start, end = text.index("[data.even]"), text.index("[data.odd]")
        example.toml.write_text(text[:start] + f'[data.even]\nsource = "{source}"\n\n' + text[end:])
        done = example.cli("build", check=2)
        assert f"error {code}" in done.stderr, done.stderr
        assert "laminar.toml:6" in done.stderr
        assert source.split(":")[1].split(",")[0] in done.stderr


def test_a_corrupt_object_is_found_and_mended_by_rebuilding(built: Example) -> None:
    store = built.store()
    digest = store.layer(store.refs.get("digits/head")).tensors["head.1.weight"].digest
    path = store.objects.path(digest)
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    path.chmod(0o444)
    done = built.cli("evaluate", "head", "--data", "odd", check=3)
    assert "error L303" in done.stderr
    assert digest[2:] in done.stderr
    assert "laminar verify" in done.stderr
    assert built.cli("verify", check=3).stdout
    built.cli("verify", "--repair")
    built.cli("verify")
    built.cli("evaluate", "head", "--data", "odd")


def test_no_permission(example: Example) -> None:
    example.root.chmod(0o555)
    try:
        done = unprivileged("-m", "laminar", "build", cwd=example.root, check=3)
    finally:
        example.root.chmod(0o755)
    assert "error L302: may not write" in done.stderr
    assert f"chmod u+rwx {example.root}, or set LAMINAR_STORE" in done.stderr


def test_an_unreachable_remote(built: Example) -> None:
    done = built.cli("push", "ftp://127.0.0.1:9/x", "head", check=4)
    assert "error L401" in done.stderr
    assert "127.0.0.1" in done.stderr
    done = built.cli("pull", str(built.root / "nowhere"), "digits/head", check=4)
    assert "error L40" in done.stderr


def test_no_stack_file(tmp_path: Path) -> None:
    done = cli("build", cwd=tmp_path, check=2)
    assert "error L001" in done.stderr
    assert "laminar init" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bild"], "'build'"),
        (["explain", "haed"], "'head'"),
        (["show", "haed"], "head"),
        (["build", "haed"], "'head'"),
        (["rollback", "haed"], "head"),
        (["init", ".", "--template", "digit"], "'digits'"),
        (["evaluate", "head", "--data", "evn"], "even"),
        (["predict", "head", "nothing.png"], "nothing.png"),
        (["export", "head", "out.xyz"], ".safetensors"),
    ],
)
def test_a_wrong_word_gets_the_nearest_one(built: Example, words: list[str], said: str) -> None:
    done = built.cli(*words, check=2)
    assert said in done.stderr, done.stderr


def test_rolling_back_too_far(built: Example) -> None:
    done = built.cli("rollback", "head", check=2)
    assert "error L010" in done.stderr
    assert "error L010" in built.cli("redo", check=2).stderr


def test_a_damaged_build_record_is_a_miss_and_is_mended_without_training(built: Example) -> None:
    """From the copy that its run keeps; where that is lost too, from its layer and laminar.toml."""
    ids = {name: b.id for name, b in built.build().items()}
    for how in ("written again from runs/", "made anew from its layer and laminar.toml"):
        for path in (built.root / ".laminar" / "keys").glob("*.json"):
            path.write_bytes(path.read_bytes().replace(b"format", b"formaT", 1))
        built.cli("status")
        assert built.cli("verify", "--repair").stdout.count(how) == 2
        for path in (built.root / ".laminar" / "runs").glob("*/finished"):
            path.unlink()
    again = built.build()
    assert {name: (b.action, b.id) for name, b in again.items()} == {name: ("cached", id) for name, id in ids.items()}


@pytest.mark.parametrize("place", ["def convnet(channels, classes):\n    raise SystemExit(0)\n", "raise SystemExit(0)\n"])
def test_code_that_exits_does_not_end_a_build_as_done(example: Example, place: str) -> None:
    (example.root / "models.py").write_text(place + "\n")
    assert "error L20" in example.cli("build", check=2).stderr


def test_a_graph_that_is_not_the_layers_own_is_refused(built: Example) -> None:
    import msgspec

    store = built.store()
    manifest = store.layer(store.refs.get("digits/head"))
    swapped = msgspec.structs.replace(manifest, graph=msgspec.structs.replace(manifest.graph, eval=manifest.graph.train))
    store.layout.layer(manifest.id).chmod(0o644)
    store.write_layer(swapped)
    assert "error L403" in built.cli("evaluate", "head", "--data", "odd", check=4).stderr


def test_inf_in_a_setting_is_named(example: Example) -> None:
    example.edit("laminar.toml", "classes = 5 }", "classes = 5, slope = inf }")
    done = example.cli("status", check=2)
    assert "laminar.toml:18" in done.stderr
    assert "args.slope" in done.stderr
