"""The table of mutations that keys are held against: what a project is, what is changed in it, and whether that changes the layer.

    Row("helper two imports away", MODEL, {"deep.py": "WIDTH = 8"}, changes=True)

Files are text, or functions that give bytes; None deletes one. Paths are relative to the project, whose folder lies in one of its own, so
that "../outside/w.json" is outside of it. `changes` is the truth: would `--force` give another id? The net tests/nets/key_mutations.py
builds each row by the command line, changes it, and builds again.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

Content = str | Callable[[], bytes] | None
Files = Mapping[str, Content]


@dataclass(frozen=True)
class Row:
    name: str
    before: Files
    after: Files
    changes: bool
    env: Mapping[str, str] = field(default_factory=dict)  # while it is built the first time
    env_after: Mapping[str, str] | None = None  # None: as before
    cold: bool = False  # a process of its own, not forked: PYTHONPATH is read at its start
    warns: bool = False  # may be reused though it changes, because the build says so each time


STACK = """\
[stack]
name = "rows"
{more}
[data.some]
{data}

[[layer]]
name = "one"
model = "models:net"
data = "some"
{layer}
train = {{ epochs = 1, batch = 16, seed = 0, threads = 1 }}
"""
DIGITS = 'source = "digits"\nlimit = 40'
HEAD = """
[[layer]]
name = "two"
data = "some"
replace = {{ 3 = {replace} }}
train = {{ epochs = 1, batch = 16, seed = 0, threads = 1 }}
"""
SECOND = """
[[layer]]
name = "two"
model = "models:second"
data = "some"
train = { epochs = 1, batch = 16, seed = 0, threads = 1 }
"""


def stack(layer: str = "", data: str = DIGITS, more: str = "", after: str = "") -> str:
    return STACK.format(layer=layer, data=data, more=more) + after


def model(width: str = "4", top: str = "", body: str = "", parameters: str = "classes", last: str = "") -> str:
    """models.py with a factory whose hidden layer is as wide as the expression `width` says."""
    lines = ["from torch import nn", *top.splitlines(), "", "", f"def net({parameters}):", *("    " + line for line in body.splitlines())]
    lines += [f"    return nn.Sequential(nn.Flatten(), nn.Linear(64, {width}), nn.ReLU(), nn.Linear({width}, classes))"]
    return "\n".join([*lines, *last.splitlines()]) + "\n"


MIXED = """\
from torch import nn


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.first = nn.Linear(64, 4)
        self.last = nn.Linear(4, classes)

    def forward(self, x):
{forward}
        return self.last(y)


def net(classes):
    return Net(classes)
