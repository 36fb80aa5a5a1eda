"""Observability — how the server is seen from outside: logs, errors and what is measured."""
