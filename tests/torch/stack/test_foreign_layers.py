"""Foreign layers: their graphs run in a child that has given up files and network; what goes wrong there is an error with their name."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.stack import foreign, foreign_frames, use
from laminar.stack.files import export_layer, import_layer
from laminar.stack.foreign import ForeignModel, is_foreign
from laminar.stack.make import from_code
from laminar.stack.project import open_project
from laminar.store.own import is_own
from tests.conftest import Example, cli


def become_foreign(project: Example) -> str:
    """As if the layers had been pulled: nothing says that they were made here."""
    shutil.rmtree(project.root / ".laminar" / "own")
    return str(project.store().refs.get("digits/head"))


def brief(project: Example, id: str) -> dict[str, Any]:
    return {"store": str(project.store().root), "id": id, "root": str(project.root)}


@pytest.fixture
def child(built: Example) -> Iterator[ForeignModel]:
    module = ForeignModel("layer head", brief(built, become_foreign(built)))
    yield module
    module.close()


def batch(rows: int = 3) -> Tensor:
    return torch.rand(rows, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def test_a_build_makes_layers_of_our_own_and_a_manifest_from_elsewhere_does_not(built: Example) -> None:
    store = built.store()
    manifest = store.layer(str(store.refs.get("digits/head")))
    assert is_own(store, manifest)
    other = msgspec.structs.replace(manifest, graph=msgspec.structs.replace(manifest.graph, eval="0" * 64))
    assert is_foreign(store, other)  # the same id with another graph
    become_foreign(built)
    assert is_foreign(store, manifest)


def test_a_foreign_layer_is_evaluated_in_a_child_and_gives_the_same(built: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    project, store = open_project(built.root), built.store()
    id = store.refs.get("digits/head")
    here = use.evaluate(project, store, id, "odd")
    become_foreign(built)
    monkeypatch.setattr(use, "load_model", None)  # whoever would load it here fails
    assert use.evaluate(project, store, id, "odd") == here


def test_what_is_pulled_is_foreign(built: Example, tmp_path: Path) -> None:
    built.cli("push", str(tmp_path / "remote"), "head")
    other = tmp_path / "other"
    other.mkdir()
    cli("pull", str(tmp_path / "remote"), "digits/head", cwd=other)
    store = open_project(other).open_store()
    manifest = store.layer(str(store.refs.get("digits/head")))
    assert is_foreign(store, manifest)


def test_the_child_answers_as_the_model_does(child: ForeignModel, built: Example) -> None:
    store = built.store()
    model = use.load_model(store, store.refs.get("digits/head"), built.root)
    with torch.no_grad():
        assert torch.equal(child(batch()), model(batch()))
    assert child.ask(batch(), "train") is None


@pytest.mark.skipif(sys.platform != "linux", reason="what a system offers differs")
def test_the_child_has_given_up_writing_memory_and_where_there_is_a_way_files_and_network(child: ForeignModel) -> None:
    assert {"memory", "writes"} <= child.held


def test_a_death_names_the_layer_and_the_signal(child: ForeignModel) -> None:
    child._process.send_signal(signal.SIGSEGV)
    with pytest.raises(LaminarError, match=r"layer head .* SIGSEGV") as caught:
        child(batch())
    assert caught.value.code == "L210"


def test_no_answer_in_time_is_an_end(child: ForeignModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "SECONDS", 0.2)
    child._process.send_signal(signal.SIGSTOP)
    with pytest.raises(LaminarError, match="more than 0 s") as caught:
        child(batch())
    assert caught.value.code == "L210"
    assert child._process.wait(10) == -signal.SIGKILL


def test_an_error_in_the_graph_is_told_and_the_child_goes_on(child: ForeignModel) -> None:
    with pytest.raises(LaminarError, match=r"layer head .* RuntimeError") as caught:
        child(torch.zeros(3, 7, 7, 7))
    assert caught.value.code == "L210"
    assert len(child(batch())) == 3


LIES: dict[str, dict[str, Any]] = {
    "dtype": {"dtype": "object", "shape": [3]},
    "shape": {"dtype": "float32", "shape": [-3]},
    "size": {"dtype": "float32", "shape": [1 << 40]},
    "rows": {"dtype": "float32", "shape": [0, 5]},
    "list": {"dtype": "float32", "shape": 3},
    "error": {"error": {"code": "L210"}},
    "unknown error": {"error": {"code": "L999", "message": "\x1b[2J", "hint": ""}},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_child_that_lies_is_not_believed(lie: str) -> None:
    """A stand-in for a child that the graph's author has taken over."""
    module = ForeignModel.__new__(ForeignModel)
    torch.nn.Module.__init__(module)
    module.called, module.ended = "layer head", False
    answer = b"".join(foreign_frames.pack(LIES[lie]))
    script = f"import sys; sys.stdin.buffer.read(20); sys.stdout.buffer.write({answer!r}); sys.stdout.flush(); sys.stdin.buffer.read()"
    module._process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    try:
        with pytest.raises(LaminarError, match="layer head") as caught:
            module(batch())
        assert caught.value.code == "L210"
        assert "\x1b" not in caught.value.message
    finally:
        module.close()


