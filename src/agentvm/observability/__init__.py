"""Observability — what can be seen from outside. It listens to events, as an effector; nothing in the runtime knows of it."""
