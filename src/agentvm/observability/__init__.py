"""Observability — what can be seen from outside: metrics, which listen to events, and logs. The runtime knows of neither."""
