"""A graph from anywhere runs nothing but the operators of the table: payloads stay asleep, damage is an error with a code."""

from __future__ import annotations

import copy
import io
import json
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from model_zoo import batch, make
from torch import nn

from laminar.core.errors import LaminarError
from laminar.model import graph_file
from laminar.model.graph import export_forms, load_forms
from laminar.model.graph_ops import ALLOWED, operator_called
from laminar.model.portable import export_file, import_file
from laminar.model.weights import state

MODEL = make("constants")
FORMS = export_forms(MODEL, batch())
GRAPH = "model/models/model.json"
EXTRA = "model/extra/laminar.json"


class Payload:
    """Unpickling this creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.path), "w"))


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(content: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in content.items():
            file.writestr(name, data)
    return out.getvalue()


def changed(change: Callable[[Any], None], member: str = GRAPH) -> bytes:
    assert FORMS.eval is not None
    content = members(FORMS.eval)
    table = json.loads(content[member])
    change(table)
    content[member] = json.dumps(table).encode()
    return packed(content)


def load(data: bytes) -> nn.Module:
    return load_forms(data, data, {k: v.clone() for k, v in state(MODEL)[0].items()})


def nodes(table: Any) -> list[Any]:
    found: list[Any] = table["graph_module"]["graph"]["nodes"]
    return found


def test_the_untouched_archive_loads() -> None:
    assert load(changed(lambda _: None))(batch()).shape == (6, 5)


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "builtins.eval",
        "_operator.attrgetter",
        "_operator.methodcaller",
        "torch.load",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.save.default",
        "torch.ops.aten.set_.source_Tensor",
        "torch.ops.aten.resize_.default",
        "torch.ops.aten.relu",
        "torch.ops.aten.relu.default.__class__",
        "torch.ops.aten.__class__.mro",
        "torch.ops.laminar.__class__.mro",
        "torch.ops.load_library",
        "torch.ops.quantized.linear.default",
        "torch.ops.inductor.resize_storage_bytes_.default",
        "torch.ops.higher_order.cond",
        "torch.ops.higher_order.print",
        "torch.ops.profiler._record_function_enter.default",
    ],
)
def test_only_operators_of_the_table_are_called(target: str) -> None:
    with pytest.raises(LaminarError) as caught:
        load(changed(lambda t: nodes(t)[0].update(target=target)))
    assert caught.value.code == "L207"


def test_the_table_names_real_operators() -> None:
    for target in ALLOWED:
        assert str(operator_called(target)) == target.removeprefix("torch.ops.")
    assert operator_called("torch.ops.aten.relu_.default") is torch.ops.aten.relu_.default


def test_expressions_are_never_evaluated(tmp_path: Path) -> None:
    made = tmp_path / "made"
    evil = f"__import__('pathlib').Path({str(made)!r}).touch()"

    def change(table: Any) -> None:
        graph = table["graph_module"]["graph"]
        for meta in graph["tensor_values"].values():
            meta["sizes"] = [{"as_expr": {"expr_str": evil, "hint": None}} if "as_expr" in s else s for s in meta["sizes"]]
        for name in graph["sym_int_values"]:
            graph["sym_int_values"][name] = {"as_expr": {"expr_str": evil, "hint": None}}
        table["guards_code"] = [evil]
        table["range_constraints"] = {evil: {"min_val": 0, "max_val": None}}
        for node in nodes(table):
            node["metadata"].update(source_fn_stack=f"x,{evil}", custom=evil, from_node=evil, torch_fn=evil)

    load(changed(change))(batch())
    assert not made.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t["schema_version"].update(major=9),
        lambda t: t.clear(),
        lambda t: nodes(t)[0]["inputs"].append({"name": "x", "arg": {"as_custom_obj": {"name": "a", "class_fqn": "b"}}, "kind": 1}),
        lambda t: nodes(t)[0]["inputs"].append({"name": "x", "arg": {"as_operator": "os.system"}, "kind": 1}),
        lambda t: t["graph_module"]["signature"]["input_specs"].append({"custom_obj": {"arg": {}, "custom_obj_name": "a"}}),
        lambda t: t["graph_module"]["signature"]["input_specs"][0]["parameter"].update(parameter_name="__class__"),
        lambda t: t["graph_module"]["signature"]["input_specs"][0]["parameter"].update(parameter_name="forward"),
        lambda t: t["graph_module"]["module_call_graph"][0]["signature"].update(
            in_spec='[1, {"type": "os.system", "context": "", "children_spec": []}]'
        ),
        lambda t: t["graph_module"]["module_call_graph"][0]["signature"].update(in_spec="__import__('os')"),
        lambda t: nodes(t)[-1].update(inputs=[{"name": "x", "arg": {"as_tensor": {"name": "nowhere"}}, "kind": 1}]),
    ],
)
def test_what_does_not_belong_is_refused(change: Callable[[Any], None]) -> None:
    with pytest.raises(LaminarError) as caught:
        load(changed(change))
    assert caught.value.code in ("L205", "L207")


def test_a_constant_that_was_changed_is_refused() -> None:
    content = members(FORMS.eval or b"")
    name = next(n for n in content if "constants/" in n)
    content[name] = bytes([content[name][0] ^ 1]) + content[name][1:]
    with pytest.raises(LaminarError, match="digest"):
        load(packed(content))


def test_a_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_file, "MAX_JSON", 1 << 20)
    content = members(FORMS.eval or b"")
    content[GRAPH] = content[GRAPH] + b" " * (1 << 20)
    with pytest.raises(LaminarError, match="says it has"):
        load(packed(content))


def test_a_member_that_lies_about_its_size_is_refused() -> None:
    content = members(FORMS.eval or b"")
    data = packed(content)
    size = len(content[GRAPH]).to_bytes(4, "little")
    with pytest.raises(LaminarError) as caught:
        load(data.replace(size, (1 << 31).to_bytes(4, "little")))
    assert caught.value.code == "L207"


def test_truncated_archives_and_other_bytes_are_refused() -> None:
    data = FORMS.eval or b""
    for bad in (b"", b"PK", b"hello" * 50, data[: len(data) // 2], data[:-30], pickle.dumps({})):
        with pytest.raises(LaminarError) as caught:
            load(bad)
        assert caught.value.code == "L207"


def test_flipped_bits_are_errors_with_a_code_or_harmless() -> None:
    data = FORMS.eval or b""
    chance = random.Random(0)
    for _ in range(150):
        bad = bytearray(data)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        try:
            load(bytes(bad))
        except LaminarError as error:
            assert error.code in ("L205", "L207")  # noqa: PT017


def test_any_other_value_anywhere_in_the_graph_is_an_error_with_a_code_or_harmless() -> None:
    content = members(FORMS.eval or b"")
    chance = random.Random(1)
    odd: list[Any] = [None, -1, 10**30, 1.5, "", "x.y", "__class__", [], {}, [[]], {"as_int": 3}, {"as_tensor": {"name": "x"}}, True]
    for member in (GRAPH, EXTRA):
        table = json.loads(content[member])
        for _ in range(200):
            mutant = copy.deepcopy(table)
            place = mutant
            while True:
                keys = list(place) if isinstance(place, dict) else list(range(len(place)))
                key = chance.choice(keys)
                if isinstance(place[key], dict | list) and place[key] and chance.random() < 0.9:
                    place = place[key]
                    continue
                place[key] = chance.choice(odd)
                break
            try:
                load(packed({**content, member: json.dumps(mutant).encode()}))
            except LaminarError as error:
                assert error.code in ("L205", "L207")  # noqa: PT017


@pytest.fixture(scope="module")
def pt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "plain.pt2"
    export_file(MODEL, path, example=batch())
    return path


def test_sample_inputs_of_a_foreign_archive_are_not_looked_at(pt2: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    content = members(pt2.read_bytes())
    sample = next(n for n in content if "sample_inputs" in n)
    content[sample] = pickle.dumps(Payload(made))
    evil = tmp_path / "evil.pt2"
    evil.write_bytes(packed(content))
    found = import_file(evil)
    assert found.forms is not None
    assert not made.exists()


@pytest.mark.parametrize(
    ("folder", "prefix"), [("weights", "weight_"), ("constants", "tensor_"), ("constants", "custom_obj_"), ("constants", "opaque_obj_")]
)
def test_members_that_torch_would_unpickle_are_refused(pt2: Path, tmp_path: Path, folder: str, prefix: str) -> None:
    made = tmp_path / "made"
    content = members(pt2.read_bytes())
    config = next(n for n in content if n.endswith(f"model_{folder}_config.json"))
    table = json.loads(content[config])
    entry = next(iter(table["config"].values()))
    entry.update(use_pickle=True, path_name=f"{prefix}0")
    content[config] = json.dumps(table).encode()
    content[config.rpartition("/")[0] + f"/{prefix}0"] = pickle.dumps(Payload(made))
    evil = tmp_path / "evil.pt2"
    evil.write_bytes(packed(content))
    with pytest.raises(LaminarError, match="unpickled") as caught:
        import_file(evil)
    assert caught.value.code == "L207"
    assert not made.exists()


def test_a_pickle_that_calls_itself_weights_is_refused(tmp_path: Path) -> None:
    made = tmp_path / "made"
    for name, data in {"a.pt": {"w": Payload(made)}, "b.pth": Payload(made)}.items():
        torch.save(data, tmp_path / name)
        with pytest.raises(LaminarError) as caught:
            import_file(tmp_path / name)
        assert caught.value.code == "L208"
    (tmp_path / "c.bin").write_bytes(pickle.dumps(Payload(made)))
    with pytest.raises(LaminarError):
        import_file(tmp_path / "c.bin")
    assert not made.exists()


def test_the_payload_works_where_it_is_let() -> None:
    """Else the tests above would prove nothing."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        pickle.loads(pickle.dumps(Payload(made))).close()  # noqa: S301 - the point
        assert made.exists()
