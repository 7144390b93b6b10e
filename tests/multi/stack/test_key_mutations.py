"""Keys are never stale: some rows of the table of mutations here, all of them in the slow tests and by `make fuzz NET=key_mutations`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.key_rows import ROWS
from tests.nets import key_mutations

NEEDLESS = 5
CHOSEN = (
    "helper two imports away",
    "order of what runs on import",
    "spec_from_file_location, outside",
    "a package on PYTHONPATH",
    "safetensors.torch",
    "pyarrow.parquet",
    "a file that is asked for",
    "a file read in forward",
    "read by another program, not declared",
    "a data function that reads safetensors",
    "environment: of a helper",
    "a library's minor version",
    "order of a table in args",
    "a leak: a class of torch",
    "another spelling of an import",
)


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[None]:
    yield
    key_mutations.close()


@pytest.mark.parametrize("name", CHOSEN)
def test_a_mutation(name: str) -> None:
    seed = next(number for number, row in enumerate(ROWS) if row.name == name)
    assert key_mutations.check(seed) == ("warned" if ROWS[seed].warns else "right")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_whole_table() -> None:
    said = Counter(key_mutations.check(seed) for seed in range(len(ROWS)))
    assert len(ROWS) >= 100
    assert said["needless"] <= NEEDLESS, said
