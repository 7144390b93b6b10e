"""Hostile remote: every field of what a stranger hands out, replaced by what would hurt somebody who believed it.

A case is one good remote (a layer, its parent, a tag, their graphs, deltas and build records), or one index of images with its mirror, or
one file to import, in which the seed changes one thing: a field of a record becomes hostile (the id is made anew, as an attacker would),
a file becomes garbage, a member of an archive is renamed, an object lies, a link leads out, a listing has names of its own. It is
pulled over a folder, http or s3; what came through is shown, loaded and pushed on. The promise: nothing outside of the store is
changed or created (an audit hook hears every file that this process opens to write, moves or removes), nothing of the victim's own
layers moves, the store verifies, whatever is refused ends with a code of the catalogue that is no bug of ours, and no control character
reaches the terminal.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import io
import json
import logging
import os
import random
import shutil
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from laminar.core import printable
from laminar.core.digest import canonical, of_bytes, of_json
from laminar.core.errors import CATALOGUE, LaminarError
from laminar.store import records
from laminar.store.remote import Remote, pull, push
from laminar.store.store import Store
from laminar.store.verify import verify

TREE = dict[str, bytes]
IDENTITY = ("aliases", "structure", "classes", "input", "task")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod", "os.chown"})
PATHS = frozenset({"id", "key", "parent", "run", "stack", "name", "tensors", "graph", "files", "path", "constants"})
LEADING = 24  # of the hostile values: paths
KINDS = ("manifest", "parent", "record", "ref", "garbage", "graph", "object", "listing", "index", "import")


class World:
    """What is made once: the good remote, the victim, and the servers."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="net-"))
        self.outside: list[str] = []
        self.watching = False
        sys.addaudithook(self._hear)
        self.home = self.root / "home"
        self.home.mkdir()
        for name in ("settings.json", "x.json", "x"):
            (self.home / name).write_text("mine")
        self.served = self.root / "served"
        self.served.mkdir()
        self.good, self.index, self.imports = _good(self.root)
        self.victim = Store.open(self.root / "victim" / "store")
        _layer(self.victim, "mine", "prod", seed=9)
        with Remote.at(str(self.root / "far")) as remote:
            pull(self.victim, remote, "digits/head", into="kept/head")
        self.kept = _snapshot(self.victim.root)
        handler = functools.partial(_Quiet, directory=str(self.served))
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()
        self.http = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._s3: Any = None
        self._client: Any = None

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        """Of this process: whatever is written outside of where it may be."""
        if not self.watching:
            return
        if event == "open":
            path, mode, flags = args
            if not (isinstance(flags, int) and flags & WRITES) and not (isinstance(mode, str) and set(mode) & set("wax+")):
                return
            paths = [path]
        elif event in CHANGES or event.startswith("shutil."):
            paths = [arg for arg in args[:2] if isinstance(arg, str | bytes | os.PathLike)]
        else:
            return
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike) and not self._allowed(os.fsdecode(path)):
                self.outside.append(f"{event} {path!r}")

    def _allowed(self, path: str) -> bool:
        place = os.path.normpath(os.path.join(os.getcwd(), path))
        if place in (os.devnull, tempfile.gettempdir()):
            return True
        own = (self.victim.root, self.root / "cache", self.root / "out")
        temporary = os.path.join(tempfile.gettempdir(), "laminar-")
        return any(place == str(folder) or place.startswith(f"{folder}{os.sep}") for folder in own) or place.startswith(temporary)

    def s3(self, tree: TREE, name: str) -> str:
        if self._s3 is None:
            import boto3
            from moto.server import ThreadedMotoServer

            logging.getLogger("werkzeug").setLevel(logging.ERROR)
            os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
            self._s3 = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
            self._s3.start()
            self.s3_url = "http://{}:{}".format(*self._s3.get_host_and_port())
            self._client = boto3.client("s3", endpoint_url=self.s3_url)
            self._client.create_bucket(Bucket="net")
        from botocore.exceptions import ClientError, ParamValidationError

        for path, data in tree.items():
            with contextlib.suppress(ClientError, ParamValidationError, UnicodeError):  # a name that this server does not take
                self._client.put_object(Bucket="net", Key=f"{name}/{path}", Body=data)
        return f"s3://net/{name}?endpoint={self.s3_url}"

    def folder(self, tree: TREE, name: str) -> Path:
        root = self.served / name
        for path, data in tree.items():
            if not os.path.normpath(root / path).startswith(f"{root}{os.sep}"):
                continue  # a server could answer for it; a folder cannot hold it
            with contextlib.suppress(OSError, ValueError):  # a name that no file system takes
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(data)
        return root

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        self.outside.clear()
        before = _snapshot(self.home)
        self.watching = True
        try:
            yield
        finally:
            self.watching = False
        assert not self.outside, f"outside of the store: {self.outside}"
        assert _snapshot(self.home) == before, "a file of the victim's home has changed"

    def restore(self) -> None:
        """The victim as it was."""
        for path in self.victim.root.rglob("*"):
            if path.is_file() and str(path) not in self.kept:
                path.unlink()
        for path, data in self.kept.items():
            if not Path(path).exists() or Path(path).read_bytes() != data:
                Path(path).write_bytes(data)

    def close(self) -> None:
        self.watching = False
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        if self._s3 is not None:
            self._client.close()
            self._s3.stop()
        shutil.rmtree(self.root, ignore_errors=True)


