"""Fixtures of the tests of the command line."""

import os

import pytest


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without any setting of AgentVM."""
    monkeypatch.setenv("XDG_CONFIG_HOME", os.devnull)
    for name in (
        "AVM_URL", "AVM_KEY", "AVM_PROFILE", "AVM_HOST", "AVM_PORT", "AVM_DATA_DIR",
        "LLM_PROVIDER", "LLM_MODEL", "LLM_API_KEY", "LLM_BASE_URL",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
