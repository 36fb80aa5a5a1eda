import httpx2
import pytest
from tests.gateways.scene import scene
from tests.server.http.fixtures import open_world

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings

CARD = ".well-known/agent-card.json"


async def test_a_card_names_the_address_and_is_not_sent_twice() -> None:
    async with scene() as served, httpx2.AsyncClient(base_url=served.http, trust_env=False, timeout=60) as http:
        shown = await http.get(f"/a2a/default/{CARD}")
        card, tag = shown.json(), shown.headers["etag"]
        assert card["supportedInterfaces"] == [
            {"url": f"{served.http}/a2a/default/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ]
        assert card["capabilities"]["streaming"] is True
        assert tag.startswith('W/"')
        assert (await http.get(f"/a2a/default/{CARD}", headers={"if-none-match": tag})).status_code == 304
        assert (await http.get(f"/a2a/nobody/{CARD}")).status_code == 404


async def test_a_card_is_for_those_who_may_use_the_agent_and_a_foreign_task_is_none() -> None:
    async with open_world() as world:
        await world.hide(world.acme)
        assert (await world.ask("GET", f"/a2a/default/{CARD}", key="")).status == 401
        assert (await world.ask("GET", f"/a2a/default/{CARD}", key=world.acme.user)).status == 200
        answers = []
        for turn_id in (world.acme.turn_id, "turn_nope"):
            for method in ("GetTask", "CancelTask", "SubscribeToTask"):
                call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": turn_id}}
                reply = await world.ask("POST", "/a2a/default/", call, key=world.bolt.user)
                answers.append(reply.but_its_id(turn_id)[1])
        assert len(set(answers)) == 1
        assert b"-32001" in answers[0]


async def test_tasks_are_listed_for_those_who_may_read_sessions() -> None:
    async with open_world() as world:
        call = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
        key = await world.key(world.acme.tenant_id, ["agent:use"])
        refused = await world.ask("POST", "/a2a/default/", call, key=key)
        assert (refused.status, b"sessions:read" in refused.raw) == (403, True)
        assert (await world.ask("POST", "/a2a/default/", call, key=world.acme.user)).status == 200


@pytest.mark.parametrize(("trusted", "scheme"), [((), "http"), (("127.0.0.1",), "https")])
async def test_a_card_behind_tls_has_the_scheme_that_a_trusted_proxy_names(trusted: tuple[str, ...], scheme: str) -> None:
    system = SystemSettings(port=0, data_dir=MEMORY, auth="on", trusted_proxies=trusted, shutdown_seconds=0)
    async with start_server(ServerConfig(system=system), drivers={"scripted": ScriptedDriver()}) as running:
        key = running.server.vm.first_key
        assert key is not None
        headers = {"Authorization": f"Bearer {key.reveal()}", "X-Forwarded-Proto": "https"}
        async with httpx2.AsyncClient(base_url=running.url, trust_env=False, headers=headers, timeout=60) as http:
            card = (await http.get(f"/a2a/default/{CARD}")).json()
        assert card["supportedInterfaces"][0]["url"] == f"{scheme}://127.0.0.1:{running.port}/a2a/default/"


async def test_a_published_card_is_shown_without_a_key_and_the_server_has_one_if_that_is_configured() -> None:
    async with open_world() as world:
        paths = [f"/a2a/default/{CARD}", f"/a2a/nobody/{CARD}", f"/{CARD}"]
        assert [(await world.ask("GET", path, key="")).status for path in paths] == [401, 401, 401]
        assert (await world.ask("GET", paths[2], key=world.acme.user)).status == 404
        changes = {"gateways": {"a2a": {"published": ["default"], "default": "default"}}}
        assert (await world.ask("PUT", "/v1/config", {"changes": changes})).status == 200
        shown = [await world.ask("GET", path, key="") for path in paths]
        assert [reply.status for reply in shown] == [200, 401, 200]
        assert shown[0].raw == shown[2].raw
        assert shown[0].headers["cache-control"] == "public, max-age=60"
        # The card of a tenant is nobody else's, whatever name it has.
        own = await world.ask("GET", paths[0], key=world.acme.user)
        assert (own.headers["cache-control"], own.headers["vary"]) == ("private, max-age=60", "Authorization, Cookie")
        # To use the agent needs a key all the same, and a wrong key is told.
        call = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "turn_nope"}}
        assert (await world.ask("POST", "/a2a/default/", call, key="")).status == 401
        assert (await world.ask("GET", paths[0], key="avm_wrong")).status == 401
        # The card of the server is for those with a key, if its agent is not published.
        changes = {"gateways": {"a2a": {"published": []}}}
        assert (await world.ask("PUT", "/v1/config", {"changes": changes})).status == 200
        assert (await world.ask("GET", paths[2], key="")).status == 401
        assert (await world.ask("GET", paths[2], key=world.acme.user)).status == 200
