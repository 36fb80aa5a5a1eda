"""Conformance — one suite per port; whatever plugs in there must pass it."""
