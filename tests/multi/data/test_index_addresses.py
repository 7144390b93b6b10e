"""An index that has several addresses: the first that answers is taken, and the mirrors are asked where none does. Real servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mirror_servers import Mischief, naughty_http, nobody

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.data.make_index import write_index
from laminar.data.open import open_data
from laminar.data.sources import index as index_source
from laminar.data.sources.index import addresses_of
from laminar.data.spec import DataSpec


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Mischief, str]]:
    """The URL of a server that has images and their index, what it was asked for, and the index's sha256."""
    import numpy as np
    from PIL import Image

    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(index_source, "_recent", {})
    rng = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for i in range(4):
            Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).save(tmp_path / "images" / label / f"{i}.png")
    write_index(tmp_path / "images", tmp_path / "images" / "index.json")
    files = {p.relative_to(tmp_path / "images").as_posix(): p.read_bytes() for p in (tmp_path / "images").rglob("*.*")}
    mischief = Mischief(files)
    with naughty_http(mischief) as url:
        yield url, mischief, digest.of_bytes(files["index.json"])


def test_the_first_address_that_answers_is_taken(tmp_path: Path, served: tuple[str, Mischief, str]) -> None:
    url, mischief, sha256 = served
    with nobody() as away:
        spec = DataSpec(source=f"index:{away}/index.json, {url}/index.json#sha256={sha256}")
        data = open_data(spec, tmp_path)
    assert data.classes == ("cat", "dog") and len(data.train) + len(data.test) == 8  # images too: beside each address
    assert [path for path, _ in mischief.asked].count("index.json") == 1


def test_where_its_one_host_is_away_the_mirrors_have_the_index_too(tmp_path: Path, served: tuple[str, Mischief, str]) -> None:
    url, _, sha256 = served
    with nobody() as away:
        for pin in ("", f"#sha256={sha256}"):
            index_source._recent.clear()
            data = open_data(DataSpec(source=f"index:{away}/index.json{pin}", mirrors=[away, url]), tmp_path)
            assert len(data.train) + len(data.test) == 8


def test_a_mirror_with_another_index_than_the_pinned_one_is_not_believed(tmp_path: Path, served: tuple[str, Mischief, str]) -> None:
    url, _, _ = served
    with nobody() as away, pytest.raises(LaminarError) as caught:
        open_data(DataSpec(source=f"index:{away}/index.json#sha256={'0' * 64}", mirrors=[url]), tmp_path)
    assert caught.value.code == "L112"
    assert away in caught.value.message and f"{url}/index.json: another file" in caught.value.message


def test_an_address_that_answers_comes_before_the_mirrors(tmp_path: Path, served: tuple[str, Mischief, str]) -> None:
    url, _, _ = served
    other = Mischief({"index.json": b"{}"})
    with naughty_http(other) as stale:
        assert open_data(DataSpec(source=f"index:{url}/index.json", mirrors=[stale, url]), tmp_path).classes == ("cat", "dog")
    assert "index.json" not in [path for path, _ in other.asked]


def test_what_may_stand_after_the_colon(tmp_path: Path) -> None:
    assert addresses_of("https://a/x,ftp://b/y , s3://c/z") == ["https://a/x", "ftp://b/y", "s3://c/z"]
    assert addresses_of("photos, old/index.json") == ["photos, old/index.json"]  # a name with a comma
    assert addresses_of("") == []
    with pytest.raises(LaminarError, match="is a file, and further addresses of an index are URLs") as caught:
        open_data(DataSpec(source="index:mine.json,https://a/index.json"), tmp_path)
    assert caught.value.code == "L109"
