"""Provision — programs that some tests need, fetched from the package registries without root."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache" / "provision"


class Unavailable(Exception):
    """A program cannot be had on this machine; the text says why and what would help."""
