"""Sharing — how tenants share one process: bytes of memory, and turns at a queue."""
