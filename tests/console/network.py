"""Networks that fail: sockets that are closed, and none that open again."""

import contextlib

from playwright.async_api import Error, Page, WebSocketRoute

from agentvm.runtime.channel import GOING_AWAY
from agentvm.server.local import RunningServer


def cut(server: RunningServer) -> None:
    """Closes every socket, as a network does that fails."""
    for channel in server.server.vm.runtime.broadcaster.channels:
        channel.close(GOING_AWAY)


class Cable:
    """The connection of the pages of a context: unplugged, no socket opens. Chromium's own offline mode lets some through."""

    def __init__(self) -> None:
        self._is_plugged = True
        self._page: Page | None = None
        self._sockets: list[tuple[WebSocketRoute, WebSocketRoute]] = []

    async def lay(self, page: Page) -> None:
        self._page = page
        await page.context.route_web_socket("**/ws", self._connect)
        # The way round a network that lets no WebSocket through.
        await page.context.route("**/ws", lambda route: route.fallback() if self._is_plugged else route.abort())
        await page.reload()

    async def _connect(self, page: WebSocketRoute) -> None:
        if not self._is_plugged:
            await page.close(code=GOING_AWAY.code)
            return
        server = page.connect_to_server()
        server.on_message(page.send)
        self._sockets.append((page, server))

    async def unplug(self) -> None:
        self._is_plugged = False
        while self._sockets:
            for side in self._sockets.pop():
                # A page that was loaded again has closed its own.
                with contextlib.suppress(Error):
                    await side.close(code=GOING_AWAY.code)

    async def plug(self) -> None:
        """Plugs in again, and tells the page, as a browser does: it need not wait for its next attempt."""
        self._is_plugged = True
        if self._page is not None:
            await self._page.evaluate("dispatchEvent(new Event('online'))")
