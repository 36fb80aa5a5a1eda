"""Hooks — requests of chat platforms, which have no key of this server: each is authenticated by a secret of its channel."""

from collections.abc import Iterator
from typing import Final

import msgspec

from agentvm.channels.host import HOOKS_PATH
from agentvm.errors import NotFound
from agentvm.model.channel import PlatformHook
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.server.exchange import HttpRequest, HttpResponse
from agentvm.server.http.body import receive_body
from agentvm.server.router import HttpRoute
from agentvm.sharing.reservation import ConnectionReservation
from agentvm.vm import AgentVM

PATH: Final = f"{HOOKS_PATH}/{{kind}}/{{channel_id}}"
BODY_MAX_BYTES: Final = 1024 * 1024
NO_HOOK: Final = "No channel accepts this request"
"""The same answer for an unknown channel and for an unauthenticated request."""


def hook_routes(vm: AgentVM) -> Iterator[HttpRoute]:
    async def take(request: HttpRequest) -> HttpResponse:
        reservation = ConnectionReservation(vm.budget, DEFAULT_TENANT)
        try:
            hook = PlatformHook(headers=request.headers, body=await receive_body(request, reservation))
        finally:
            reservation.hold(0)
        named = request.path_params
        answer = None if vm.channels is None else await vm.channels.take_hook(named["kind"], named["channel_id"], hook)
        if answer is None:
            raise NotFound(NO_HOOK)
        return HttpResponse(content=msgspec.json.encode(answer.content), headers={"Cache-Control": "no-store"})

    yield HttpRoute("POST", PATH, take, BODY_MAX_BYTES)
