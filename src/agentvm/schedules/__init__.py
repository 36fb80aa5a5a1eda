"""Schedules — messages that agents get at times of a clock, and triggers that send one when they are asked to."""
