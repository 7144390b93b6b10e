"""Addresses of the grid's database: which are taken, and how others are refused."""

from __future__ import annotations

import pytest

from laminar.core.errors import LaminarError
from laminar.grid.db.book import Book, with_driver


@pytest.mark.parametrize(
    ("address", "taken"),
    [
        ("sqlite:///grid.db", "sqlite:///grid.db"),
        ("postgresql://user@host/grid", "postgresql+psycopg://user@host/grid"),
        ("postgres://user@host/grid", "postgresql+psycopg://user@host/grid"),
        ("postgresql+psycopg://user@host/grid", "postgresql+psycopg://user@host/grid"),
    ],
)
def test_an_address_without_a_driver_gets_the_one_that_is_installed(address: str, taken: str) -> None:
    assert with_driver(address) == taken


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mysql://user:secret@host/grid", "not in mysql"),
        ("mariadb+pymysql://user:secret@host/grid", "not in mariadb"),
        ("grid.db", "given as an address"),
    ],
)
def test_another_database_is_refused_in_words(address: str, said: str) -> None:
    with pytest.raises(LaminarError, match=said) as caught:
        Book.open(address)
    assert caught.value.code == "L505"
    assert "SQLite or PostgreSQL" in caught.value.message
    assert "secret" not in caught.value.message
