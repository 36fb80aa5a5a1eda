"""Testing — doubles and conformance suites that ship with the product."""
