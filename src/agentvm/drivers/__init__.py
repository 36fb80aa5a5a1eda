"""Drivers — adapters to model providers, each an async iterator of typed outputs."""
