"""Schedules — messages that agents receive on a schedule, and triggers that send one on a signed request."""