_world: World | None = None


def world() -> World:
    global _world
    if _world is None:
        _world = World()
    return _world


def close() -> None:
    global _world
    if _world is not None:
        _world.close()
        _world = None


def check(seed: int) -> str:
    rng = random.Random(seed)
    here = world()
    kind = KINDS[seed % len(KINDS)]
    if kind == "import" and rng.random() < 0.5:
        kind = rng.choice(KINDS[:-1])  # exporting the layer again takes a second
    try:
        if kind == "index":
            return f"index: {_index(here, rng, seed)}"
        if kind == "import":
            return f"import: {_import(here, rng, seed)}"
        return _pulled(here, rng, seed, kind)
    finally:
        shutil.rmtree(here.served / f"case{seed}", ignore_errors=True)
        here.restore()


# remotes


def _pulled(here: World, rng: random.Random, seed: int, kind: str) -> str:
    tree, asked = _changed(here, dict(here.good), rng, kind)
    name = f"case{seed}"
    way = rng.choice((*["folder"] * 5, *["http"] * 5, "s3"))  # an object store in this process takes a second a case
    if way == "s3":
        url = here.s3(tree, name)
    else:
        folder = here.folder(tree, name)
        if way == "folder" and rng.random() < (0.9 if kind == "listing" else 0.1):
            _link(here, folder, rng)
        url = str(folder) if way == "folder" else f"{here.http}/{name}"
    own = here.victim.refs.get("mine/prod")
    with here.watched():
        code = _attempt(lambda: _pull_and_use(here, url, asked, rng))
    assert here.victim.refs.get("mine/prod") == own, "a ref that nobody asked for has moved"
    assert not (wrong := verify(here.victim, deep=False)), wrong
    assert own is not None
    here.victim.layer(own)
    return f"{way}: {code}"


def _pull_and_use(here: World, url: str, asked: str, rng: random.Random) -> None:
    victim = here.victim
    with Remote.at(url) as remote:
        id = pull(victim, remote, asked, into=rng.choice((None, None, "new/one")))
    _shown(here, id)
    if rng.random() < 0.3:
        from laminar.stack.use import load_model

        load_model(victim, id, here.home)


def _shown(here: World, id: str) -> None:
    """`show` and `log`, as a terminal gets them."""
    from laminar.cli import log, show

    out = io.StringIO()
    before = os.getcwd()
    os.environ["LAMINAR_STORE"] = str(here.victim.root)
    os.chdir(here.home)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            show.run(id)
            show.run(id, json=True)
            log.run(all_stacks=True)
    finally:
        os.chdir(before)
        del os.environ["LAMINAR_STORE"]
    _must_be_printable(out.getvalue())


