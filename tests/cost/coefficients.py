"""Coefficients with round numbers."""

from agentvm.cost.coefficients import Coefficients, Measured


def measured(value: float) -> Measured:
    return Measured(value=value, unit="", source="a test")


ROUND = Coefficients(
    date="2026-11-17",
    machine="a test",
    version="0",
    cpu_per_turn=measured(1.0),
    cpu_per_delta=measured(10.0),
    cpu_per_visit=measured(5.0),
    cpu_per_tool_call=measured(10.0),
    memory_of_server=measured(1e8),
    memory_per_socket=measured(2e4),
    memory_per_stream=measured(5e4),
    memory_per_agent=measured(1e4),
    memory_per_jail=measured(3e6),
    disk_per_user=measured(1_000),
    disk_per_turn=measured(1_000),
    disk_per_text=measured(2),
    syncs_per_turn=measured(3),
    backup_ratio=measured(0.5),
    traffic_per_delta=measured(300),
)
