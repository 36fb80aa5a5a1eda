import subprocess
import sys

import pytest

from agentvm.operations.modules import MODULES, group_of, http_face
from agentvm.operations.table import OPERATIONS

LOADED = """
import sys
from agentvm.operations.modules import http_face
http_face("tenant.get")
print(*sorted(name for name in ("tenant", "user", "session", "resource") if f"agentvm.operations.{name}" in sys.modules))
"""


def test_every_operation_with_a_route_is_found_by_its_name() -> None:
    for row in OPERATIONS:
        if row.http is not None:
            assert http_face(row.name).operation is row


def test_an_operation_without_a_route_is_a_bug() -> None:
    for name in ("session.pin", "nope.nope"):
        with pytest.raises(KeyError, match="has no route"):
            http_face(name)


def test_a_face_loads_the_modules_of_its_noun_alone() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "tenant\n"


def test_every_module_declares_operations() -> None:
    assert all(group_of(module).rows for module in MODULES)
