"""Sharing — how tenants share one process: bytes of memory, turns at a queue, and child processes."""
