"""Init: a new project from a template that builds as it stands."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Final

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.stack.read import FILE

TEMPLATES: Final = ("digits", "fashion-mnist", "folder")
IGNORED = ".gitignore"


def init(folder: Path, template: str = "digits") -> list[Path]:
    """Write the template's files into `folder` (made if need be). Refuses to touch a file that is there."""
    if template not in TEMPLATES:
        raise LaminarError(
            "L008", f"there is no template '{template}'; {did_you_mean(template, TEMPLATES)}", hint="laminar init NAME --template digits"
        )
    if folder.is_file():
        raise LaminarError("L009", f"{folder} is a file", hint="choose another name")
    source = resources.files("laminar.stack").joinpath("templates", template)
    files = {
        item.name: item.read_text(encoding="utf-8")
        for item in source.iterdir()
        if item.is_file() and item.name.endswith((".toml", ".py", ".md"))
    }
    files[FILE] = files[FILE].replace("{name}", stack_name(folder))
    for name in files:
        if (folder / name).exists():
            raise LaminarError("L009", f"{folder / name} is there already", hint="choose another folder, or move that file away")
    written = []
    for name, text in sorted(files.items()):
        atomic.write_text(folder / name, text)
        written.append(folder / name)
    if template == "folder":
        written.append(_draw_images(folder / "images"))
    if not (folder / IGNORED).exists():
        atomic.write_text(folder / IGNORED, ".laminar/\n__pycache__/\n")
    return written


def stack_name(folder: Path) -> str:
    """A folder's name as a legal stack name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-._") or "stack"


def _draw_images(folder: Path) -> Path:
    """Something to learn from until the user's own images are there: glyphs of three shapes, as files."""
    from PIL import Image

    from laminar.data.open import open_data
    from laminar.data.spec import DataSpec

    shapes = open_data(DataSpec(source="glyphs", args={"count": 400, "size": 40, "domain": "shapes"}), folder.parent)
    assert shapes.classes is not None
    for i, (x, y) in enumerate(zip(shapes.train.x, shapes.train.y, strict=True)):
        name = shapes.classes[int(y)]
        (folder / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(x[0]).save(folder / name / f"{i:03d}.png")
    return folder
