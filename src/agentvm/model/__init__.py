"""Model — frozen facts: what exists, not what happens. No I/O, no clock, no behaviour beyond shape."""