def _attempt(work: Any) -> str:
    try:
        work()
    except LaminarError as error:
        refusal = error
    else:
        return "taken"
    assert refusal.code in CATALOGUE
    assert refusal.exit_code != 70, refusal
    _must_be_printable(str(refusal))
    assert len(str(refusal)) < 20_000, "the message repeats what was hostile at length"
    return refusal.code


def _must_be_printable(text: str) -> None:
    assert printable.lines(text) == text, repr(text)


def _changed(here: World, tree: TREE, rng: random.Random, kind: str) -> tuple[TREE, str]:
    """The remote with one thing changed, and the ref to ask for."""
    about = json.loads(tree["about"])
    del tree["about"]
    id, parent, key = about["id"], about["parent"], about["key"]
    asked = rng.choice(("digits/head", "digits/head", "head", "digits:v1", f"digits/head@sha256:{id}", id))
    match kind:
        case "manifest" | "parent":
            path = f"layers/{id if kind == 'manifest' else parent}.json"
            content = records.load(tree[path])
            _hurt(content, rng, here)
            if kind == "manifest":
                asked = _renamed(tree, id, content, rng, asked)
            else:
                tree[path] = _dumped(content)
        case "record":
            content = records.load(tree[f"keys/{key}.json"])
            _hurt(content, rng, here)
            tree[f"keys/{key}.json"] = _dumped(content)
            if isinstance(content.get("key"), str) and content["key"] != key:  # the manifest says so too
                manifest = records.load(tree[f"layers/{id}.json"]) | {"key": content["key"]}
                tree[f"layers/{id}.json"] = _dumped(manifest)
                tree[f"keys/{content['key']}.json"] = tree[f"keys/{key}.json"]
        case "ref":
            for path in ("refs/digits/head.json", "refs/tags/digits%3Av1.json"):
                content = records.load(tree[path])
                _hurt(content, rng, here)
                tree[path] = _dumped(content)
            asked = rng.choice(("digits/head", "head", "digits:v1", f"digits/head@sha256:{id[:12]}"))
        case "garbage":
            path = rng.choice(sorted(tree))
            tree[path] = _garbage(rng, tree[path])
        case "graph":
            content = records.load(tree[f"layers/{id}.json"])
            form = rng.choice(("train", "eval"))
            archive = _archive(tree[_object(content["graph"][form])], rng, here)
            content["graph"][form] = of_bytes(archive)
            tree[_object(of_bytes(archive))] = archive
            asked = _renamed(tree, id, content, rng, asked)
        case "object":
            content = records.load(tree[f"layers/{id}.json"])
            name = rng.choice(sorted(content["tensors"]))
            ref = content["tensors"][name]
            old = ref["delta"]["steps"][-1] if ref.get("delta") else ref["digest"]
            data = _lying(tree[_object(old)], rng)
            new = of_bytes(data)
            tree[_object(new)] = data
            if ref.get("delta"):
                ref["delta"]["steps"] = [*ref["delta"]["steps"][:-1], new]
            else:
                ref["digest"] = new
            asked = _renamed(tree, id, content, rng, asked)
        case "listing":
            for _ in range(3):
                name = str(rng.choice([value for value in _hostile(here) if isinstance(value, str)])).replace("\0", "\\0")[:200]
                tree[f"refs/{rng.choice(('digits', 'tags', name))}/{name}.json"] = tree["refs/digits/head.json"]
            asked = rng.choice(("nothing", "head", "x", "..", "digits/nothing"))
    return tree, asked


def _renamed(tree: TREE, id: str, content: dict[str, Any], rng: random.Random, asked: str) -> str:
    """Under the id that the content asks for, as somebody would put it who knows how an id is made; refs follow."""
    new = id
    with contextlib.suppress(Exception):
        new = of_json({"tensors": {n: t["digest"] for n, t in content["tensors"].items()}} | {f: content[f] for f in IDENTITY})
    if content.get("id") == id:
        content["id"] = new
    del tree[f"layers/{id}.json"]
    tree[f"layers/{new}.json"] = _dumped(content)
    for path in ("refs/digits/head.json", "refs/tags/digits%3Av1.json"):
        ref = records.load(tree[path])
        tree[path] = records.dump(ref | {"id": new})
    key = content.get("key")
    if isinstance(key, str) and rng.random() < 0.8:  # a build record where the key says, for whoever writes it there
        old = next(path for path in tree if path.startswith("keys/"))
        tree[f"keys/{key}.json"] = _dumped(records.load(tree[old]) | {"key": key, "id": new})
    return asked.replace(id, new)