"""


def forward(*lines: str, top: str = "") -> str:
    return (top + "\n" if top else "") + MIXED.format(forward="\n".join("        " + line for line in lines))


PLAIN_FORWARD = ("y = self.first(x.flatten(1)).relu()",)


# What files hold.


def npy(value: int) -> Callable[[], bytes]:
    def content() -> bytes:
        file = io.BytesIO()
        np.save(file, np.array([value]))
        return file.getvalue()

    return content


def raw(value: int) -> Callable[[], bytes]:
    return lambda: np.array([value], dtype=np.int64).tobytes()


def tensors(value: int) -> Callable[[], bytes]:
    def content() -> bytes:
        from safetensors.numpy import save

        return save({"w": np.array([value])})

    return content


def pickled(value: int) -> Callable[[], bytes]:
    def content() -> bytes:
        import torch

        file = io.BytesIO()
        torch.save({"w": torch.tensor([value])}, file)
        return file.getvalue()

    return content


def parquet(value: int, rows: int = 1, **options: object) -> Callable[[], bytes]:
    def content() -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        file = io.BytesIO()
        pq.write_table(pa.table({"w": [value] * rows}), file, **options)
        return file.getvalue()

    return content


def arrow(value: int) -> Callable[[], bytes]:
    def content() -> bytes:
        import pyarrow as pa

        file = io.BytesIO()
        table = pa.table({"w": [value]})
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        return file.getvalue()

    return content


def picture(side: int) -> Callable[[], bytes]:
    def content() -> bytes:
        from PIL import Image

        file = io.BytesIO()
        Image.new("L", (side, side)).save(file, "PNG")
        return file.getvalue()

    return content


def database(value: int) -> Callable[[], bytes]:
    def content() -> bytes:
        import sqlite3

        base = sqlite3.connect(":memory:")
        base.execute("create table t (w integer)")
        base.execute("insert into t values (?)", (value,))
        base.commit()
        data = base.serialize()
        base.close()
        return bytes(data)

    return content


def zipped(value: int) -> Callable[[], bytes]:
    def content() -> bytes:
        import zipfile

        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("w.txt", str(value))
        return file.getvalue()

    return content


def samples(*, flip: bool = False, one: bool = False, relabel: bool = False) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    x, y = draw.integers(0, 255, (40, 1, 8, 8), dtype=np.uint8), np.arange(40) % 4
    if flip:
        x, y = x[::-1], y[::-1]
    if one:
        x[3, 0, 4, 4] ^= 255
    if relabel:
        y[0] = 3
    return {"x": np.ascontiguousarray(x), "y": np.ascontiguousarray(y)}


def npz(*, compressed: bool = False, **change: bool) -> Callable[[], bytes]:
    def content() -> bytes:
        file = io.BytesIO()
        (np.savez_compressed if compressed else np.savez)(file, **samples(**change))
        return file.getvalue()

    return content


def sample_tensors() -> bytes:
    from safetensors.numpy import save

    return save(samples())


def sample_npy(name: str) -> Callable[[], bytes]:
    def content() -> bytes:
        file = io.BytesIO()
        np.save(file, samples()[name])
        return file.getvalue()

    return content


def csv(change: str = "") -> str:
    draw = np.random.default_rng(0)
    rows = [[*(f"{v:.3f}" for v in draw.random(6)), str(i % 3)] for i in range(45)]
    if change == "value":
        rows[5][2] = "0.5"
    text = "\n".join([",".join([*"abcdef", "label"]), *map(",".join, rows)]) + "\n"
    return text.replace("\n", "\r\n") if change == "ends" else text


FLAT = "from torch import nn\n\n\ndef net(classes, input_shape):\n    return nn.Sequential(nn.Flatten(), nn.Linear(6, classes))\n"


# Code


def code(name: str, before: Files, after: Files, changes: bool = True, **more: object) -> Row:
    return Row(name, {"laminar.toml": stack(), **before}, after, changes, **more)  # type: ignore[arg-type]


def edit(name: str, before: str, after: str, changes: bool = True) -> Row:
    """Of models.py alone."""
    return code(name, {"models.py": before}, {"models.py": after}, changes)


def same(name: str, before: str, after: str) -> Row:
    return edit(name, before, after, changes=False)


def reads(name: str, expression: str, four: Content, eight: Content, top: str = "", file: str = "w.txt", **more: object) -> Row:
    """A factory whose width is read from a file."""
    return code(name, {"models.py": model("int(w)", top, f"w = {expression}"), file: four}, {file: eight}, **more)  # type: ignore[arg-type]


def replaced(name: str, before: Files, after: Files, changes: bool = True, replace: str = '"models:head"') -> Row:
    base = {"laminar.toml": stack(after=HEAD.format(replace=replace)), **before}
    return Row(name, base, after, changes)


def function(name: str, body: str, before: Files, after: Files, changes: bool = True, settings: str = "", **more: object) -> Row:
    """A python: data function; `shift` of its body moves the samples."""
    text = "import numpy as np\n\n\ndef rows(**args):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    text += (
        "    draw = np.random.default_rng(0)\n"
        "    return (draw.random((40, 1, 8, 8)) + int(shift) / 16).astype(np.float32), np.arange(40) % 4\n"
    )
    files = {"laminar.toml": stack(data=f'source = "python:mydata:rows"\n{settings}'), "models.py": model(), "mydata.py": text}
    return Row(name, files | before, after, changes, **more)  # type: ignore[arg-type]


HELPED = {"models.py": model("helpers.WIDTH", "import helpers")}
REGISTER = "R = {}\n\n\ndef register(f):\n    R[f.__name__] = f\n    return f\n"

CODE = [
    edit("a constant of the factory", model("4"), model("8")),
    edit("a global", model("W", "W = 4"), model("W", "W = 8")),
    code(
        "helper two imports away",
        {**HELPED, "helpers.py": "from deep import WIDTH\n", "deep.py": "WIDTH = 4\n"},
        {"deep.py": "WIDTH = 8\n"},
    ),
    code(
        "a base class elsewhere",
        {
            "models.py": model("Own.w", "from parts import Base\nclass Own(Base):\n    pass"),
            "parts.py": "class Base:\n    w = 4\n",
        },
        {"parts.py": "class Base:\n    w = 8\n"},
    ),
    edit("a default", model("w", parameters="classes, w=4"), model("w", parameters="classes, w=8")),
    edit("a patch on import", model("int.__doc__ and W[0]", "W = [4]"), model("int.__doc__ and W[0]", "W = [4]\nW[0] = 8")),
    edit("a class body with effects", model("W[0]", "W = [4]\nclass A:\n    pass"), model("W[0]", "W = [4]\nclass A:\n    W[0] = 8")),
    edit(
        "a class body that calls",
        model("W[0]", "W = []\nclass A:\n    x = W.append(4)"),
        model("W[0]", "W = []\nclass A:\n    x = W.append(8)"),
    ),
    edit(
        "a default with effects",
        model("W[0]", "W = [4]\ndef a(x=1):\n    pass"),
        model("W[0]", "W = [4]\ndef a(x=W.insert(0, 8)):\n    pass"),
    ),
    edit(
        "an annotation with effects",
        model("W[0]", "W = [4]\ndef a(x: int):\n    pass"),
        model("W[0]", "W = [4]\ndef a(x: W.insert(0, 8)):\n    pass"),
    ),
    edit(
        "order of what runs on import",
        model("W[-1]", "W = []\nW.append(8)\nW.append(4)"),
        model("W[-1]", "W = []\nW.append(4)\nW.append(8)"),
    ),
    edit(
        "order of two definitions",
        model("w()", "def w():\n    return 8\ndef w():\n    return 4"),
        model("w()", "def w():\n    return 4\ndef w():\n    return 8"),
    ),
    edit("order of two globals", model("W", "V = 4\nW = V\nV = 8"), model("W", "V = 4\nV = 8\nW = V")),
    code(
        "order of two imports",
        {
            "models.py": model("state.W", "import a\nimport b\nimport state"),
            "state.py": "W = 1\n",
            "a.py": "import state\nstate.W = 4\n",
            "b.py": "import state\nstate.W = 8\n",
        },
        {"models.py": model("state.W", "import b\nimport a\nimport state")},
    ),
    code("import *", {"models.py": model("WIDTH", "from helpers import *"), "helpers.py": "WIDTH = 4\n"}, {"helpers.py": "WIDTH = 8\n"}),
    code(
        "getattr of a module",
        {"models.py": model("getattr(helpers, 'wi' + 'de')()", "import helpers"), "helpers.py": "def wide():\n    return 4\n"},
        {"helpers.py": "def wide():\n    return 8\n"},
    ),
    code(
        "import_module, computed",
        {"models.py": model("import_module('he' + 'lpers').W", "from importlib import import_module"), "helpers.py": "W = 4\n"},
        {"helpers.py": "W = 8\n"},
        env={"PYTHONPATH": "."},
        cold=True,
    ),
    code(
        "import_module under another name",
        {"models.py": model("load('he' + 'lpers').W", "from importlib import import_module as load"), "helpers.py": "W = 4\n"},
        {"helpers.py": "W = 8\n"},
        env={"PYTHONPATH": "."},
        cold=True,
    ),
    code(
        "import_module in a variable",
        {"models.py": model("load('he' + 'lpers').W", "import importlib\nload = importlib.import_module"), "helpers.py": "W = 4\n"},
        {"helpers.py": "W = 8\n"},
    ),
    code(
        "__import__ under another name",
        {"models.py": model("load('he' + 'lpers').W", "import builtins\nload = getattr(builtins, '__import__')"), "helpers.py": "W = 4\n"},
        {"helpers.py": "W = 8\n"},
    ),
    *(
        code(
            f"spec_from_file_location, {where}",
            {
                "models.py": model(
                    "m.W",
                    "import importlib.util as u",
                    f"s = u.spec_from_file_location('x', '{path}')\nm = u.module_from_spec(s)\ns.loader.exec_module(m)",
                ),
                path: "W = 4\n",
            },
            {path: "W = 8\n"},
        )
        for where, path in (("inside", "plugin.py"), ("outside", "../outside/plugin.py"))
    ),
    *(
        code(f"{what} of {where}", {"models.py": model("w", "import runpy", f"{line}\nw = d['W']"), path: "W = 4\n"}, {path: "W = 8\n"})
        for where, path in (("a file inside", "plugin.py"), ("a file outside", "../outside/plugin.txt"))
        for what, line in (
            ("exec", f"d = {{}}\nexec(open('{path}').read(), d)"),
            ("runpy", f"d = runpy.run_path('{path}')"),
        )
    ),
    code(
        "a plug-in that is new",
        {
            "models.py": model(
                "len(R)", "from pathlib import Path\nR = [1]\nfor f in sorted(Path('plugins').glob('*.txt')):\n    exec(f.read_text())"
            ),
            "plugins/a.txt": "R.append(1)\n",
        },
        {"plugins/b.txt": "R.append(1)\n"},
    ),
    code(
        "a src layout",
        {"models.py": model("own.W", "import own"), "src/own/__init__.py": "from own.deep import W\n", "src/own/deep.py": "W = 4\n"},
        {"src/own/deep.py": "W = 8\n"},
        env={"PYTHONPATH": "src"},
        cold=True,
    ),
    code(
        "a package on PYTHONPATH",
        {"models.py": model("f()", "from own import f"), "../lib/own.py": "def f():\n    return 4\n"},
        {"../lib/own.py": "def f():\n    return 8\n"},
        env={"PYTHONPATH": "../lib"},
        cold=True,
    ),
    code(
        "an editable package (.pth)",
        {
            "models.py": model("f()", "from own import f"),
            "../boot/sitecustomize.py": "import os, site\nsite.addsitedir(os.path.join(os.path.dirname(__file__), 'site'))\n",
            "../boot/site/own.pth": "../../lab\n",
            "../boot/site/own-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: own\nVersion: 1.0\n",
            "../boot/site/own-1.0.dist-info/direct_url.json": '{"dir_info": {"editable": true}, "url": "lab"}',
            "../lab/own/__init__.py": "from .deep import f\n",
            "../lab/own/deep.py": "def f():\n    return 4\n",
        },
        {"../lab/own/deep.py": "def f():\n    return 8\n"},
        env={"PYTHONPATH": "../boot"},
        cold=True,
    ),
    code(
        "an editable package (finder)",
        {
            "models.py": model("f()", "from own import f"),
            "../boot/sitecustomize.py": "import os, site\nsite.addsitedir(os.path.join(os.path.dirname(__file__), 'site'))\n",
            "../boot/site/own.pth": "import __editable___own_finder as f; f.install()\n",
            "../boot/site/own-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: own\nVersion: 1.0\n",
            "../boot/site/own-1.0.dist-info/direct_url.json": '{"dir_info": {"editable": true}, "url": "lab"}',
            "../boot/site/__editable___own_finder.py": (
                "import os, sys\nfrom importlib.util import spec_from_file_location\n"
                "P = os.path.abspath(os.path.join(os.path.dirname(__file__), '../../lab/own/__init__.py'))\n\n\n"
                "class _EditableFinder:\n    @classmethod\n    def find_spec(cls, name, path=None, target=None):\n"
                "        inside = [os.path.dirname(P)]\n"
                "        return spec_from_file_location(name, P, submodule_search_locations=inside) if name == 'own' else None\n"
                "\n\ndef install():\n    sys.meta_path.append(_EditableFinder)\n"
            ),
            "../lab/own/__init__.py": "from .deep import f\n",
            "../lab/own/deep.py": "def f():\n    return 4\n",
        },
        {"../lab/own/deep.py": "def f():\n    return 8\n"},
        env={"PYTHONPATH": "../boot"},
        cold=True,
    ),
    code(
        "an import inside a function",
        {"models.py": model("W", body="from helpers import W"), "helpers.py": "W = 4\n"},
        {"helpers.py": "W = 8\n"},
    ),
    code(
        "an import inside try",
        {"models.py": model("W", "try:\n    from helpers import W\nexcept ImportError:\n    W = 2"), "helpers.py": "W = 4\n"},
        {"helpers.py": "W = 8\n"},
    ),
    code(
        "a module that appears",
        {"models.py": model("W", "try:\n    from helpers import W\nexcept ImportError:\n    W = 4")},
        {"helpers.py": "W = 8\n"},
    ),
    edit(
        "a partial",
        model("w()", "from functools import partial\nw = partial(int, 4)"),
        model("w()", "from functools import partial\nw = partial(int, 8)"),
    ),
    edit("a table of functions", model("T['w']()", "T = {'w': lambda: 4}"), model("T['w']()", "T = {'w': lambda: 8}")),
    edit(
        "a made function",
        model("w()", "def make(n):\n    return lambda: n\nw = make(4)"),
        model("w()", "def make(n):\n    return lambda: n\nw = make(8)"),
    ),
    code(
        "a decorator that registers",
        {
            "models.py": model("R['w']()", "from reg import R\nimport more"),
            "reg.py": REGISTER,
            "more.py": "from reg import register\n\n\n@register\ndef w():\n    return 4\n",
        },
        {"more.py": "from reg import register\n\n\n@register\ndef w():\n    return 8\n"},
    ),
    code(
        "a decorator's body",
        {
            "models.py": model("w()", "from deco import add\n@add\ndef w():\n    return 4"),
            "deco.py": "def add(f):\n    return lambda: f() + 0\n",
        },
        {"deco.py": "def add(f):\n    return lambda: f() + 4\n"},
    ),
    code(
        "a subclass that registers itself",
        {
            "models.py": model("Base.w", "from base import Base\nimport more"),
            "base.py": "class Base:\n    w = 0\n    def __init_subclass__(cls, w):\n        Base.w = w\n",
            "more.py": "from base import Base\n\n\nclass A(Base, w=4):\n    pass\n",
        },
        {"more.py": "from base import Base\n\n\nclass A(Base, w=8):\n    pass\n"},
    ),
    edit(
        "annotations that are read",
        model("len(C.__annotations__)", "class C:\n    a: int\n    b: int"),
        model("len(C.__annotations__)", "class C:\n    a: int\n    b: int\n    c: int"),
    ),
    edit(
        "annotations of a function that are read",
        model("c.__annotations__['x']", "def c(x: 4):\n    pass"),
        model("c.__annotations__['x']", "def c(x: 8):\n    pass"),
    ),
    edit(
        "annotations of a dataclass",
        model(
            "C().w",
            "from dataclasses import dataclass, fields\nfrom typing import ClassVar\n@dataclass\nclass C:\n    v: int = 4\n    w: int = 4",
        ),
        model(
            "C(8).w if len(fields(C)) > 1 else C().w * 2",
            "from dataclasses import dataclass, fields\nfrom typing import ClassVar\n"
            "@dataclass\nclass C:\n    v: int = 4\n    w: ClassVar[int] = 4",
        ),
    ),
    edit("an assert with an effect", model("w[-1]", body="w = [8, 4]\nassert w"), model("w[-1]", body="w = [8, 4]\nassert w.pop()")),
    edit("a print with an effect", model("w[-1]", body="w = [8, 4]\nprint(w)"), model("w[-1]", body="w = [8, 4]\nprint(w.pop())")),
    edit("a walrus in an assert", model("w", body="w = 4\nassert w"), model("w", body="w = 4\nassert (w := 8)")),
    edit("a local that hides a global", model("W + v", "W = 4", "v = 0"), model("W + v", "W = 4", "v = 0\nW = 8")),
    edit("locals that are looked up by name", model("locals()['a']", body="a = 4\nb = 8"), model("locals()['a']", body="b = 4\na = 8")),
    edit(
        "names of attributes that are kept in the graph",
        forward("y = self.first(x.flatten(1)).relu()"),
        forward("y = self.first(x.flatten(1)).tanh()"),
    ),
    edit(
        "another function of the same name",
        model("min(4, 8)"),
        model("min(4, 8)", "def min(a, b):\n    return b"),
    ),
    code(
        "another module of the same name",
        {"models.py": model("len(string.digits)", "import string")},
        {"string.py": "digits = '1234'\n"},
    ),
    code(
        "the other of two modules",
        {"models.py": model("W", "from a import W"), "a.py": "W = 4\n", "b.py": "W = 8\n"},
        {"models.py": model("W", "from b import W")},
    ),
    edit(
        "what an import means",
        model("len(f('a/b'))", "from posixpath import dirname as f"),
        model("len(f('a/b')) + 1", "from posixpath import basename as f"),
    ),
    replaced(
        "the factory of a replaced module",
        {"models.py": model(last="\n\ndef head(old, classes):\n    return nn.Linear(4, classes)\n")},
        {"models.py": model(last="\n\ndef head(old, classes):\n    return nn.Linear(4, classes, bias=False)\n")},
    ),
]

ONE = "json.load(open('{path}'))['w']"
FILES = [
    reads("open", "open('w.txt').read()", "4", "8"),
    reads("open, outside of the project", "open('../outside/w.txt').read()", "4", "8", file="../outside/w.txt"),
    reads("Path.read_text", "Path('w.txt').read_text()", "4", "8", "from pathlib import Path"),
    reads("json", ONE.format(path="w.json"), '{"w": 4}', '{"w": 8}', "import json", "w.json"),
    reads("os.open", "os.read(os.open('w.txt', os.O_RDONLY), 9)", "4", "8", "import os"),
    reads("io.FileIO", "io.FileIO('w.txt').read()", "4", "8", "import io"),
    reads("codecs", "codecs.open('w.txt').read()", "4", "8", "import codecs"),
    reads("linecache", "linecache.getline('w.txt', 1)", "4", "8", "import linecache"),
    reads("gzip and zip", "zipfile.ZipFile('w.zip').read('w.txt')", zipped(4), zipped(8), "import zipfile", "w.zip"),
    reads(
        "importlib.resources",
        "files('res').joinpath('w.txt').read_text()",
        "4",
        "8",
        "from importlib.resources import files",
        "../lib/res/w.txt",
        env={"PYTHONPATH": "../lib"},
        cold=True,
    ),
    reads("mmap", "mmap.mmap(os.open('w.txt', os.O_RDONLY), 0, access=mmap.ACCESS_READ)[:]", "4", "8", "import mmap, os"),
    reads("numpy.load", "np.load('w.npy')[0]", npy(4), npy(8), "import numpy as np", "w.npy"),
    reads("numpy.fromfile", "np.fromfile('w.raw', dtype=np.int64)[0]", raw(4), raw(8), "import numpy as np", "w.raw"),
    reads("numpy.memmap", "np.memmap('w.raw', dtype=np.int64, mode='r')[0]", raw(4), raw(8), "import numpy as np", "w.raw"),
    reads("numpy.loadtxt", "np.loadtxt('w.txt')", "4", "8", "import numpy as np"),
    reads("torch.load", "torch.load('w.pt')['w'][0]", pickled(4), pickled(8), "import torch", "w.pt"),
    reads("torch.load, mapped", "torch.load('w.pt', mmap=True)['w'][0]", pickled(4), pickled(8), "import torch", "w.pt"),
    reads("torch.from_file", "torch.from_file('w.raw', size=1, dtype=torch.int64)[0]", raw(4), raw(8), "import torch", "w.raw"),
    reads(
        "safetensors.torch",
        "load_file('w.safetensors')['w'][0]",
        tensors(4),
        tensors(8),
        "from safetensors.torch import load_file",
        "w.safetensors",
    ),
    reads(
        "safetensors.numpy",
        "load_file('w.safetensors')['w'][0]",
        tensors(4),
        tensors(8),
        "from safetensors.numpy import load_file",
        "w.safetensors",
    ),
    reads(
        "safe_open",
        "safe_open('w.safetensors', 'pt').get_tensor('w')[0]",
        tensors(4),
        tensors(8),
        "from safetensors import safe_open",
        "w.safetensors",
    ),
    reads(
        "safetensors, outside",
        "load_file('../outside/w')['w'][0]",
        tensors(4),
        tensors(8),
        "from safetensors.torch import load_file",
        "../outside/w",
    ),
    reads(
        "pyarrow.parquet", "pq.read_table('w.parquet')['w'][0].as_py()", parquet(4), parquet(8), "import pyarrow.parquet as pq", "w.parquet"
    ),
    reads(
        "pyarrow.dataset",
        "ds.dataset('w.parquet').to_table()['w'][0].as_py()",
        parquet(4),
        parquet(8),
        "import pyarrow.dataset as ds",
        "w.parquet",
    ),
    reads(
        "pyarrow.memory_map",
        "pa.ipc.open_file(pa.memory_map('w.arrow')).read_all()['w'][0].as_py()",
        arrow(4),
        arrow(8),
        "import pyarrow as pa",
        "w.arrow",
    ),
    reads("pyarrow.csv", "csv.read_csv('w.csv')['w'][0].as_py()", "w\n4\n", "w\n8\n", "from pyarrow import csv", "w.csv"),
    reads("PIL", "Image.open('w.png').size[0]", picture(4), picture(8), "from PIL import Image", "w.png"),
    reads(
        "sqlite3", "sqlite3.connect('w.db').execute('select w from t').fetchone()[0]", database(4), database(8), "import sqlite3", "w.db"
    ),
    code(
        "a folder that is listed",
        {"models.py": model("w", "import os", "w = 4 + len(os.listdir('parts'))"), "parts/a": ""},
        {"parts/b": ""},
    ),
    code(
        "a tree that is walked",
        {"models.py": model("w", "from pathlib import Path", "w = 4 + len([*Path('parts').rglob('*.x')])"), "parts/a/a.x": ""},
        {"parts/a/b.x": ""},
    ),
    code("a file that is asked for", {"models.py": model("w", "import os", "w = 8 if os.path.exists('flag') else 4")}, {"flag": ""}),
    code(
        "a file that is asked for by Path",
        {"models.py": model("w", "from pathlib import Path", "w = 8 if Path('flag').is_file() else 4")},
        {"flag": ""},
    ),
    code("a file's size", {"models.py": model("w", "import os", "w = os.path.getsize('w.txt')"), "w.txt": "four"}, {"w.txt": "eight ch"}),
    code(
        "a file that is tried",
        {"models.py": model("w", body="try:\n    w = int(open('w.txt').read())\nexcept OSError:\n    w = 4")},
        {"w.txt": "8"},
    ),
    code("a file read on import", {"models.py": model("W", "W = int(open('w.txt').read())"), "w.txt": "4"}, {"w.txt": "8"}),
    code(
        "a file read on import of a helper",
        {**HELPED, "helpers.py": "import json\nWIDTH = json.load(open('w.json'))\n", "w.json": "4"},
        {"w.json": "8"},
    ),
    code(
        "a file that names another",
        {"models.py": model("int(w)", body="w = open(open('which').read()).read()"), "which": "a", "a": "4", "b": "8"},
        {"which": "b"},
    ),
    code(
        "the file that a file names",
        {"models.py": model("int(w)", body="w = open(open('which').read()).read()"), "which": "a", "a": "4"},
        {"a": "8"},
    ),
    code(
        "a file read in forward",
        {"models.py": forward("y = self.first(x.flatten(1)).relu() * float(open('scale').read())"), "scale": "1"},
        {"scale": "2"},
    ),
    replaced(
        "a file read by the factory of a replaced module",
        {
            "models.py": model(last="\n\ndef head(old, classes):\n    return nn.Linear(4, classes, bias=open('bias').read() == 'yes')\n"),
            "bias": "yes",
        },
        {"bias": "no"},
    ),
    replaced(
        "a file read on import, with the layer below reused",
        {
            "models.py": model(
                top="BIAS = open('bias').read() == 'yes'", last="\n\ndef head(old, classes):\n    return nn.Linear(4, classes, bias=BIAS)\n"
            ),
            "bias": "yes",
        },
        {"bias": "no"},
    ),
    code(
        "read by another program, and declared",
        {
            "laminar.toml": stack('reads = ["w.txt"]'),
            "models.py": model("int(w)", "import subprocess", "w = subprocess.run(['cat', 'w.txt'], capture_output=True).stdout"),
            "w.txt": "4",
        },
        {"w.txt": "8"},
    ),
    code(
        "read by another program, not declared",
        {
            "models.py": model("int(w)", "import subprocess", "w = subprocess.run(['cat', 'w.txt'], capture_output=True).stdout"),
            "w.txt": "4",
        },
        {"w.txt": "8"},
        warns=True,
    ),
    code(
        "read by C, and declared by a pattern",
        {
            "laminar.toml": stack('reads = ["parts/*.txt"]'),
            "models.py": model(
                "w",
                "import ctypes",
                "c = ctypes.CDLL(None)\nc.fopen.restype = ctypes.c_void_p\nf = c.fopen(b'parts/b.txt', b'r')\n"
                "w = c.fgetc(ctypes.c_void_p(f)) - 48 if f else 4",
            ),
            "parts/a.txt": "4",
        },
        {"parts/b.txt": "8"},
    ),
    code("a file of another reader's", {"models.py": model(), "w.txt": "4"}, {"w.txt": "8"}, changes=False),
    code(
        "a file that is written again as it was",
        {"models.py": model("int(open('w.txt').read())"), "w.txt": "4"},
        {"w.txt": "4"},
        changes=False,
    ),
    code("a log that the factory writes", {"models.py": model("4", body="print('made', file=open('made.log', 'a'))")}, {}, changes=False),
    code(
        "another file than the one that is read",
        {"models.py": model("int(open('w.txt').read())"), "w.txt": "4", "README": "a"},
        {"README": "b"},
        changes=False,
    ),
]

SHIFT = "shift = {}"
DATA = [
    function("a data function that opens", SHIFT.format("open('s.txt').read()"), {"s.txt": "0"}, {"s.txt": "8"}),
    function(
        "a data function that reads safetensors",
        "from safetensors.numpy import load_file\nshift = load_file('s')['w'][0]",
        {"s": tensors(0)},
        {"s": tensors(8)},
    ),
    function(
        "a data function that reads parquet",
        "import pyarrow.parquet as pq\nshift = pq.read_table('s.parquet')['w'][0].as_py()",
        {"s.parquet": parquet(0)},
        {"s.parquet": parquet(8)},
    ),
    function("a data function that maps", "shift = np.memmap('s', dtype=np.int64, mode='r')[0]", {"s": raw(0)}, {"s": raw(8)}),
    function(
        "a data function that reads outside", SHIFT.format("open('../outside/s').read()"), {"../outside/s": "0"}, {"../outside/s": "8"}
    ),
    function("a data function that lists", "import os\nshift = len(os.listdir('parts'))", {"parts/a": ""}, {"parts/b": ""}),
    function("a data function that asks for a file", "import os\nshift = os.path.exists('flag')", {}, {"flag": ""}),
    function(
        "a data function that reads on import",
        SHIFT.format("S"),
        {
            "mydata.py": (
                "import numpy as np\nS = int(open('s').read())\ndef rows():\n    x = np.random.default_rng(0).random((40, 1, 8, 8))\n"
                "    return (x + S / 16).astype(np.float32), np.arange(40) % 4\n"
            ),
            "s": "0",
        },
        {"s": "8"},
    ),
    function(
        "a data function that reads the environment",
        "import os\nshift = os.environ['SHIFT']",
        {},
        {},
        env={"SHIFT": "0"},
        env_after={"SHIFT": "8"},
    ),
    function("a data function with a helper", "import helpers\nshift = helpers.S", {"helpers.py": "S = 0\n"}, {"helpers.py": "S = 8\n"}),
    function(
        "a data function with a package",
        "import own\nshift = own.S",
        {"../lib/own.py": "S = 0\n"},
        {"../lib/own.py": "S = 8\n"},
        env={"PYTHONPATH": "../lib"},
        cold=True,
    ),
    function(
        "a data function whose library is new",
        "import toy\nshift = toy.S",
        {
            "../lib/toy.py": "S = 0\n",
            "../lib/toy-1.0.dist-info/METADATA": "Name: toy\nVersion: 1.0\n",
            "../lib/toy-1.0.dist-info/top_level.txt": "toy\n",
        },
        {
            "../lib/toy.py": "S = 8\n",
            "../lib/toy-1.0.dist-info/METADATA": None,
            "../lib/toy-1.0.dist-info/top_level.txt": None,
            "../lib/toy-1.1.dist-info/METADATA": "Name: toy\nVersion: 1.1\n",
            "../lib/toy-1.1.dist-info/top_level.txt": "toy\n",
        },
        env={"PYTHONPATH": "../lib"},
        cold=True,
    ),
    function(
        "a data function and what it is given",
        "shift = args['s']",
        {},
        {"laminar.toml": stack(data='source = "python:mydata:rows"\nargs = { s = 8 }')},
        settings="args = { s = 0 }",
    ),
    function(
        "order of a data function's arguments",
        "shift = 8 if list(args) == ['b', 'a'] else 0",
        {},
        {"laminar.toml": stack(data='source = "python:mydata:rows"\nargs = { b = 1, a = 1 }')},
        settings="args = { a = 1, b = 1 }",
    ),
    function(
        "read by another program, declared by data",
        "import subprocess\nshift = subprocess.run(['cat', 's'], capture_output=True).stdout",
        {"s": "0"},
        {"s": "8"},
        settings='reads = ["s"]',
    ),
    function(
        "a variable declared by data",
        "import subprocess\nshift = subprocess.run('echo $SHIFT', shell=True, capture_output=True).stdout",
        {},
        {},
        settings='env = ["SHIFT"]',
        env={"SHIFT": "0"},
        env_after={"SHIFT": "8"},
    ),
    function(
        "a data function written otherwise",
        "shift = 0",
        {},
        {
            "mydata.py": (
                "import numpy\n\n\ndef rows(**args):\n    # the same\n    draw = numpy.random.default_rng(0)\n"
                "    return draw.random((40, 1, 8, 8)).astype('float32'), numpy.arange(40) % 4\n"
            )
        },
        changes=False,
    ),
    *(
        Row(
            f"npz: {name}",
            {"laminar.toml": stack(data='source = "npz:d.npz"'), "models.py": model(), "d.npz": npz()},
            {"d.npz": npz(**how)},
            changes,
        )
        for name, how, changes in (
            ("a pixel", {"one": True}, True),
            ("a label", {"relabel": True}, True),
            ("the order", {"flip": True}, True),
            ("compressed", {"compressed": True}, False),
        )
    ),
    *(
        Row(
            f"the same arrays in {name}",
            {"laminar.toml": stack(data='source = "npz:d.npz"'), "models.py": model(), "d.npz": npz()},
            {"laminar.toml": stack(data=f'source = "{source}"'), **files},
            False,
        )
        for name, source, files in (
            ("safetensors", "safetensors:d.safetensors", {"d.safetensors": sample_tensors}),
            ("npy", "npy:x.npy,y.npy", {"x.npy": sample_npy("x"), "y.npy": sample_npy("y")}),
            (
                "a function",
                "python:mydata:rows",
                {"mydata.py": "import numpy as np\n\n\ndef rows():\n    d = np.load('d.npz')\n    return d['x'], d['y']\n"},
            ),
            ("another file", "npz:e.npz", {"e.npz": npz()}),
        )
    ),
    *(
        Row(
            f"csv: {name}",
            {"laminar.toml": stack(data='source = "csv:d.csv"'), "models.py": FLAT, "d.csv": csv()},
            {"d.csv": csv(how)},
            changes,
        )
        for name, how, changes in (("a value", "value", True), ("other line ends", "ends", False))
    ),
    *(
        Row(
            f"data: {name}",
            {"laminar.toml": stack(), "models.py": model()},
            {"laminar.toml": stack(data='source = "digits"\n' + settings)},
            changes,
        )
        for name, settings, changes in (
            ("limit", "limit = 48", True),
            ("split", "limit = 40\nsplit = { seed = 1 }", True),
            ("classes", "limit = 40\nclasses = [1, 0, 2, 3, 4, 5, 6, 7, 8, 9]", True),
            ("a default written down", "limit = 40\nsplit = { test = 0.2 }", False),
        )
    ),
]

ENV = [
    *(
        code(
            f"environment: {name}",
            {"models.py": model("int(w)", "import os\nfrom os import environ, getenv", f"w = {line}")},
            {},
            env={"WIDE": "4"},
            env_after={"WIDE": "8"},
        )
        for name, line in (
            ("os.environ[]", "os.environ['WIDE']"),
            ("os.getenv", "os.getenv('WIDE', '2')"),
            ("a name of it", "environ.get('WIDE')"),
            ("expandvars", "os.path.expandvars('$WIDE')"),
            ("bytes", "os.environb[b'WIDE']"),
        )
    ),
    code(
        "environment: all of it",
        {"models.py": model("int(w)", "import os", "w = dict(os.environ)['WIDE']")},
        {},
        env={"WIDE": "4"},
        env_after={"WIDE": "8"},
        warns=True,
    ),
    code("environment: is it there", {"models.py": model("8 if 'WIDE' in os.environ else 4", "import os")}, {}, env_after={"WIDE": "1"}),
    code("environment: on import", {"models.py": model("W", "import os\nW = int(os.environ.get('WIDE', 4))")}, {}, env_after={"WIDE": "8"}),
    code(
        "environment: of a helper",
        {**HELPED, "helpers.py": "import os\nWIDTH = int(os.environ['WIDE'])\n"},
        {},
        env={"WIDE": "4"},
        env_after={"WIDE": "8"},
    ),
    code(
        "environment: of an own package",
        {"models.py": model("own.W", "import own"), "../lib/own.py": "import os\nW = int(os.environ['WIDE'])\n"},
        {},
        env={"WIDE": "4", "PYTHONPATH": "../lib"},
        env_after={"WIDE": "8", "PYTHONPATH": "../lib"},
        cold=True,
    ),
    code(
        "environment: in forward",
        {"models.py": forward("y = self.first(x.flatten(1)).relu() * float(os.environ['WIDE'])", top="import os")},
        {},
        env={"WIDE": "1"},
        env_after={"WIDE": "2"},
    ),
    code(
        "environment: declared",
        {
            "laminar.toml": stack('env = ["WIDE"]'),
            "models.py": model(
                "int(w)", "import ctypes", "c = ctypes.CDLL(None)\nc.getenv.restype = ctypes.c_char_p\nw = c.getenv(b'WIDE')"
            ),
        },
        {},
        env={"WIDE": "4"},
        env_after={"WIDE": "8"},
        cold=True,
    ),
    code(
        "environment: another variable",
        {"models.py": model("int(os.environ['WIDE'])", "import os")},
        {},
        False,
        env={"WIDE": "4"},
        env_after={"WIDE": "4", "OTHER": "8"},
    ),
    code(
        "environment: read by a library",
        {"models.py": model(top="import tqdm, os")},
        {},
        False,
        env_after={"TQDM_DISABLE": "1", "OMP_WAIT_POLICY": "passive"},
    ),
]


def toy(version: str, width: int, name: str = "toy", module: str = "toy") -> dict[str, Content]:
    return {
        f"../lib/{module}/__init__.py": f"W = {width}\n",
        f"../lib/{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"../lib/{name}-{version}.dist-info/RECORD": f"{module}/__init__.py,,\n{name}-{version}.dist-info/METADATA,,\n",
    }


def upgraded(
    name: str, old: str, new: str, widths: tuple[int, int], policy: str = "minor", changes: bool = True, module: str = "toy"
) -> Row:
    distribution = "toy" if module == "toy" else "some_tools"
    before, after = toy(old, widths[0], distribution, module), toy(new, widths[1], distribution, module)
    base = {
        "laminar.toml": stack(more=f'environment = "{policy}"'),
        "models.py": model(f"{module}.W", f"import {module}"),
    }
    return Row(name, base | before, dict.fromkeys(before) | after, changes, env={"PYTHONPATH": "../lib"}, cold=True)


PACKAGES = [
    upgraded("a library's minor version", "1.0.0", "1.1.0", (4, 8)),
    upgraded("a library's patch, strict", "1.0.0", "1.0.1", (4, 8), "strict"),
    upgraded("a library's patch that changes nothing", "1.0.0", "1.0.1", (4, 4), changes=False),
    upgraded("a library whose module has another name", "1.0.0", "2.0.0", (4, 8), module="toys"),
    upgraded("a library's minor version, ignored", "1.0.0", "1.1.0", (4, 4), "ignore", changes=False),
    code(
        "a module that belongs to no distribution",
        {
            "models.py": model("loose.W", "import loose"),
            "../lib/loose.py": "W = 4\n",
            "../lib/x-1.dist-info/METADATA": "Name: x\nVersion: 1\n",
        },
        {"../lib/loose.py": "W = 8\n"},
        env={"PYTHONPATH": "../lib"},
        cold=True,
    ),
    code(
        "a library that nobody imports",
        {"models.py": model(), **toy("1.0", 4)},
        dict.fromkeys(toy("1.0", 4)) | toy("2.0", 8),
        False,
        env={"PYTHONPATH": "../lib"},
        cold=True,
    ),
    code(
        "a library of a helper inside a function",
        {**HELPED, "helpers.py": "def w():\n    from toy import W\n    return W\n\n\nWIDTH = w()\n", **toy("1.0", 4)},
        dict.fromkeys(toy("1.0", 4)) | toy("1.1", 8),
        env={"PYTHONPATH": "../lib"},
        cold=True,
    ),
]

TABLE = "nn.Sequential(nn.Flatten(), *[nn.Linear(64, 64) if n == 'linear' else nn.ReLU() for n in {}], nn.Linear(64, classes))"


def table_of(expression: str, parameters: str) -> str:
    return f"from torch import nn\n\n\ndef net({parameters}):\n    return {TABLE.format(expression)}\n"


def arguments(name: str, text: str, before: str, after: str, changes: bool) -> Row:
    return Row(name, {"laminar.toml": stack(before), "models.py": text}, {"laminar.toml": stack(after)}, changes)


ARGS = [
    arguments(
        "order of a table in args",
        table_of("parts", "parts, classes"),
        "args.parts = { linear = 1, relu = 1 }",
        "args.parts = { relu = 1, linear = 1 }",
        True,
    ),
    arguments(
        "order of args that the factory sees",
        table_of("parts", "classes, **parts"),
        "args = { linear = 1, relu = 1 }",
        "args = { relu = 1, linear = 1 }",
        True,
    ),
    arguments(
        "order of tables in a list",
        table_of("parts[0]", "parts, classes"),
        "args.parts = [{ linear = 1, relu = 1 }]",
        "args.parts = [{ relu = 1, linear = 1 }]",
        True,
    ),
    arguments(
        "order of args that the factory does not see",
        model("a + b", parameters="a, b, classes"),
        "args = { a = 1, b = 3 }",
        "args = { b = 3, a = 1 }",
        False,
    ),
    arguments("an argument", model("a", parameters="a, classes"), "args = { a = 4 }", "args = { a = 8 }", True),
    arguments("the same number", model("int(a * 1000)", parameters="a, classes"), "args = { a = 0.004 }", "args = { a = 4e-3 }", False),
    arguments("the same table otherwise", model("a['b']", parameters="a, classes"), "args = { a = { b = 4 } }", "args.a.b = 4", False),
    arguments(
        "a whole number with a point",
        model("4 if isinstance(a, int) else 8", parameters="a, classes"),
        "args = { a = 4 }",
        "args = { a = 4.0 }",
        True,
    ),
    replaced(
        "order of a table of a replaced module",
        {
            "models.py": model(
                last="\n\ndef head(old, classes, parts):\n"
                "    made = [nn.Linear(4, 4) if n == 'linear' else nn.ReLU() for n in parts]\n"
                "    return nn.Sequential(*made, nn.Linear(4, classes))\n"
            )
        },
        {"laminar.toml": stack(after=HEAD.format(replace='{ model = "models:head", args.parts = { relu = 1, linear = 1 } }'))},
        replace='{ model = "models:head", args.parts = { linear = 1, relu = 1 } }',
    ),
    Row(
        "the name of the layer", {"laminar.toml": stack(), "models.py": model()}, {"laminar.toml": stack().replace('"one"', '"uno"')}, False
    ),
    Row(
        "a default of the recipe",
        {"laminar.toml": stack(), "models.py": model()},
        {"laminar.toml": stack().replace("seed = 0", 'seed = 0, lr = 1e-3, optimizer = "adam"')},
        False,
    ),
    Row("the seed", {"laminar.toml": stack(), "models.py": model()}, {"laminar.toml": stack().replace("seed = 0", "seed = 1")}, True),
]

LEAKS = [
    Row(
        f"a leak: {name}",
        {"laminar.toml": stack(after=SECOND), "models.py": top + body.format(4)},
        {"models.py": top + body.format(8)},
        False,
    )
    for top, name, body in (
        (
            "import os\nimport torch\nfrom torch import nn\n\nSTATE = {'w': 2}\n\n\n"
            + "def second(classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, "
            + what
            + "), nn.Linear("
            + what
            + ", classes))\n\n\n",
            name,
            "def net(classes):\n    " + effect + "\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, {0}), nn.Linear({0}, classes))\n",
        )
        for name, what, effect in (
            ("a global of the module", "STATE['w']", "STATE['w'] = {0}"),
            ("the environment", "int(os.environ.get('LEAK', 2))", "os.environ['LEAK'] = '{0}'"),
            ("a class of torch", "getattr(nn.ReLU, 'leak', 2)", "nn.ReLU.leak = {0}"),
            (
                "a setting of torch",
                "len(torch.get_float32_matmul_precision())",
                "torch.set_float32_matmul_precision('high' if {0} == 4 else 'medium')",
            ),
            ("a function of torch", "len(torch.typename(2))", "torch.typename = lambda x: 'a' * {0}"),
        )
    )
]

HARMLESS = [
    same("a comment", model(), "# A comment.\n" + model().replace("return", "# why\n    return")),
    same("a docstring", model(body="'A model.'"), model(body="'Another word.'")),
    same("layout", model(), model().replace("nn.Flatten(), ", "\n        nn.Flatten(),\n        ").replace("'", '"')),
    same(
        "annotations",
        model("w", "def w_of(n):\n    return n", "w = w_of(4)"),
        model("w", "def w_of(n: int) -> int:\n    return n", "w: int = w_of(4)", parameters="classes: int"),
    ),
    same("a renamed local", model("w", body="w = 2\nw = w * 2"), model("wide", body="wide = 2\nwide = wide * 2")),
    same(
        "a renamed loop variable",
        model("w", body="w = 0\nfor i in range(4):\n    w += 1"),
        model("w", body="w = 0\nfor step in range(4):\n    w += 1"),
    ),
    same(
        "a renamed variable of a comprehension",
        model("w", body="w = sum(i for i in [1, 3])"),
        model("w", body="w = sum(part for part in [1, 3])"),
    ),
    same("an assert", model(), model(body="assert classes > 0")),
    same("an assert in forward", forward(*PLAIN_FORWARD), forward("assert x.dim() == 4 and x.shape[1] == 1, 'an image'", *PLAIN_FORWARD)),
    same("a print", model(), model(body="print('making a model of', classes)")),
    same("a print in forward", forward(*PLAIN_FORWARD), forward("print(x.shape)", *PLAIN_FORWARD)),
    same(
        "logging", model(), model(top="import logging\n\nlogger = logging.getLogger(__name__)", body="logger.info('classes: %d', classes)")
    ),
    same("an unrelated function", model(), model(last="\n\ndef plot(history):\n    return history\n")),
    same(
        "an unrelated function with a decorator",
        model(),
        model(top="import functools", last="\n\n@functools.lru_cache\ndef plot(n):\n    return n\n"),
    ),
    same(
        "an unrelated dataclass",
        model(),
        model(
            top="from dataclasses import dataclass, field",
            last="\n\n@dataclass(frozen=True)\nclass Options:\n    n: int = 3\n    more: list = field(default_factory=list)\n",
        ),
    ),
    same("an unrelated class", model(), model(last="\n\nclass Plot:\n    size = 3\n\n    def draw(self):\n        return self.size\n")),
    same(
        "an unrelated module of torch",
        model(),
        model(last="\n\nclass Block(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.act = nn.ReLU()\n"),
    ),
    same("an unrelated constant", model(), model(top="EPOCHS = 3")),
    same("another spelling of an import", model(), model().replace("from torch import nn", "import torch.nn as nn")),
    same("names instead of modules", model(), model().replace("from torch import nn", "import torch").replace("nn.", "torch.nn.")),
    same(
        "names of their own",
        model(),
        model().replace("from torch import nn", "from torch.nn import Flatten, Linear, ReLU, Sequential").replace("nn.", ""),
    ),
    code(
        "another spelling of the project's import",
        {**HELPED, "helpers.py": "WIDTH = 4\n"},
        {"models.py": model("WIDTH", "from helpers import WIDTH")},
        False,
    ),
    same("an import that nobody uses", model(), model(top="import json")),
    same(
        "order of definitions",
        model("w()", "def v():\n    return 1\n\n\ndef w():\n    return 4"),
        model("w()", "def w():\n    return 4\n\n\ndef v():\n    return 1"),
    ),
    same("order of imports", model(top="import json\nimport os"), model(top="import os\nimport json")),
    same("a main block", model(), model(last="\n\nif __name__ == '__main__':\n    print(net(10))\n")),
    same(
        "imports for type checkers",
        model(),
        model(top="from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from collections.abc import Callable"),
    ),
    same("__all__", model(), model(top="__all__ = ['net']")),
    same("parentheses and number spelling", model("(2 + 2)"), model("2 + 0x2")),
    same("an elided pass", model(body="if classes:\n    pass"), model(body="if classes:\n    'nothing'")),
    code(
        "another file of the project",
        {"models.py": model(), "train.py": "x = 1\n", "README.md": "a\n"},
        {"train.py": "x = 2\n", "README.md": "b\n"},
        False,
    ),
    code(
        "a neighbour in a helper",
        {**HELPED, "helpers.py": "WIDTH = 4\n\n\ndef unused():\n    return 1\n"},
        {"helpers.py": "WIDTH = 4\n\n\ndef unused():\n    return 2\n"},
        False,
    ),
    Row("a comment in the stack file", {"laminar.toml": stack(), "models.py": model()}, {"laminar.toml": "# words\n" + stack()}, False),
    Row(
        "threads",
        {"laminar.toml": stack(), "models.py": model()},
        {"laminar.toml": stack().replace("threads = 1", "threads = 1, checkpoint_seconds = 5")},
        False,
    ),
]

ROWS: list[Row] = [*CODE, *FILES, *DATA, *ENV, *PACKAGES, *ARGS, *LEAKS, *HARMLESS]
assert len({row.name for row in ROWS}) == len(ROWS), "names tell rows apart"
