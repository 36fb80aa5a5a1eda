"""Observability — what can be seen from outside: metrics, which listen to events, and logs. Nothing in the runtime knows of it."""