def _dumped(content: Any) -> bytes:
    """A record with the check that belongs to it, also where no writer of ours would write it."""
    try:
        rest = canonical(content)
    except (ValueError, RecursionError):  # half a character; not a number; deep
        rest = json.dumps(content, sort_keys=True, separators=(",", ":")).encode() if not _is_deep(content) else b'{"a":' + _deep() + b"}"
    return rest[:-1] + b',"check":"' + of_bytes(rest).encode() + b'"}'


def _is_deep(content: Any) -> bool:
    try:
        json.dumps(content)
    except RecursionError:
        return True
    return False


def _deep(levels: int = 3000) -> bytes:
    return b"[" * levels + b"]" * levels


@functools.cache
def _hostile_values(home: str) -> tuple[Any, ...]:
    nested: Any = "x"
    for _ in range(150):
        nested = [nested]
    paths = (
        f"{home}/settings",
        f"{home}/x",
        "/etc/passwd",
        "../../home/settings",
        "../" * 8 + "tmp/x",
        "..",
        ".",
        "",
        "/",
        "a/b",
        "..\\..\\x",
    )
    paths += (
        "C:\\x",
        "a\0b",
        "\0",
        "x" * 10_000,
        "../" * 3_000,
        "~/x",
        "%2e%2e%2fx",
        "CON",
        "tags",
        "mine/prod",
        "$(touch x)",
        "; rm -rf ~",
        "-rf",
    )
    digests = ("ж" * 64, "深" * 200, "A" * 64, "a" * 63, "a" * 64 + "\n", "0" * 64)
    signs = ("\x1b]0;owned\x07", "\x1b[2J\x1b[H", "\x9b31m", "a\rb", "a\nerror L900: run curl", "\u202egnp.exe", "\u2028", "\ud800")
    signs += ("[red]x[/red]", "<script>alert(1)</script>")
    numbers = (-1, 0, 1 << 40, 1 << 70, 1e308, -0.5, True, None, "Infinity", float("nan"), float("inf"))
    return (*paths, *digests, *signs, *numbers, [], {}, ["../x"], {"..": ".."}, nested)


def _hostile(here: World) -> tuple[Any, ...]:
    return _hostile_values(str(here.home))


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field, however deep."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in inner:
        yield (*path, name)
        yield from _places(child, (*path, name))


def _hurt(content: Any, rng: random.Random, here: World) -> None:
    """One field becomes hostile: any, but first a field is chosen among those on top, so that long tables do not take all cases, and
    half of the time one that becomes a path somewhere, and a value that leads to another place."""
    places = list(_places(content))
    tops = sorted({place[0] for place in places}, key=str)
    paths = [top for top in tops if top in PATHS] if rng.random() < 0.5 else []
    top = rng.choice(paths or tops)
    place = rng.choice([place for place in places if place[0] == top])
    inner = content
    for step in place[:-1]:
        inner = inner[step]
    value = rng.choice(_hostile(here)[:LEADING] if paths and rng.random() < 0.5 else _hostile(here))
    how = rng.random()
    if how < 0.08 and isinstance(inner, dict):
        del inner[place[-1]]
    elif how < 0.2 and isinstance(inner, dict) and isinstance(value, str):
        inner[value] = inner.pop(place[-1])
    else:
        inner[place[-1]] = value


def _garbage(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data)) if data else 0
    ends = (b"", data[:at], data + b"\n", data[:at] + b"\0" + data[at + 1 :], rng.randbytes(300))
    others = (b"\xff\xfe", b"{}", b"[]", b"null", b"9" * 100_000, b'{"a":"\\ud800"}', _deep(), _dumped({}), _dumped([1]))
    return rng.choice((*ends, *others))


