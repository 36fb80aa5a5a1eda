"""A console that is told more than it keeps while it reads a conversation."""

import json
from typing import Any

from playwright.async_api import WebSocketRoute, expect
from tests.console.conftest import Open
from tests.console.test_actions import begin
from tests.console.test_journeys import IN_MEMORY, driver

from agentvm import start_server
from agentvm.drivers.scripted import echo

KEPT_MAX = 2_000


class Flood:
    """A network on which many events follow the first history, before the session itself is told."""

    def __init__(self) -> None:
        self.histories = 0

    def connect(self, page: WebSocketRoute) -> None:
        server = page.connect_to_server()

        def tell(text: str | bytes) -> None:
            page.send(text)
            frame = json.loads(text)
            if frame.get("type") == "session_history_response":
                self.histories += 1
                if self.histories == 1:
                    for event in self._events(frame["data"]):
                        page.send(json.dumps(event))

        server.on_message(tell)

    def _events(self, page: dict[str, Any]) -> list[dict[str, Any]]:
        context = {"sessionId": page["sessionId"], "turnId": "turn_flood"}
        first = int(page["logCursor"]) + 1
        return [
            {
                "type": "text_delta",
                "timestamp": 1,
                "category": "stream",
                "data": {"text": "x"},
                "context": context,
                "cursor": str(at),
            }
            for at in range(first, first + KEPT_MAX + 1)
        ]


async def test_more_events_than_are_kept_are_read_from_the_store(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(echo)) as server:
        page = await open_page(server.url)
        await begin(page, "one")
        await expect(page.locator(".bill-amounts")).to_have_count(1)
        shown = await page.locator(".log-inner").text_content() or ""
        flood = Flood()
        await page.route_web_socket("**/ws", flood.connect)
        await page.reload()
        await expect(page.locator(".log")).to_have_attribute("aria-busy", "false")
        await expect(page.locator(".log-inner")).to_have_text(shown)
        assert flood.histories == 2
