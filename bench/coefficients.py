"""Coefficients — the file of the measured coefficients, and its copy that is installed with the package."""

from pathlib import Path
from typing import Any

import msgspec

from agentvm.cost.coefficients import Coefficients

FILE = Path(__file__).parent / "results" / "coefficients.json"
INSTALLED = Path(__file__).parent.parent / "src" / "agentvm" / "cost" / "coefficients.json"
"""What `avm cost` reads, which needs no checkout."""


def save(file: Path, sections: dict[str, Any]) -> None:
    """Writes what was measured; what was not stays as it was, and in a new file as it is in this release."""
    before = msgspec.json.decode((file if file.exists() else FILE).read_bytes())
    whole = msgspec.convert(before | msgspec.to_builtins(sections), Coefficients)
    text = msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
    for path in (FILE, INSTALLED) if file == FILE else (file,):
        path.write_bytes(text)
    print(text.decode())