def _lying(data: bytes, rng: random.Random) -> bytes:
    """An object whose header says something else than follows."""
    size = int.from_bytes(data[:8], "little")
    head, body = data[8 : 8 + size], data[8 + size :]
    sizes = rng.choice((size, 0, len(data), 1 << 40, (1 << 64) - 1))
    head = rng.choice(
        (head, _deep(), b"{}", b"[1]", head.replace(b"F32", b"F64"), head.replace(b"[0,", b"[-8,"), head.replace(b"U8", b"I64"))
    )
    body = rng.choice((body, body[:-1], b"", body + bytes(8), rng.randbytes(len(body))))
    return sizes.to_bytes(8, "little") + head + body


def _archive(data: bytes, rng: random.Random, here: World) -> bytes:
    """The zip of a graph: a member renamed, a field of its JSON replaced, or its bytes spoilt."""
    how = rng.choice(("name", "field", "field", "field", "bytes", "twice", "link"))
    if how == "bytes":
        return _garbage(rng, data)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        members = old.infolist()
        chosen = rng.choice([one for one in members if how != "field" or one.filename.endswith(".json")])
        for member in members:
            content, name = old.read(member), member.filename
            if member is chosen and how == "field":
                value = json.loads(content)
                _hurt(value, rng, here)
                content = json.dumps(value).encode("utf-8", "surrogatepass") if not _is_deep(value) else _deep()
            if member is chosen and how == "name":
                texts = [text for text in _hostile(here) if isinstance(text, str) and "\ud800" not in text]
                name = f"{rng.choice(('', 'model/', 'model/data/constants/'))}{rng.choice(texts)}"
            info = zipfile.ZipInfo(name[:60_000])
            if member is chosen and how == "link":
                info.create_system, info.external_attr, content = 3, 0o120777 << 16, os.fsencode(here.home / "settings.json")
            new.writestr(info, content)
            if member is chosen and how == "twice":
                import warnings

                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    new.writestr(name, content)
    return out.getvalue()


def _link(here: World, folder: Path, rng: random.Random) -> None:
    """Something of a remote folder leads elsewhere: to the victim's home, to a pipe, to itself."""
    paths = [path for path in sorted(folder.rglob("*")) if "objects" not in path.parts or rng.random() < 0.2]
    path = rng.choice(paths)
    target = rng.choice(
        (here.home, here.home / "settings.json", Path("/dev/zero"), Path("/proc/self/mem"), path, Path(".."), here.root / "origin")
    )
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    if rng.random() < 0.2:
        os.mkfifo(path)
    else:
        path.symlink_to(target)


# indexes of images, and files to import


def _index(here: World, rng: random.Random, seed: int) -> str:
    from laminar.data.open import open_data
    from laminar.data.spec import DataSpec

    tree = dict(here.index)
    how = rng.random()
    if how < 0.8:
        content = json.loads(tree["index.json"])
        _hurt(content, rng, here)
        tree["index.json"] = json.dumps(content).encode() if not _is_deep(content) else _deep()
    else:
        path = rng.choice(sorted(tree))
        tree[path] = _garbage(rng, tree[path])
    name = f"case{seed}"
    folder = here.folder(tree, name)
    shutil.rmtree(here.root / "cache", ignore_errors=True)
    os.environ["LAMINAR_CACHE"] = str(here.root / "cache")
    source = f"index:{folder / 'index.json'}" if rng.random() < 0.5 else f"index:{here.http}/{name}/index.json"
    try:
        with here.watched():
            return _attempt(lambda: open_data(DataSpec(source=source), here.home))
    finally:
        del os.environ["LAMINAR_CACHE"]


