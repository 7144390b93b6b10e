"""Reference pages: complete, and equal to what they describe. Links lead somewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from docs_console import DOCS, REPOSITORY, Session, blocks

from laminar.cli.verbs import VERBS
from laminar.core.errors import CATALOGUE
from laminar.data.sources import kinds
from laminar.data.spec import AugmentSpec, DataSpec, FragmentSpec, SampleSpec, SplitSpec
from laminar.stack.build import build
from laminar.stack.choose_strategy import with_strategy
from laminar.stack.read import read
from laminar.stack.specs import LayerSpec, ReplaceSpec, StackSpec, StackTable
from laminar.train.compression import AnyCompression, CompressSpec
from laminar.train.recipe import Recipe, Target
from laminar.train.schedules import Constant, Cosine, OneCycle, Step
from laminar.train.splitting import SplitStrategy
from laminar.train.strategies import BY_NAME, ManySpec, OuterNesterov, PlainAverage, Solo

PAGES = sorted([*DOCS.rglob("*.md"), *REPOSITORY.glob("*.md"), *(REPOSITORY / "examples").rglob("*.md")])
TABLES: dict[str, type[msgspec.Struct]] = {
    "[stack]": StackTable,
    "[data.NAME]": DataSpec,
    "split": SplitSpec,
    "augment": AugmentSpec,
    "fragment": FragmentSpec,
    "sample": SampleSpec,
    "[[layer]]": LayerSpec,
    "replace": ReplaceSpec,
    "train": Recipe,
    "strategy": ManySpec,
    "outer": OuterNesterov,
    "target": Target,
}
TABLES |= {name: spec for name, spec in BY_NAME.items() if spec is not Solo}
COMPRESSIONS: tuple[type[CompressSpec], ...] = typing.get_args(AnyCompression)
TABLES |= {str(spec.__struct_config__.tag): spec for spec in COMPRESSIONS if msgspec.structs.fields(spec)}


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def sections(name: str) -> dict[str, str]:
    """Heading (## to ####) -> the text below it."""
    parts = re.split(r"^#{2,4} (.+)$", text_of(name), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


# Generated pages


def test_generated_pages_are_what_the_generator_writes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.generate_docs", "--check"], cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_is_in_the_command_reference(verb: str, tmp_path: Path) -> None:
    section = sections("ref-cli.md")[f"laminar {verb}"]
    code, printed = Session(tmp_path, tmp_path / "home", inside=True).run(f"laminar {verb} --help")
    assert code == 0
    options = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", printed)) - {"--help"}
    assert {option for option in options if option not in section} == set()


# laminar.toml


@pytest.mark.parametrize("title", TABLES)
def test_every_key_of_the_stack_file_is_described_with_its_default(title: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|", sections("ref-stack-file.md")[title], re.M)
    described = {key: default.strip("`") for key, _, default in rows}
    fields = msgspec.structs.fields(TABLES[title])
    if title in BY_NAME and not issubclass(TABLES[title], SplitStrategy):  # what all of them have is in a table of its own
        common = {field.name for field in msgspec.structs.fields(ManySpec)}
        fields = tuple(field for field in fields if field.name not in common)
    assert described == {field.encode_name: default_text(field) for field in fields}


def default_text(field: Any) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return "-" if value is None else json.dumps(value)


def test_every_table_source_and_schedule_is_described() -> None:
    found = sections("ref-stack-file.md")
    intro = text_of("ref-stack-file.md").split("\n## ")[0]
    assert all(f"[{field.encode_name}" in intro for field in msgspec.structs.fields(StackSpec))
    assert all(f'"{kind}' in found["Sources"] for kind in kinds())
    for kind in (Constant, Step, Cosine, OneCycle):
        assert f'"{kind.__struct_config__.tag}"' in found["schedule"]
        assert all(f"`{field.name}`" in found["schedule"] for field in msgspec.structs.fields(kind))


def test_every_strategy_and_compression_is_described() -> None:
    found = sections("ref-stack-file.md")
    assert all(f'"{name}"' in found["strategy"] for name in BY_NAME)
    assert [field.name for field in msgspec.structs.fields(Solo)] == ["workers"]
    without = [str(spec.__struct_config__.tag) for spec in COMPRESSIONS if not msgspec.structs.fields(spec)]
    assert all(f'"{name}"' in found["compress"] for name in without)
    assert msgspec.structs.fields(PlainAverage) == ()
    assert f'"{PlainAverage.__struct_config__.tag}"' in found["outer"] and f'"{OuterNesterov.__struct_config__.tag}"' in found["outer"]


def test_what_is_in_no_key_says_so() -> None:
    """Of each strategy's own settings, those that the layer's key leaves out."""
    for name, spec in BY_NAME.items():
        if issubclass(spec, SplitStrategy):
            continue  # nothing of them is in any
        own = {field.name for field in msgspec.structs.fields(spec)} - {field.name for field in msgspec.structs.fields(ManySpec)}
        unusual = {"shares": "measured", "push": "steps", "smooth": 100}  # what these are by default is in none
        made: dict[str, Any] = {"workers": 2} | {key: value for key, value in unusual.items() if key in own}
        in_key = spec(**made).key_fields() if spec is not Solo else None
        if in_key is None:
            continue
        rows = re.findall(r"^\| `([^`]+)` \|.*\| (.*?) \|$", sections("ref-stack-file.md")[name], re.M)
        assert {key for key, said in rows if "Not in the key" in said} == own - set(in_key), name


def test_the_arguments_of_glyphs_are_described() -> None:
    from laminar.data.drawing.font import DOMAINS
    from laminar.data.sources.glyphs import DEFAULTS

    section = sections("ref-stack-file.md")["Sources"]
    assert ", ".join(f"{name} = {json.dumps(value)}" for name, value in DEFAULTS.items()) in section
    assert all(f'"{domain}"' in section for domain in DOMAINS)


def test_every_environment_variable_is_described() -> None:
    source = "\n".join(path.read_text() for path in (REPOSITORY / "src").rglob("*.py"))
    used = set(re.findall(r"\bLAMINAR_[A-Z_]+\b", source))
    described = set(re.findall(r"`(LAMINAR_[A-Z_]+)`", sections("ref-stack-file.md")["Environment variables"]))
    assert used == described


# Errors, events, store, words


def test_every_error_code_is_listed() -> None:
    page = text_of("errors/README.md")
    assert all(f"- [{code}]({code}.md) {title}\n" in page for code, title in CATALOGUE.items())
    for code, title in CATALOGUE.items():
        assert text_of(f"errors/{code}.md").startswith(f"# {code} {title}\n")


def fields_of_events() -> dict[str, set[str]]:
    """Of every event, as the tables of events give them."""
    page = re.sub(r"^## Several workers\n.*?(?=^## )", "", text_of("ref-events.md"), flags=re.M | re.S)
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \|", page, re.M)
    return {kind: set(re.findall(r"`(\w+)`", names)) for kind, names in rows}


def test_every_event_is_described() -> None:
    """Those that the source emits, found by the literal they are written with."""
    source = "\n".join(path.read_text() for path in (REPOSITORY / "src").rglob("*.py"))
    emitted = set(re.findall(r'"event": "([a-z-]+)"', source)) | set(re.findall(r'\.tell\(\s*"([a-z-]+)"', source))
    emitted |= set(re.findall(r'tag_field="event", tag="([a-z-]+)"', source))
    assert {"start", "step", "epoch", "saved", "end", "layer"} <= emitted
    assert emitted == set(fields_of_events())


def test_every_folder_of_the_store_is_described() -> None:
    from laminar.store.layout import FOLDERS

    page = text_of("ref-store.md")
    assert [folder for folder in FOLDERS if f"`{folder}/" not in page] == []


def test_every_field_of_a_manifest_is_described() -> None:
    from laminar.store.manifest import Manifest

    section = sections("ref-store.md")["A manifest"]
    missing = [field.name for field in msgspec.structs.fields(Manifest) if f"`{field.name}`" not in section]
    assert missing == ["format"]


def events_in(root: Path) -> list[dict[str, Any]]:
    from laminar.core.events import read

    return [event for path in (root / ".laminar" / "runs").glob("*/events.jsonl") for event in read(path)]


def test_every_field_of_an_event_is_described(built: Any) -> None:
    """What a real run wrote has exactly the fields that the page gives for its kind."""
    fields, events = fields_of_events(), events_in(built.root)
    assert {event["event"] for event in events} >= {"start", "step", "epoch", "checkpoint", "end"}
    for event in events:
        assert set(event) - {"event", "t"} == fields[event["event"]], event


@pytest.mark.usefixtures("warm_workers")
def test_every_field_of_several_workers_is_described(example: Any) -> None:
    """Real runs of three strategies together have the fields that the page adds for them, and no others."""
    section = sections("ref-events.md")["Several workers"]
    rows = re.findall(r"^\| ((?:`[a-z]+`(?:, )?)+) \| (.*?) \| [a-z, ]+ \|", section, re.M)
    described = {(kind, name) for kinds, names in rows for kind in re.findall(r"`(\w+)`", kinds) for name in re.findall(r"`(\w+)`", names)}
    of_team = {name for names in re.findall(r"^\| (`[\w`, ]+`) \| [^|]+ \|$", section, re.M) for name in re.findall(r"`(\w+)`", names)}
    heard: list[dict[str, Any]] = []
    for strategy in ("sync:shares=measured", "averaging:shares=measured", "downpour"):
        built = build(with_strategy(read(example.toml), strategy, 2), example.store(), targets=["strokes"], force=True, emit=heard.append)
        assert {"workers", "bytes"} <= set(built.layers[0].team)
    fields, events = fields_of_events(), events_in(example.root)
    assert {(event["event"], name) for event in events for name in set(event) - {"event", "t"} - fields[event["event"]]} == described
    assert {name for event in events for name in event.get("team", {})} == of_team
    assert {event["role"] for event in events if event["event"] == "worker"} == {"worker", "server"}
    told = [set(event["team"]) for event in heard if event["event"] == "step"]
    assert all(team - {"shares"} == {"workers", "steps_per_second", "samples_per_second", "bytes", "staleness"} for team in told)
    page = sections("ref-events.md")["Events of a build"]
    assert told and all(f"`{name}`" in page for name in told[0])


def test_the_public_names_are_described() -> None:
    import laminar
    from laminar.stack.api import Stack

    page = text_of("ref-python.md")
    assert all(f"laminar.{name}" in page for name in laminar.__all__ if not name.startswith("_"))
    public = [name for name in vars(Stack) if not name.startswith("_") and name != "project"]
    assert [name for name in public if f".{name}" not in page] == []


# Links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in {slug(title) for title in re.findall(r"^#+ (.+)$", there.read_text(), re.M)}, f"{page.name}: {target}"


def slug(title: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_every_page_can_be_reached_from_the_index() -> None:
    seen: set[Path] = set()
    todo = [REPOSITORY / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
        todo += [(page.parent / link).resolve() for link in links if not link.startswith("http")]
    assert [str(page) for page in PAGES if page not in seen] == []


def test_pages_are_named_by_their_kind() -> None:
    allowed = re.compile(r"(tutorial|how-to|explanation|ref)-[a-z-]+\.md|README\.md|founding\.md|glossary\.md")
    assert [page.name for page in DOCS.glob("*.md") if not allowed.fullmatch(page.name)] == []


@pytest.mark.parametrize("page", sorted((DOCS / "adr").glob("0*.md")), ids=lambda page: page.stem)
def test_decisions_have_context_decision_and_consequences(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(f"# {page.name[:4]} ")
    assert re.findall(r"^## (.+)$", text, re.M) == ["Context", "Decision", "Consequences"]


def test_python_in_pages_is_python() -> None:
    for page in PAGES:
        for block in blocks(page):
            if block.language == "python":
                compile(block.text, str(page), "exec")
