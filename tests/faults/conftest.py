"""How long the fault tests wait."""

import pytest
from tests.support import hostile, wire


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are kept busy here, on machines that may be too: waiting long is no failure, waiting for ever is."""
    monkeypatch.setattr(wire, "WAIT", 30.0)
    monkeypatch.setattr(hostile, "WAIT", 30.0)
