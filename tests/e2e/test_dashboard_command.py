"""`laminar ui` as a command: ready, ended, refused; and a store that goes away under it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests import warm
from tests.e2e.json_shapes import SHAPES, differences
from tests.pure.dashboard.visitor import Visitor, serving

UI = [sys.executable, "-m", "laminar", "ui", "--no-open"]


def started(cwd: Path, *words: str, popen: type = warm.Popen) -> tuple[subprocess.Popen[bytes], str]:
    process = popen([*UI, *words, "--json"], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = process.stdout.readline()
    told = json.loads(line)
    assert list(differences(told, SHAPES["ui"])) == []
    return process, told["url"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_and_ends_cleanly_also_while_somebody_listens(tmp_path, number):
    cold = {signal.SIGINT: subprocess.Popen, signal.SIGTERM: warm.Popen}[number]  # once started as users start it
    process, url = started(tmp_path, "--port", "0", popen=cold)
    try:
        opened = urllib.request.urlopen(url)
        cookie = opened.headers["set-cookie"].partition(";")[0]
        news = urllib.request.urlopen(urllib.request.Request(url.partition("?")[0] + "api/live", headers={"cookie": cookie}))
        assert news.readline() == b"retry: 1000\n"
        process.send_signal(number)
        out, error = process.communicate(timeout=20)
        assert (process.returncode, out, error) == (0, b"", b"")
    finally:
        process.kill()
        process.wait()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_an_error_that_helps(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = warm.run([*UI, "--port", port], cwd=tmp_path, capture_output=True)
    assert done.returncode == 4 and done.stdout == b""
    assert f"L405: cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr.decode()
    assert "--port 0" in done.stderr.decode()


def test_a_missing_library_is_named_with_the_command(tmp_path):
    script = "import sys; sys.modules['starlette'] = None; sys.argv = ['laminar', 'ui']; from laminar.cli import main; main()"
    blocked = "import importlib.util as u; find = u.find_spec; u.find_spec = lambda n, *a: None if n == 'starlette' else find(n, *a); "
    done = subprocess.run([sys.executable, "-c", blocked + script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "the dashboard needs starlette" in done.stderr and "pip install 'laminar-train[ui]'" in done.stderr


def test_starting_needs_no_torch(tmp_path):
    script = (
        "import sys; import laminar.cli.ui; from laminar.dashboard.server import Dashboard; from pathlib import Path;"
        "Dashboard(Path('.'), port=0).close(); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_a_store_that_is_deleted_damaged_or_forbidden_while_it_is_looked_at(example):
    example.build()
    store = example.root / ".laminar"
    with serving(example.root) as dashboard:
        page = Visitor(dashboard).enter()
        shown = page.get("/api/stack").json()
        assert [layer["ref"] for layer in shown["layers"] if layer["id"]] == ["digits/strokes", "digits/head"]
        run = page.get("/api/runs").json()["runs"][0]
        assert run["state"] == "finished" and run["layer"] == "head" and run["metrics"]["accuracy"] > 0
        states = page.get("/api/stack/plan").json()["layers"]
        assert [s["state"] for s in states] == ["built", "built"] and all(s["saved"] > 0 for s in states)
        manifest = store / "layers" / f"{shown['layers'][1]['id']}.json"
        text = manifest.read_bytes()
        manifest.chmod(0o644)
        manifest.write_bytes(text.replace(b"accuracy", b"accurate", 1))
        broken = page.get("/api/stack").json()["layers"][1]
        assert broken["id"] is None and "is corrupt" in broken["lost"]
        assert page.get("/api/stack/layer", {"ref": "digits/head"}).status == 422
        manifest.write_bytes(text)
        (store / "runs" / run["run"] / "finished").write_bytes(b"{")
        assert page.get("/api/runs").status == 200
        shutil.rmtree(store)
        empty = page.get("/api/stack").json()
        assert not empty["made"] and [layer["id"] for layer in empty["layers"]] == [None, None]
        assert page.get("/api/runs").json()["runs"] == []
        assert page.get("/api/runs/curves", {"run": run["run"]}).status == 404
        assert [s["state"] for s in page.get("/api/stack/plan").json()["layers"]] == ["never", "never"]
        store.write_text("a file where the store was")
        answer = page.get("/api/stack")
        assert answer.status == 422 and answer.json()["error"]["code"] == "L306"
    assert os.path.isfile(store)


def test_rollback_and_tag_do_what_the_commands_do(example):
    example.build()
    first = example.root / ".laminar/refs/digits/head.json"
    before = json.loads(first.read_bytes())["id"]
    example.edit("laminar.toml", "lr = 0.01, seed = 0, threads = 1 }   # quick", "lr = 0.02, seed = 0, threads = 1 }   # quick")
    example.build()
    with serving(example.root) as dashboard:
        page = Visitor(dashboard).enter().changing()
        told = page.post("/api/stack/rollback", {"target": "head", "write": True}).json()
        assert told["ref"] == "digits/head" and told["to"] == before and told["wrote"]
        assert "lr = 0.01" in example.toml.read_text().split("# quick")[0].rsplit("\n", 1)[-1]
        assert page.get("/api/stack").json()["layers"][1]["rolled_back"]
        assert page.post("/api/stack/tag", {"id": before, "name": "head:v1"}).json() == {"name": "head:v1", "id": before}
        assert page.get("/api/stack").json()["layers"][1]["tags"] == ["head:v1"]
        assert page.post("/api/stack/rollback", {"target": "nothing"}).status == 404
        assert page.post("/api/stack/rollback", {"target": 3}).status == 422
        assert page.post("/api/stack/tag", {"id": before, "name": "bad~name"}).status == 422
        detail = page.get("/api/stack/layer", {"ref": "digits/head"}).json()
        assert [entry["op"] for entry in detail["log"]] == ["rollback", "build", "build"]
        model = page.get("/api/stack/model", {"id": before}).json()
        assert model["states"]["features"]["state"] == "frozen" and model["states"]["head"]["state"] == "trained"
        kinds = [node["kind"] for node in model["nodes"]]
        assert kinds[0] == "input" and "Conv2d" in kinds and kinds[-1] == "Linear"
        flow = {(a.split("#")[0], b.split("#")[0]) for a, b in model["edges"]}
        assert len(flow) >= len(kinds) - 1
