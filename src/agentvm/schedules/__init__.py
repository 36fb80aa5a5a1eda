"""Schedules — messages that agents receive on a schedule, and triggers that send one when they are asked to."""
