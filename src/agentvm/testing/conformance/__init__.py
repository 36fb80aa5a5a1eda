"""Conformance — `driver` has the checks that every driver must pass."""
