"""Bulk: statements over many rows at once, in the words of each database.

    read     the rows of these keys           SQLite: a JSON array of keys; PostgreSQL: an array, and the rows are locked in their order
    change   some columns of many rows        SQLite: one prepared statement, many values; PostgreSQL: arrays, joined to the table
    add      new rows; `number` also says which ids they got
    sum_up   numbers to be added to rows, which are made where there are none
    remove   the rows of these keys

A statement a row costs PostgreSQL a journey to its server and back: a hundred requests that share a transaction (desk.py) would make
thousands of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy import Integer, String, Table
from sqlalchemy.dialects import postgresql

if TYPE_CHECKING:
    from laminar.grid.db.tx import Tx

_POSTGRES: Final = postgresql.dialect()  # type: ignore[no-untyped-call]


def read(
    tx: Tx, table: Table, by: str, keys: Collection[Any], *, columns: tuple[str, ...] = (), where: str = "", lock: str = ""
) -> list[Any]:
    """These columns, or all, as tuples. `where`: more conditions, in SQL that both understand; `lock`: "wait" or "skip" (PostgreSQL)."""
    if not keys:
        return []
    text = _read(tx.name, table, by, columns, where, lock)
    if tx.hook is not None:
        tx.hook(text)
    return list(tx.raw.execute(text, [_keys(tx.name, keys)]).fetchall())


def change(tx: Tx, table: Table, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
    """Each row: the new values of `columns`, and its id."""
    _many(tx, _change(tx.name, table, columns), rows)


def add(tx: Tx, table: Table, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
    _many(tx, _add(tx.name, table, columns), rows)


def sum_up(tx: Tx, table: Table, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
    """Each row: its key, in the order of the table's, and what is to be added to `columns`."""
    _many(tx, _sum_up(tx.name, table, columns), rows)


def number(tx: Tx, table: Table, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> list[int]:
    """New rows of a table that numbers them: their ids, in this order."""
    text = _add(tx.name, table, columns)
    if tx.name == "sqlite":
        if tx.hook is not None:
            tx.hook(text)
        return [tx.raw.execute(text, row).lastrowid for row in rows]
    found = _arrays(tx, f"{text} RETURNING id", rows).fetchall()
    return sorted(id for (id,) in found)  # numbers are drawn in the order of the arrays


def remove(tx: Tx, table: Table, by: str, keys: Collection[Any]) -> None:
    if keys:
        text = _remove(tx.name, table, by)
        if tx.hook is not None:
            tx.hook(text)
        tx.raw.execute(text, [_keys(tx.name, keys)])


def _many(tx: Tx, text: str, rows: Sequence[Sequence[Any]]) -> None:
    if tx.name != "sqlite":
        _arrays(tx, text, rows)
        return
    if tx.hook is not None:
        tx.hook(text)
    tx.raw.executemany(text, rows)


def _arrays(tx: Tx, text: str, rows: Sequence[Sequence[Any]]) -> Any:
    """A column is an array (PostgreSQL)."""
    if tx.hook is not None:
        tx.hook(text)
    return tx.raw.execute(text, [_array(values) for values in zip(*rows, strict=True)])


def _keys(name: str, keys: Iterable[Any]) -> Any:
    found = sorted(keys)
    return msgspec.json.encode(found).decode() if name == "sqlite" else _array(found)


# The text of statements


@lru_cache(maxsize=256)
def _read(name: str, table: Table, by: str, some: tuple[str, ...], where: str, lock: str) -> str:
    columns = ", ".join(_quoted(column) for column in some or table.columns.keys())
    end = f" AND {where}" if where else ""
    if name == "sqlite":
        return f"SELECT {columns} FROM {table.name} WHERE {_quoted(by)} IN (SELECT value FROM json_each(?)){end}"
    order = ", ".join(_quoted(column.name) for column in table.primary_key.columns)
    locked = {"": "", "wait": " FOR UPDATE", "skip": " FOR UPDATE SKIP LOCKED"}[lock]
    return f"SELECT {columns} FROM {table.name} WHERE {_quoted(by)} = ANY({_place(table, by)}){end} ORDER BY {order}{locked}"


@lru_cache(maxsize=256)
def _change(name: str, table: Table, columns: tuple[str, ...]) -> str:
    if name == "sqlite":
        return f"UPDATE {table.name} SET {', '.join(f'{_quoted(one)} = ?' for one in columns)} WHERE id = ?"
    told = ", ".join(f"{_quoted(one)} = new.{_quoted(one)}" for one in columns)
    arrays = ", ".join(_place(table, one) for one in (*columns, "id"))
    names = ", ".join(_quoted(one) for one in (*columns, "id"))
    return f"UPDATE {table.name} SET {told} FROM unnest({arrays}) AS new({names}) WHERE {table.name}.id = new.id"


@lru_cache(maxsize=64)
def _add(name: str, table: Table, columns: tuple[str, ...]) -> str:
    names = ", ".join(_quoted(one) for one in columns)
    if name == "sqlite":
        return f"INSERT INTO {table.name} ({names}) VALUES ({', '.join('?' for _ in columns)})"
    return f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({', '.join(_place(table, one) for one in columns)})"


@lru_cache(maxsize=64)
def _sum_up(name: str, table: Table, columns: tuple[str, ...]) -> str:
    key = tuple(column.name for column in table.primary_key.columns)
    added = ", ".join(f"{_quoted(one)} = {table.name}.{_quoted(one)} + excluded.{_quoted(one)}" for one in columns)
    return f"{_add(name, table, (*key, *columns))} ON CONFLICT ({', '.join(map(_quoted, key))}) DO UPDATE SET {added}"


@lru_cache(maxsize=64)
def _remove(name: str, table: Table, by: str) -> str:
    if name == "sqlite":
        return f"DELETE FROM {table.name} WHERE {_quoted(by)} IN (SELECT value FROM json_each(?))"
    return f"DELETE FROM {table.name} WHERE {_quoted(by)} = ANY({_place(table, by)})"


def _quoted(name: str) -> str:
    return f'"{name}"'  # "check" and "first" are words of SQL


def _place(table: Table, column: str) -> str:
    """Of an array (PostgreSQL)."""
    kind = table.columns[column].type
    return f"%{'t' if isinstance(kind, Integer | String) else 'b'}::{kind.compile(_POSTGRES)}[]"


def _array(values: Sequence[Any]) -> Any:
    """As the driver is to have it: numbers and words as a text, which costs a fifth of what its lists do."""
    kinds = set(map(type, values))
    kinds.discard(NoneType)
    if kinds == {int}:
        return "{" + ",".join(["NULL" if one is None else str(one) for one in values]) + "}"
    if kinds == {str}:
        return "{" + ",".join(["NULL" if one is None else _word(one) for one in values]) + "}"
    return list(values)


def _word(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
