"""Testing — conformance checks for the drivers of an embedder."""
