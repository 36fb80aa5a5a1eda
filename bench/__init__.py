"""Benchmarks — each file runs alone and prints ratios against a floor measured in the same run."""
