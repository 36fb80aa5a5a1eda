"""Model — frozen facts: things that exist, not events. No I/O, no clock, no behaviour beyond shape."""
