"""Tiers — the places where foreign code runs. Nothing foreign ever runs in the server's own process."""
