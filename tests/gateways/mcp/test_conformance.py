"""The official suite of the protocol. Its scenarios about tools and prompts of its own find none here, and are left out."""

from pathlib import Path

import pytest
from tests.gateways.scene import scene
from tests.provision.conformance import Conformance

SHARED = ("tools-list", "resources-list", "prompts-list", "dns-rebinding-protection")
OFFERED = {
    "2025-11-25": (*SHARED, "server-initialize", "ping"),
    "2026-07-28": (*SHARED, "server-stateless", "caching", "http-header-validation", "sep-2164-resource-not-found"),
}
"""Scenarios about what this server offers, by revision."""
UNCALLABLE = "message is missing"
"""In a fault of a check that calls the first tool without arguments."""


@pytest.mark.parametrize("revision", OFFERED)
async def test_the_official_suite_finds_no_fault_in_what_is_offered(
    revision: str, conformance: Conformance, tmp_path: Path
) -> None:
    async with scene() as served:
        faults = await conformance.of_server(f"{served.http}/mcp", revision, tmp_path)
    found = {scenario: faults.get(scenario, ["was not run"]) for scenario in OFFERED[revision]}
    assert [fault for texts in found.values() for fault in texts if UNCALLABLE not in fault] == []
