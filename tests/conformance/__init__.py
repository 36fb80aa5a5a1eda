"""Conformance — the checks that a store passes on every database engine; `suite.CHECKS` lists them."""
