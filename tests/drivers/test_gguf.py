import struct
from pathlib import Path

import pytest
from tests.drivers.weight_files import gguf, text

from agentvm.drivers.gguf import knows_tools


@pytest.mark.parametrize(
    ("content", "knows"),
    [
        (gguf("{% if tools %}{{ tools }}{% endif %}"), True),
        (gguf("{{ messages }}"), False),
        (gguf(None), False),
        (gguf("{{ tools }}")[:-40], False),
        (b"GGUF" + b"\0" * 100, False),
        (b"<html>", False),
        (b"", False),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 2**60) + text(b"odd") + struct.pack("<I", 77), False),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + text(b"nested") + struct.pack("<IIQ", 9, 9, 2**60), False),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + struct.pack("<Q", 2**63) + b"x", False),
    ],
)
def test_the_template_of_the_file_decides(tmp_path: Path, content: bytes, knows: bool) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    assert knows_tools(path) == knows


def test_a_file_that_is_replaced_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    for template, knows in (("{{ tools }}", True), ("{{ messages }}", False)):
        path.write_bytes(gguf(template))
        assert knows_tools(path) == knows
