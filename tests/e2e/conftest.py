"""What tests of several pages share: a project whose making takes seconds. Take a copy of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import demo_project


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_project.make(tmp_path_factory.mktemp("demo") / "digits")
