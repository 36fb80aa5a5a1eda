import sys

import pytest

from agentvm.errors import ConfigInvalid
from agentvm.storage.engine import open_postgres


def test_postgresql_without_its_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("agentvm.storage.engines.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delattr("agentvm.storage.engines.postgres", raising=False)
    with pytest.raises(ConfigInvalid, match=r"agentvm\[postgres\]"):
        open_postgres("postgresql://localhost/none")
