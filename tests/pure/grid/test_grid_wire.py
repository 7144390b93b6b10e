"""What goes between server and nodes: signatures, frames, versions. Damaged, exchanged or invented, it is refused."""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.core.errors import LaminarError
from laminar.grid.wire import answer as answers
from laminar.grid.wire import model_bytes, signing
from laminar.grid.wire.messages import Ask, Enrol, Task
from laminar.grid.wire.sketch import SIZE, Sketcher, distance


def head(packet: int = 4, buffers: int = 0) -> answers.Head:
    return answers.Head(result=7, version=3, packet=packet, buffers=buffers, samples=64, steps=2, loss=0.5, seconds=1.0)


def test_a_signature_is_of_one_key_and_one_request() -> None:
    key, other, checker = signing.Key.make(), signing.Key.make(), signing.Checker()
    message = signing.of_request("POST", "/v1/work", "1.0", "abcdefgh", "0" * 64)
    signed = key.sign(message)
    assert checker.good(key.public, signed, message)
    assert not checker.good(other.public, signed, message)
    for changed in (
        signing.of_request("PUT", "/v1/work", "1.0", "abcdefgh", "0" * 64),
        signing.of_request("POST", "/v1/work?x", "1.0", "abcdefgh", "0" * 64),
        signing.of_request("POST", "/v1/work", "2.0", "abcdefgh", "0" * 64),
        signing.of_request("POST", "/v1/work", "1.0", "abcdefgi", "0" * 64),
        signing.of_request("POST", "/v1/work", "1.0", "abcdefgh", "1" * 64),
        signing.of_reply("0" * 20, "POST", "/v1/work", "abcdefgh", 200, "0" * 64),
    ):
        assert not checker.good(key.public, signed, changed)


@pytest.mark.parametrize(
    ("public", "signature"), [("", ""), ("no key", "no signature"), (base64.b64encode(b"x" * 31).decode(), "AAAA"), ("ä", "ö")]
)
def test_what_is_no_key_or_signature_is_not_good(public: str, signature: str) -> None:
    assert not signing.Checker().good(public, signature, b"")


def test_a_key_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    made = signing.Key.kept(tmp_path / "key")
    assert signing.Key.kept(tmp_path / "key").public == made.public
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    (tmp_path / "key").write_text("broken")
    with pytest.raises(LaminarError) as caught:
        signing.Key.kept(tmp_path / "key")
    assert caught.value.code == "L502"


@given(st.binary(max_size=64), st.integers(0, 5))
def test_a_frame_comes_back_as_it_was(packet: bytes, buffers: int) -> None:
    numbers, sketch = np.arange(buffers, dtype=np.float64), np.arange(SIZE, dtype=np.float32)
    found = answers.parse(answers.write(head(len(packet), 8 * buffers), packet, numbers, sketch))
    assert bytes(found.packet) == packet and (found.buffers == numbers).all() and (found.sketch == sketch).all()


@given(st.data())
def test_a_damaged_frame_is_refused_or_still_a_frame(data: st.DataObject) -> None:
    whole = bytearray(answers.write(head(), b"abcd", np.zeros(0), np.zeros(SIZE, np.float32)))
    what = data.draw(st.sampled_from(["cut", "flip", "longer"]))
    at = data.draw(st.integers(0, len(whole) - 1))
    if what == "cut":
        whole = whole[:at]
    elif what == "flip":
        whole[at] ^= data.draw(st.integers(1, 255))
    else:
        whole += b"x"
    refused = ""
    try:
        answers.parse(bytes(whole))
    except answers.BadAnswer as error:
        refused = str(error)
    assert refused or what == "flip"


@given(st.lists(st.floats(width=32, allow_nan=True), max_size=50), st.data())
def test_a_version_is_the_same_bits_whole_or_as_a_difference(values: list[float], data: st.DataObject) -> None:
    new = np.array(values, np.float32).tobytes()
    old = np.array(data.draw(st.lists(st.floats(width=32), min_size=len(values), max_size=len(values))), np.float32).tobytes()
    sha256 = model_bytes.digest(new)
    assert model_bytes.unpack(model_bytes.pack(new), sha256, len(new)) == new
    assert model_bytes.unpack(model_bytes.pack(new, old), sha256, len(new), old) == new


def test_a_version_that_hardly_changed_is_small() -> None:
    old = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    new = old.copy()
    new[::1000] += 1
    packed = model_bytes.pack(new.tobytes(), old.tobytes())
    assert len(packed) < new.nbytes / 200


@pytest.mark.parametrize("harm", ["flip", "cut", "other base", "other size", "bomb"])
def test_a_version_that_is_not_the_one_is_refused(harm: str) -> None:
    new, old = (np.random.default_rng(i).standard_normal(1000).astype(np.float32).tobytes() for i in (0, 1))
    packed, size, base = bytearray(model_bytes.pack(new, old)), len(new), old
    if harm == "flip":
        packed[-5] ^= 1
    elif harm == "cut":
        packed = packed[:-7]
    elif harm == "other base":
        base = new
    elif harm == "other size":
        size -= 4
    else:
        packed = bytearray(model_bytes.pack(bytes(40_000_000)))
        packed[4:12] = size.to_bytes(8, "little")
    with pytest.raises(model_bytes.BadModel):
        model_bytes.unpack(bytes(packed), model_bytes.digest(new), size, base)


def test_sketches_are_linear_and_keep_lengths_and_angles() -> None:
    dice, sketcher = np.random.default_rng(0), Sketcher(20_000, 5)
    a, b = (dice.standard_normal(20_000).astype(np.float32) for _ in range(2))
    assert np.allclose(sketcher.of(a + 2 * b), sketcher.of(a) + 2 * sketcher.of(b), atol=1e-2)
    assert np.linalg.norm(sketcher.of(a)) == pytest.approx(np.linalg.norm(a), rel=0.15)
    assert abs(float(sketcher.of(a) @ sketcher.of(b))) < 4 * np.linalg.norm(a) * np.linalg.norm(b) / 16
    at = np.arange(0, 20_000, 7)
    some = np.zeros_like(a)
    some[at] = a[at]
    assert np.allclose(sketcher.of_some(at, a[at]), sketcher.of(some), atol=1e-3)
    assert (Sketcher(20_000, 5).of(a) == sketcher.of(a)).all() and not (Sketcher(20_000, 6).of(a) == sketcher.of(a)).all()


def test_distance_is_a_share() -> None:
    one = np.ones(SIZE, np.float32)
    assert distance(one, one) == 0 and distance(one, -one) == pytest.approx(2)
    assert distance(one, one * np.float32(1.01)) == pytest.approx(0.01, rel=0.05)
    assert distance(np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)) == 0


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Ask, b'{"want": -1}'),
        (Ask, b'{"want": 1, "wants": 2}'),
        (Ask, b'{"want": 1, "wait": 1e9}'),
        (Enrol, b'{"protocol": 1, "token": "t", "key": "short", "facts": {}}'),
        (Task, b'{"result": "one"}'),
    ],
)
def test_messages_have_limits(kind: type, body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=kind)