def _import(here: World, rng: random.Random, seed: int) -> str:
    from laminar.stack.files import import_layer

    name = rng.choice(sorted(here.imports))
    data = here.imports[name]
    if name.endswith(".pt2"):
        data = _archive(data, rng, here)
    elif rng.random() < 0.3:
        data = _garbage(rng, data)
    else:
        size = int.from_bytes(data[:8], "little")
        head = json.loads(data[8 : 8 + size])
        note = json.loads(head["__metadata__"]["laminar"])
        _hurt(note if rng.random() < 0.7 else head, rng, here)
        with contextlib.suppress(TypeError, KeyError):
            head["__metadata__"]["laminar"] = json.dumps(note) if not _is_deep(note) else _deep().decode()
        text = json.dumps(head).encode() if not _is_deep(head) else _deep()
        data = len(text).to_bytes(8, "little") + text + data[8 + size :]
    path = here.folder({name: data}, f"case{seed}") / name
    how: dict[str, Any] = {} if name.endswith(".pt2") else {"factory": "laminar:mlp", "args": "{ hidden = [100] }"}
    with here.watched():
        code = _attempt(lambda: _shown(here, import_layer(here.victim, path, name="zoo/x", root=here.home, **how)))
    assert not (wrong := verify(here.victim, deep=False)), wrong
    return code


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            super().handle()


# what is good


def _layer(store: Store, stack: str, name: str, *, seed: int, parent: str | None = None, change: int = 0) -> Any:
    """A trained layer as a build keeps it, graph and all."""
    import torch

    from laminar.model.build import make_model
    from laminar.stack.keep import About, keep
    from laminar.store.manifest import BuildRecord

    model = make_model("laminar:mlp", {"hidden": [100]}, store.root, seed=seed, inject={"classes": 3, "input_shape": [200]})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.view(-1)[:change] += 1
    inputs = {"seed": seed, "change": change, "parent": parent}
    about = About(
        stack=stack,
        name=name,
        key=of_json(inputs),
        run=of_json(inputs)[:16],
        parent=parent,
        steps=[],
        route="code",
        classes=["a", "b", "ж"],
        task="classification",
        input={"shape": [200], "dtype": "float32", "scale": 1.0},
    )
    notes = ["a note", "two\nlines"]
    manifest = keep(store, model, torch.zeros(2, 200), about, metrics={"loss": 0.5, "accuracy": 0.9}, now=1e9, notes=notes)
    record = BuildRecord(
        key=about.key,
        id=manifest.id,
        inputs=inputs,
        stack=stack,
        name=name,
        spec={"name": name, "data": "x"},
        data=None,
        metrics=manifest.metrics,
        seconds=1.0,
        created=1e9,
        run=about.run,
        provenance=manifest.provenance,
    )
    store.commit(manifest, record, f"{stack}/{name}", why="build")
    return manifest


def _good(root: Path) -> tuple[TREE, TREE, TREE]:
    """(a remote with `about` beside its files, an index with its images, files to import)"""
    from PIL import Image

    from laminar.data.make_index import write_index
    from laminar.stack.files import export_layer

    origin = Store.open(root / "origin")
    below = _layer(origin, "digits", "strokes", seed=1)
    head = _layer(origin, "digits", "head", seed=1, parent=below.id, change=5)
    assert any(ref.delta for ref in head.tensors.values())
    with Remote.at(str(root / "far")) as remote:
        push(origin, remote, below.id, ["digits/strokes"])
        push(origin, remote, head.id, ["digits/head", "digits:v1"])
    tree = {str(path.relative_to(root / "far")): path.read_bytes() for path in (root / "far").rglob("*") if path.is_file()}
    tree["about"] = msgspec.json.encode({"id": head.id, "parent": below.id, "key": head.key})
    images = root / "images"
    for number, label in enumerate(("a", "b", "b")):
        (images / label).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (number, 9, 9)).save(images / label / f"{number}.png")
    write_index(images, images / "index.json")
    index = {str(path.relative_to(images)): path.read_bytes() for path in images.rglob("*") if path.is_file()}
    (root / "out").mkdir()
    imports = {}
    for name in ("x.pt2", "x.safetensors"):
        export_layer(origin, head.id, root / "out" / name, None)
        imports[name] = (root / "out" / name).read_bytes()
    return tree, index, imports


def _object(name: str) -> str:
    return f"objects/{name[:2]}/{name[2:]}"


def _snapshot(folder: Path) -> TREE:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".lock"}
