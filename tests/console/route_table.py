"""The table of the console's routes, as its source has it, so that a test of every page forgets none, and the way to one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Page, expect

SOURCE = Path(__file__).parents[2] / "console" / "src" / "routes"
_ROW = re.compile(r'\{ path: "([^"]+)", name: "(\w+)"(?:, needs: (\[[^\]]*\]|\w+))?, area: "\w+"(, icon)?')
_NAMED = re.compile(r"^const (\w+) = (\[[^\]]*\]);", re.MULTILINE)

_GO = """path => {
  for (const main of document.querySelectorAll("main")) main.dataset.left = "";
  history.pushState(null, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
}"""
_NOWHERE = "/nowhere"


async def go(page: Page, path: str) -> None:
    """Goes to a path as a link does, without loading the console again; returns when the page before has gone."""
    # Two pages that one component draws would share its elements.
    for each in (_NOWHERE, path):
        await page.evaluate(_GO, each)
        await expect(page.locator("main[data-left]")).to_have_count(0)


@dataclass(frozen=True)
class ConsoleRoute:
    """A page outside the conversations: its pattern, the permissions of which a user needs one, whether the rail has it."""

    path: str
    name: str
    needs: tuple[str, ...]
    is_in_rail: bool
    source: str
    """The file that it is declared in."""

    def address(self, values: Mapping[str, str]) -> str:
        """Returns the path with the values of its parameters."""
        return "/".join(values[part[1:]] if part.startswith(":") else part for part in self.path.split("/"))


def read_routes() -> list[ConsoleRoute]:
    routes: list[ConsoleRoute] = []
    for path in sorted(SOURCE.glob("*.ts")):
        text = path.read_text(encoding="utf-8")
        constants = dict(_NAMED.findall(text))
        rows = _ROW.findall(text)
        assert len(rows) == text.count("{ path:"), path.name
        for pattern, name, needs, icon in rows:
            listed = constants.get(needs, needs)
            routes.append(ConsoleRoute(pattern, name, tuple(re.findall(r'"([^"]+)"', listed)), bool(icon), path.stem))
    return routes
