"""The sentences of settings in Chinese: one for each setting of the server, and no other."""

import re
from pathlib import Path

from agentvm.config.catalogue import SETTINGS

DOCS = Path(__file__).parents[2] / "console" / "src" / "words" / "settings" / "docs_zh.ts"


def test_every_setting_has_its_sentence() -> None:
    assert sorted(re.findall(r'^  "([^"]+)": ".+",$', DOCS.read_text(encoding="utf-8"), re.MULTILINE)) == sorted(SETTINGS)
