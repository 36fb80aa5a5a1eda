"""Observability — metrics, logs, timelines and status of a server, derived from its events. The runtime knows of neither."""
