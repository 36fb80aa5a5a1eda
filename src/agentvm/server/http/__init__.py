"""HTTP — the management API: one file per noun, all of them behind one gate."""

from collections.abc import Callable

from litestar.handlers import HTTPRouteHandler

from agentvm.app import AgentVM
from agentvm.server.http import audit, config, keys, providers, quotas, secrets, tenants, usage, users, wallet
from agentvm.server.http.gate import Gate
from agentvm.server.http.route import Route

ROUTES: tuple[Route, ...] = tuple(
    route
    for noun in (keys, tenants, users, quotas, usage, wallet, secrets, config, audit, providers)
    for route in noun.routes.all
)


def handlers(vm: AgentVM, bound_to: Callable[[], str]) -> list[HTTPRouteHandler]:
    gate = Gate(vm, bound_to)
    return [gate.handler(route) for route in ROUTES]
