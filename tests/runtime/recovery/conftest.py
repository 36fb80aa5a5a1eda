from pathlib import Path

import pytest
from tests.runtime.recovery.fixtures import Prepared


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    return Prepared(tmp_path / "x.db")
