"""Names of conversations that clients choose: threads, chats, contexts and keys. They mean nothing to anybody else."""

from tests.gateways.test_repeats import NAMES, requests
from tests.server.http.fixtures import open_world
from tests.server.http.gateway_attempts import gateway_attempts
from tests.server.http.test_isolation import ABSENT, named, snapshot

from agentvm.model.principal import MEMBER


def by_chosen_names(prefix: str) -> list[tuple[str, str, object, list[tuple[bytes, bytes]]]]:
    """Each request that names a conversation as its client has named it: by its path, or by its body."""
    names = {**named(None), "image_id": f"img_{ABSENT}", "session_id": f"{prefix}-thread", "chat_id": f"{prefix}-chat"}
    requests = [request[1:] for request in gateway_attempts(names)]
    listed = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"contextId": f"{prefix}-context"}}
    return [*(one for one in requests if f"{prefix}-" in str(one)), ("POST", "/a2a/default/", listed, [])]


async def test_names_that_clients_have_chosen_lead_nobody_else_anywhere() -> None:
    async with open_world() as world:
        await world.hide(world.acme)
        owner = world.acme.user
        thread = {"thread_id": "acme-thread", "metadata": {"graph_id": "default"}}
        assert (await world.ask("POST", "/langgraph/threads", thread, key=owner)).status == 200
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "contextId": "acme-context"}
        said = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        assert (await world.ask("POST", "/a2a/default/", said, key=owner)).status == 200
        *_, (method, path, body, _) = by_chosen_names("acme")
        assert len((await world.ask(method, path, body, key=owner)).body["result"]["tasks"]) == 1
        bob = await world.key(world.acme.tenant_id, MEMBER, user_id=await world.user(world.acme.tenant_id, "bob"))
        before, compared = await snapshot(world, world.acme), 0
        for key in (world.bolt.admin, bob):
            for foreign, absent in zip(by_chosen_names("acme"), by_chosen_names("none"), strict=True):
                taken, nothing = [
                    (await world.ask(method, path, body, key=key, headers=headers)).but_its_id("acme-", "none-")
                    for method, path, body, headers in (foreign, absent)
                ]
                assert taken == nothing, foreign
                compared += 1
        assert compared > 50
        assert (await snapshot(world, world.acme))[:10] == before[:10]
        assert (await world.ask("GET", "/langgraph/threads/acme-thread", key=owner)).status == 200


async def test_names_that_clients_choose_mean_nothing_to_another_tenant() -> None:
    async with open_world() as world:
        keys = (world.acme.admin, world.bolt.admin)
        for name, (path, body, about) in requests("x").items():
            headers = [(header.encode(), name.encode()) for header in about]
            assert [(await world.ask("POST", path, body, key=key, headers=headers)).status for key in keys] == [200, 200], name
        acme, bolt = [{turn["turnId"] for turn in (await world.ask("GET", "/v1/turns", key=key)).items} for key in keys]
        assert len(acme) == len(bolt) == len(NAMES)
        assert acme.isdisjoint(bolt)
        chat = {"id": "d", "messages": [{"role": "user", "parts": [{"type": "text", "text": "x"}]}]}
        await world.ask("POST", "/ai-sdk/default", chat, key=world.acme.admin)
        taken, absent = [
            await world.ask("GET", f"/ai-sdk/default/{name}/stream", key=world.bolt.admin) for name in ("d", "never")
        ]
        assert (taken.status, taken.raw) == (absent.status, absent.raw) == (204, b"")


async def test_items_that_clients_keep_are_nothing_to_anybody_else() -> None:
    async with open_world() as world:
        item = {"namespace": ["a"], "key": "k", "value": {"secret": 1}}
        name = {"namespace": ["a"], "key": "k"}
        owner, bob = [
            await world.key(world.acme.tenant_id, MEMBER, user_id=await world.user(world.acme.tenant_id, user))
            for user in ("amy", "bob")
        ]
        assert (await world.ask("PUT", "/langgraph/store/items", item, key=owner)).status == 204
        containers = (await world.ask("GET", "/v1/containers", key=owner)).items
        headers = [(b"x-avm-container", str(containers[0]["containerId"]).encode())]
        for key, about in ((world.bolt.admin, []), (bob, []), (world.bolt.admin, headers)):
            for method, path, body, empty in (
                ("GET", "items?namespace=a&key=k", None, b"null"),
                ("POST", "items/search", {}, b'{"items":[]}'),
                ("POST", "namespaces", {}, b'{"namespaces":[]}'),
                ("DELETE", "items", name, b""),
            ):
                answer = await world.ask(method, f"/langgraph/store/{path}", body, key=key, headers=about)
                assert (answer.status // 100, answer.raw) == (2, empty), (method, path)
        aimed = await world.ask("POST", "/langgraph/store/items/search", {}, key=bob, headers=headers)
        assert (aimed.status, aimed.body["error"]) == (403, "container_forbidden")
        kept = await world.ask("GET", "/langgraph/store/items?namespace=a&key=k", key=owner, headers=headers)
        assert kept.body["value"] == {"secret": 1}
