"""Every route that is served, asked with credentials that must not be enough. A route that is added is asked by itself."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import msgspec
import pytest
from tests.server.fixtures import open_socket
from tests.server.http import fixtures
from tests.server.http.fixtures import Account, Reply, World
from tests.server.http.gateway_attempts import (
    gateway_attempts,
    gateway_body,
    gateway_headers,
    gateway_routes,
    socket_attempts,
)

from agentvm.model.ids import ContainerId, SessionId
from agentvm.model.principal import MEMBER
from agentvm.operations.http_face import HttpFace
from agentvm.server.http import FACES
from agentvm.storage.resources import Search
from agentvm.storage.sessions import SessionQuery

ABSENT = "nope"
BODIES: dict[str, object] = {
    "cron": "@daily",
    "message": "x",
    "fingerprint": "sha256:0",
    "cite": "resource://knowledge/none@1.0.0#a:0-1",
    "rating": "up",
    "entries": [
        {
            **dict.fromkeys(("id", "containerId", "imageId", "sessionId", "turnId", "driver", "model"), "x"),
            "at": 1,
            "usage": {"inputTokens": 1, "outputTokens": 1},
        }
    ],
    "decision": "deny",
    **dict.fromkeys(("text", "name", "slug", "value", "externalId"), "x"),
    "metric": "connections",
    "hard": 1,
    "reference": "x",
    "amountUsd": "1",
    "type": "prompts",
    "path": "notes.txt",
    "content": {"text": "x"},
    "version": "1.0.0",
    "yanked": True,
    "changes": {"defaults": {"maxTokens": 9}},
    "to": 0,
    "from": 0,
    "q": "x",
    "messageId": "x",
    "secret": "API_KEY",
    "server": "https://mcp.example/mcp",
    "tool": "calculator",
    "as": "header",
    "hosts": ["api.example.org"],
    "url": "https://192.0.2.1/hook",
    "events": ["turn.failed"],
    "kind": "telegram",
    "agent": "default",
    "before": 1,
}
"""Something sensible for each member that some route takes and that names nothing of a tenant."""
SAID: dict[tuple[str, str], object] = {
    ("POST /v1/sessions/{session_id}/edit", "content"): "x",
    ("POST /v1/messages", "content"): "x",
}
"""Where it is something else than the others take."""


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    async with fixtures.open_world() as world:
        await world.hide(world.acme)
        await world.hide(world.bolt)
        yield world


@dataclass(frozen=True, slots=True)
class Attempt:
    """One route, aimed at something of a tenant, or at the same thing of nobody."""

    path: str
    body: dict[str, object] | None


def named(account: Account | None) -> dict[str, str]:
    """What a path or a body may name of a tenant; without one, what does not exist."""
    if account is None:
        wanted = (
            "key_id user_id tenant resource_id turn_id session session_id attachment image_id wait_id "
            "browser_session_id invitation_id webhook_id channel_id schedule_id trigger_id share_id "
            "collection_id"
        )
        names = dict.fromkeys(wanted.split(), ABSENT)
    else:
        names = {
            "key_id": account.user_key_id,
            "user_id": account.user_id,
            "tenant": account.slug,
            "resource_id": account.resource_id,
            "turn_id": account.turn_id,
            "session": account.session_id,
            "session_id": account.session_id,
            "attachment": account.attachment,
            "image_id": account.image_id,
            "wait_id": account.wait_id,
            "browser_session_id": account.browser_session_id,
            "invitation_id": account.invitation_id,
            "webhook_id": account.webhook_id,
            "channel_id": account.channel_id,
            "schedule_id": account.schedule_id,
            "trigger_id": account.trigger_id,
            "share_id": account.share_id,
            "collection_id": account.collection_id,
        }
    uri = f"resource://prompts/{names['tenant']}/private"
    gateway = {"response_id": f"resp_{names['turn_id']}", "conversation_id": f"conv_{names['session_id']}", "chat_id": "chat"}
    return {**names, **gateway, "uri": uri, "depends_on": uri}


PLAIN = {
    "name": "API_KEY",
    "container_id": "shared",
    "version": "1.0.0",
    "tag": "stable",
    "digest": f"sha256:{'0' * 64}",
    "key": "defaults.maxTokens",
    "call_id": "c1",
    "definition_name": "default",
    "path": "notes.txt",
    "number": "1",
    # Of the whole server: nobody's tenant has a node.
    "node_id": "999999",
    "memory_id": "mem_1",
    "document": "notes.txt",
}


def given(route: HttpFace, names: dict[str, str], *, optional: bool) -> dict[str, object]:
    """The members a route needs, and with `optional` also those that name something."""
    found: dict[str, object] = {}
    for member in (*msgspec.structs.fields(route.body), *msgspec.structs.fields(route.query)):
        if member.type is object:
            # Not read: an answer of GET may be sent back as it is.
            if member.required:
                found[member.encode_name] = 5
        elif member.name in names and (member.required or optional):
            found[member.encode_name] = names[member.name]
        elif (route.name, member.encode_name) in SAID:
            found[member.encode_name] = SAID[route.name, member.encode_name]
        elif member.encode_name in BODIES and (member.required or member.encode_name in ("hard", "amountUsd")):
            found[member.encode_name] = BODIES[member.encode_name]
        elif member.required:
            pytest.fail(f"{route.name} needs {member.encode_name}: say in BODIES what to send")
    return found


def attempts(route: HttpFace, account: Account | None) -> Iterator[Attempt]:
    """Each way to aim at a tenant: by the path, by a member of the body or the query, by `?tenant=`."""
    names = named(account)
    parameters = [part[1:-1].partition(":")[0] for part in route.path.split("/") if part.startswith("{")]
    if missing := [name for name in parameters if name not in names | PLAIN]:
        pytest.fail(f"{route.name}: say in named() what {missing[0]} is")

    def build(own: dict[str, str], members: dict[str, object], tenant: str | None) -> Attempt:
        path = route.path
        for name in parameters:
            path = path.replace(f"{{{name}}}", quote((own | PLAIN)[name], safe=""))
        in_query = route.query
        asked = {member.encode_name for member in msgspec.structs.fields(in_query)}
        query = {name: str(value) for name, value in members.items() if name in asked}
        if tenant is not None:
            query["tenant"] = tenant
        body = {name: value for name, value in members.items() if name not in asked}
        return Attempt(f"{path}?{urlencode(query)}", body if route.method in ("POST", "PUT") else None)

    if set(parameters) & set(names):
        yield build(names, given(route, names, optional=False), None)
    with_names = given(route, names, optional=True)
    # Who asks for the list of somebody else's things is given an empty one, as of nobody; that is asked below.
    if any(value in names.values() for value in with_names.values()) and not (route.method == "GET"):
        yield build(names, with_names, None)
    if route.operation.across:
        yield build(names, given(route, names, optional=False), names["tenant"])


async def send(world: World, route: HttpFace, attempt: Attempt, key: str) -> Reply:
    return await world.ask(route.method, attempt.path, attempt.body, key=key)


def without_names(reply: Reply, account: Account | None) -> tuple[int, bytes]:
    """All that may tell one refusal from another, but for what the asker has named themselves."""
    return reply.but_its_id(*longest_first(named(account)))


def longest_first(names: Mapping[str, str]) -> list[str]:
    """The names without repetition, so that no name is cut out of a longer one."""
    return sorted(set(names.values()), key=len, reverse=True)


async def snapshot(world: World, account: Account) -> tuple[object, ...]:
    """All that others must not change; last the audit log."""
    accounts = world.vm.tenancy.store.accounts(account.tenant_id)
    home = world.vm.tenancy.store.tenant(account.tenant_id).container(ContainerId("private"))
    return (
        await world.vm.tenancy.store.directory.get_tenant(account.tenant_id),
        await accounts.users.list(),
        await accounts.users.bound(account.user_id),
        [msgspec.structs.replace(key, last_used_at=None) for key in await accounts.keys.list()],
        await accounts.browser_sessions.list(account.user_id, None, idle_since=0, now=0),
        await accounts.invitations.list(),
        await accounts.quotas.list(),
        await accounts.secrets.list(),
        await accounts.ledger.wallet(),
        await world.vm.resources.store.resources(account.tenant_id).search(Search(scope="own")),
        await world.vm.tenancy.store.tenant(account.tenant_id).sessions(None).list(SessionQuery(archived=None)),
        await home.attachments.list(),
        await home.files(SessionId(account.session_id)).list(),
        await world.vm.tenancy.store.read_settings(),
        await accounts.audit.list(),
    )


async def test_every_route_that_is_served_is_asked_below() -> None:
    async with open_world() as world:
        routes = [route for route in world.app.http.routes if route.is_gated and route.method != "HEAD"]
        served = {f"{route.method} {route.path.replace(':path}', '}')}" for route in routes}
        gateways = {f"{method} {path.replace(':path}', '}')}" for method, path, _ in gateway_routes()}
        # Those of a link are tested in `tests/server/test_http_socket.py`.
        sockets = {"POST /ws", "POST /ws/{link}"}
        assert served == {route.name for route in FACES} | gateways | sockets


async def test_another_tenant_is_refused_by_gateways_as_if_there_were_nothing() -> None:
    nobody = {**named(None), "image_id": f"img_{ABSENT}"}
    async with open_world() as world:
        before = await snapshot(world, world.acme)
        for foreign, absent in zip(gateway_attempts(named(world.acme)), gateway_attempts(nobody), strict=True):
            replies = []
            for (_, method, path, body, headers), account in ((foreign, world.acme), (absent, None)):
                reply = await world.ask(method, path, body, key=world.bolt.admin, headers=headers)
                # A call of JSON-RPC is refused in its own answer.
                assert reply.status in (400, 403, 404) or b'"error":{"code":-32001,' in reply.raw, foreign
                status, raw = without_names(reply, account)
                replies.append((status, raw.replace(b"img_", b"")))
            assert replies[0] == replies[1], foreign
        assert await snapshot(world, world.acme) == before


async def test_a_colleague_is_refused_by_gateways_as_if_there_were_nothing() -> None:
    nobody = {**named(None), "image_id": f"img_{ABSENT}"}
    async with open_world() as world:
        bob = await world.user(world.acme.tenant_id, "bob")
        key = await world.key(world.acme.tenant_id, MEMBER, user_id=bob)
        before = await snapshot(world, world.acme)
        private = world.vm.tenancy.store.tenant(world.acme.tenant_id).sessions((ContainerId("private"),))
        sessions, refused = await private.list(SessionQuery(archived=None)), 0
        for foreign, absent in zip(gateway_attempts(named(world.acme)), gateway_attempts(nobody), strict=True):
            if f"{world.acme.slug}/private" in str(foreign[3]):
                # Resources are of the tenant, and so of the colleague.
                continue
            replies = []
            for (_, method, path, body, headers), account in ((foreign, world.acme), (absent, None)):
                reply = await world.ask(method, path, body, key=key, headers=headers)
                assert reply.status in (400, 403, 404) or b'"error":{"code":-32001,' in reply.raw, foreign
                status, raw = without_names(reply, account)
                replies.append((status, raw.replace(b"img_", b"")))
            assert replies[0] == replies[1], foreign
            refused += 1
        assert refused > 60
        # A request may begin a conversation of the colleague's own.
        assert (await snapshot(world, world.acme))[:10] == before[:10]
        assert await private.list(SessionQuery(archived=None)) == sessions


async def test_others_are_refused_by_sockets_of_gateways_as_if_there_were_nothing() -> None:
    nobody = {**named(None), "image_id": f"img_{ABSENT}"}
    async with open_world() as world:
        bob = await world.user(world.acme.tenant_id, "bob")
        before, refused = await snapshot(world, world.acme), 0
        for key in (world.bolt.admin, await world.key(world.acme.tenant_id, MEMBER, user_id=bob)):
            attempted = zip(socket_attempts(named(world.acme)), socket_attempts(nobody), strict=True)
            for foreign, absent in attempted:
                refusals = []
                for (path, frame), names in ((foreign, named(world.acme)), (absent, nobody)):
                    async with open_socket(world.app, path, key=key) as socket:
                        await socket.send(frame)
                        refusal = json.dumps(await socket.read("error"))
                        await socket.leave()
                    for name in longest_first(names):
                        refusal = refusal.replace(name, "")
                    refusals.append(refusal)
                assert refusals[0] == refusals[1], foreign
                refused += 1
        assert refused > 12
        assert (await snapshot(world, world.acme))[6:10] == before[6:10]
        for path, _ in socket_attempts(named(world.acme)):
            async with open_socket(world.app, path, key="avm_wrong") as socket:
                assert (await socket.from_server.receive())["type"] == "websocket.http.response.start"


async def test_without_credentials_gateways_answer_nothing() -> None:
    async with open_world() as world:
        for method, path, route in gateway_routes():
            body = gateway_body(method, route, named(world.acme))
            reply = await world.ask(method, path, body, key="", headers=gateway_headers(body))
            assert reply.status == 401, path
            assert reply.headers["www-authenticate"].split(" ")[0] == "Bearer"


async def test_too_few_permissions_are_refused_by_gateways() -> None:
    async with open_world() as world:
        key = await world.key(world.acme.tenant_id, ["images:read"])
        for method, path, route in gateway_routes():
            body = gateway_body(method, route, named(world.acme))
            assert (await world.ask(method, path, body, key=key, headers=gateway_headers(body))).status == 403, path


async def test_another_tenant_is_refused_as_if_there_were_nothing() -> None:
    async with open_world() as world:
        before = await snapshot(world, world.acme)
        for route in FACES:
            for foreign, absent in zip(attempts(route, world.acme), attempts(route, None), strict=True):
                refused = await send(world, route, foreign, world.bolt.admin)
                assert refused.status in (403, 404), (route.name, foreign)
                unknown = await send(world, route, absent, world.bolt.admin)
                assert without_names(refused, world.acme) == without_names(unknown, None), (route.name, foreign)
            assert await snapshot(world, world.acme) == before, route.name


async def test_without_credentials_nothing_is_answered() -> None:
    async with open_world() as world:
        before = await snapshot(world, world.acme)
        for route in (route for route in FACES if route.http.caller != "nobody"):
            wanted = [*attempts(route, world.acme), *attempts(route, None)] or [Attempt(route.path, None)]
            replies = [await send(world, route, attempt, "") for attempt in wanted]
            assert {reply.status for reply in replies} == {401}, route.name
            assert len({reply.but_its_id() for reply in replies}) == 1, route.name
            assert replies[0].headers["www-authenticate"] == "Bearer", route.name
        assert await snapshot(world, world.acme) == before


async def test_a_colleague_with_too_few_permissions_is_refused() -> None:
    async with open_world() as world:
        bob = await world.user(world.acme.tenant_id, "bob")
        keys = {
            little: await world.key(world.acme.tenant_id, [little], user_id=bob) for little in ("resources:read", "images:read")
        }
        before = await snapshot(world, world.acme)
        for route in (route for route in FACES if route.operation.needs):
            key = keys["resources:read" if "images:read" in route.operation.needs else "images:read"]
            plain = Attempt(route.path, given(route, named(None), optional=False) if route.method in ("POST", "PUT") else None)
            for attempt in list(attempts(route, world.acme)) or [plain]:
                reply = await send(world, route, attempt, key)
                if route.name == "GET /v1/auth/keys":
                    assert {item["userId"] for item in reply.items} == {bob}
                else:
                    assert reply.status in (403, 404), (route.name, attempt)
            # The refusals are in the audit log of their own tenant, and nothing else is different.
            assert (await snapshot(world, world.acme))[:-1] == before[:-1], route.name


async def test_nothing_of_another_tenant_is_in_any_answer() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.spend(acme.tenant_id, "1", user_id=acme.user_id)
        secrets = (
            *(acme.tenant_id, acme.user_key_id, acme.user_id, acme.attachment),
            *("secret of", "prompt of acme", "said by acme", "file of acme"),
        )
        for route in (route for route in FACES if route.method == "GET"):
            path = route.path
            for name, value in (named(world.bolt) | PLAIN).items():
                path = path.replace(f"{{{name}}}", quote(value, safe=""))
            for query in ("", f"?userId={acme.user_id}"):
                reply = await world.ask("GET", path + query, key=world.bolt.admin)
                assert not [secret for secret in secrets if secret.encode() in reply.raw], route.name