def test_an_imported_graph_is_tried_and_foreign_and_weights_for_own_code_are_not(
    built: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = built.store()
    path = tmp_path / "head.pt2"
    export_layer(store, store.refs.get("digits/head"), path, built.root)
    tried: list[str] = []
    plain = ForeignModel.ask

    def ask(self: ForeignModel, x: Tensor, form: str) -> Tensor | None:
        tried.append(form)
        return plain(self, x, form)

    monkeypatch.setattr(ForeignModel, "ask", ask)
    imported = import_layer(store, path, name="zoo/head", root=built.root)
    assert tried == ["once", "train"]
    assert is_foreign(store, store.layer(imported))


def test_a_build_on_a_foreign_layer_tries_it_first_and_gives_a_foreign_one(built: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    become_foreign(built)
    built.edit("parts/activation.py", "nn.ReLU()", "nn.Tanh()")  # its code is not here any more
    built.edit("laminar.toml", 'from = "strokes"', f'from = "{built.store().refs.get("digits/strokes")}"')
    built.edit("laminar.toml", "lr = 0.01, seed = 0, threads = 1 }   # quick", "lr = 0.02, seed = 0, threads = 1 }")
    asked: list[str] = []
    plain = ForeignModel.ask

    def ask(self: ForeignModel, x: Tensor, form: str) -> Tensor | None:
        asked.append(f"{form} {len(x)}")
        return plain(self, x, form)

    monkeypatch.setattr(ForeignModel, "ask", ask)
    head = built.build("head")["head"]
    assert asked == ["eval 64", "eval 64", "train 64", "train 64"]
    store = built.store()
    assert is_foreign(store, store.layer(head.id))


def test_a_build_on_a_layer_that_ends_its_child_trains_nothing(built: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    become_foreign(built)
    built.edit("parts/activation.py", "nn.ReLU()", "nn.Tanh()")
    built.edit("laminar.toml", 'from = "strokes"', f'from = "{built.store().refs.get("digits/strokes")}"')
    built.edit("laminar.toml", "lr = 0.01, seed = 0, threads = 1 }   # quick", "lr = 0.02, seed = 0, threads = 1 }")
    plain = ForeignModel.ask

    def dies(self: ForeignModel, x: Tensor, form: str) -> Tensor | None:
        self._process.send_signal(signal.SIGABRT)
        return plain(self, x, form)

    monkeypatch.setattr(ForeignModel, "ask", dies)
    before = built.store().layers()
    with pytest.raises(LaminarError, match=r"layer strokes .* SIGABRT") as caught:
        built.build("head")
    assert caught.value.code == "L210"
    assert built.store().layers() == before


CONFINED = """
import json, os, socket, subprocess, sys
from pathlib import Path
from laminar.core.confine import confine

held = confine(memory=2 << 30, files=[Path(sys.argv[1])])
tries = {
    "network": lambda: socket.socket(),
    "programs": lambda: subprocess.run(["true"]),
    "files": lambda: open(sys.argv[2]),
    "writes": lambda: open(Path(sys.argv[1]) / "new", "w").write("x" * 9),
    "memory": lambda: bytearray(3 << 30),
    "own": lambda: open(Path(sys.argv[1]) / "own").read(),
}
done = []
for name, attempt in tries.items():
    try:
        attempt()
        done.append(name)
    except (OSError, MemoryError):
        pass
import decimal  # libraries can still be loaded
os.write(1, json.dumps([sorted(held), done]).encode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a system offers differs")
def test_confine_says_what_holds_and_that_holds(tmp_path: Path) -> None:
    own = tmp_path / "mine"
    own.mkdir()
    (own / "own").write_text("mine")
    (tmp_path / "other").write_text("not mine")
    done = subprocess.run(
        [sys.executable, "-c", CONFINED, str(own), str(tmp_path / "other")], capture_output=True, check=True, env={**os.environ}
    )
    held, succeeded = json.loads(done.stdout)
    assert {"memory", "writes"} <= set(held)
    assert set(succeeded) == {"own", *({"network", "programs", "files"} - set(held))}


def test_a_file_of_the_folder_we_are_in_is_no_library_of_the_child(built: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    (built.root / "random.py").write_text("raise SystemExit('this is the random.py of a project')\n")
    monkeypatch.chdir(built.root)
    module = ForeignModel("layer head", brief(built, become_foreign(built)))
    try:
        assert len(module(batch())) == 3
    finally:
        module.close()


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_the_child_gets_no_token(built: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_JOIN_TOKEN", "secret")
    module = ForeignModel("layer head", brief(built, become_foreign(built)))
    try:
        assert b"TOKEN" not in Path(f"/proc/{module._process.pid}/environ").read_bytes()
    finally:
        module.close()


def test_a_graph_that_the_id_does_not_speak_of_is_refused(built: Example) -> None:
    """The id is a digest of both graphs together. A remote that leaves one out may not choose the other, not even under a pinned id."""
    id, store = become_foreign(built), built.store()
    manifest, other = store.layer(id), store.layer(str(store.refs.get("digits/strokes")))
    for graph in (
        msgspec.structs.replace(manifest.graph, train=None),
        msgspec.structs.replace(manifest.graph, train=None, eval=other.graph.eval),
        msgspec.structs.replace(manifest.graph, train=manifest.graph.eval),
    ):
        forged = msgspec.structs.replace(manifest, graph=graph)
        assert forged.own_id() == id
        store.write_layer(forged)
        with pytest.raises(LaminarError, match="is not the one its id was made of") as caught:
            use.evaluate(open_project(built.root), store, id, "odd")
        assert caught.value.code == "L403"


def test_a_build_that_is_ended_while_it_commits_leaves_no_foreign_layer(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed is not built again, so nobody would say later that it was made here."""
    from laminar.store.store import Store

    plain = Store.commit

    def commits_and_ends(self: Store, *args: Any, **named: Any) -> None:
        plain(self, *args, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Store, "commit", commits_and_ends)
        example.build("strokes")
    store = example.store()
    assert is_own(store, store.layer(str(store.refs.get("digits/strokes"))))


def test_a_foreign_graph_without_its_kernel_is_not_run_here_instead(built: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child says that a kernel is missing: then the project's own code may make the layer, and nothing else."""

    def no_kernel(*_: object) -> None:
        raise LaminarError("L706", "the graph calls a kernel that is not here", hint="none")

    id, store = become_foreign(built), built.store()
    monkeypatch.setattr(ForeignModel, "__init__", no_kernel)
    with foreign.confined(store, id, built.root) as model:
        assert len(model(batch())) == 3  # by the code
    built.edit("parts/activation.py", "nn.ReLU()", "nn.Tanh()")
    with pytest.raises(LaminarError) as caught, foreign.confined(store, id, built.root):
        pass
    assert caught.value.code == "L706"


@pytest.mark.parametrize("look", ["plan", "split"])
def test_who_only_looks_at_a_layer_on_a_foreign_one_tries_that_first(built: Example, look: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from laminar.parallel.split.describe import describe_split
    from laminar.plan.trials.open_layer import open_layer

    become_foreign(built)
    built.edit("parts/activation.py", "nn.ReLU()", "nn.Tanh()")
    built.edit("laminar.toml", 'from = "strokes"', f'from = "{built.store().refs.get("digits/strokes")}"')

    mesh = 'strategy = { kind = "mesh", mesh = { cols = 2 }, split = { batch = "cols" } }'
    built.edit("laminar.toml", "lr = 0.01, seed = 0, threads = 1 }   # quick", f"lr = 0.01, seed = 0, threads = 1, {mesh} }}")

    def dies(self: ForeignModel, x: Tensor, form: str) -> Tensor | None:
        raise self.broken("it died")

    monkeypatch.setattr(ForeignModel, "ask", dies)
    project, store = open_project(built.root), built.store()
    with pytest.raises(LaminarError) as caught:
        if look == "split":
            describe_split(project.need_file(), store, "head")
        else:
            with open_layer(project.need_file(), store, "head"):
                pass
    assert caught.value.code == "L210"


MISFITS = {
    "no classes": (0,),
    "fewer classes": (2,),
    "more classes": (99,),
    "no dimension for classes": (),
    "pictures": (5, 2, 2),
}


@pytest.mark.parametrize("shape", MISFITS.values(), ids=MISFITS.keys())
def test_outputs_that_do_not_fit_the_manifest_are_an_error_and_no_bug(
    built: Example, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import numpy as np

    id, project, store = become_foreign(built), open_project(built.root), built.store()
    np.save(tmp_path / "x.npy", batch().numpy())
    monkeypatch.setattr(ForeignModel, "ask", lambda _, x, __: torch.zeros(len(x), *shape))
    for attempt in (lambda: use.evaluate(project, store, id, "odd"), lambda: use.predict(project, store, id, [tmp_path / "x.npy"])):
        with pytest.raises(LaminarError, match="expected 5 for each") as caught:
            attempt()
        assert caught.value.code == "L204"


@pytest.mark.parametrize(
    "steps", [7, "models:head", [7], [{}], [{"factory": 7, "code": {}}], [{"factory": "laminar:mlp", "code": {}, "seen": 7}]]
)
def test_steps_that_somebody_else_wrote_are_no_code_of_ours(built: Example, steps: Any) -> None:
    store = built.store()
    manifest = store.layer(str(store.refs.get("digits/head")))
    forged = msgspec.structs.replace(manifest, model={"steps": steps})
    assert from_code(store, forged, built.root) is None


def test_samples_for_a_layer_whose_dtype_is_odd(built: Example, tmp_path: Path) -> None:
    import numpy as np

    store = built.store()
    manifest = store.layer(str(store.refs.get("digits/head")))
    np.save(tmp_path / "x.npy", batch().numpy())
    shape = manifest.input["shape"]
    assert use._sample(tmp_path / "x.npy", msgspec.structs.replace(manifest, input={"shape": shape})).dtype == np.float32
    import ml_dtypes  # noqa: F401 - adds bfloat16 to the names that NumPy knows

    with pytest.raises(LaminarError, match="takes bfloat16"):
        use._sample(tmp_path / "x.npy", msgspec.structs.replace(manifest, input={"shape": shape, "dtype": "bfloat16"}))
