from tests.server.http.fixtures import open_world

from agentvm.model.principal import MEMBER, Principal
from agentvm.operations.dispatch import answer
from agentvm.operations.session import SessionSetTitle


async def test_what_was_done_is_listed_newest_first_with_who_and_from_where() -> None:
    async with open_world() as world:
        admin = world.acme.admin
        who = (await world.ask("GET", "/v1/auth/whoami", key=admin)).body["keyId"]
        put = await world.ask("PUT", "/v1/secrets/A", {"value": "x"}, key=admin)
        await world.ask("DELETE", "/v1/secrets/B", key=admin)
        newest, older = (await world.ask("GET", "/v1/audit", key=admin)).items
        assert (newest["action"], newest["target"], newest["result"]) == ("secret.delete", "B", "refused:not_found")
        assert older == {
            "number": older["number"],
            "at": world.clock(),
            "tenantId": world.acme.tenant_id,
            "actor": who,
            "action": "secret.put",
            "target": "A",
            "result": "ok",
            "address": "10.0.0.7",
            "requestId": put.headers["x-request-id"],
        }


async def test_a_command_is_listed_with_the_object_that_it_names() -> None:
    async with open_world() as world:
        image = (await world.ask("POST", "/v1/images", {"container": "c1", "config": {}}, key=world.acme.admin)).body["image"]
        peer = world.vm.attach(Principal(tenant_id=world.acme.tenant_id, permissions=MEMBER, containers=("c1",)))
        await answer(peer, SessionSetTitle(session_id=image["sessionId"], title="Orders"), "r")
        (newest, *_) = (await world.ask("GET", "/v1/audit", key=world.acme.admin)).items
        assert (newest["action"], newest["target"], newest["result"]) == ("session.change", image["sessionId"], "ok")


async def test_the_log_is_read_in_pages_and_by_action() -> None:
    async with open_world() as world:
        for number in range(5):
            await world.ask("PUT", f"/v1/secrets/A{number}", {"value": "x"}, key=world.acme.admin)
        await world.ask("DELETE", "/v1/secrets/A0", key=world.acme.admin)
        first = await world.ask("GET", "/v1/audit?limit=4", key=world.acme.admin)
        rest = await world.ask("GET", f"/v1/audit?limit=4&cursor={first.body['nextCursor']}", key=world.acme.admin)
        targets = [entry["target"] for entry in first.items + rest.items]
        assert targets == ["A0", "A4", "A3", "A2", "A1", "A0"]
        assert "nextCursor" not in rest.body
        deleted = await world.ask("GET", "/v1/audit?action=secret.delete", key=world.acme.admin)
        assert [entry["target"] for entry in deleted.items] == ["A0"]
        assert (await world.ask("GET", "/v1/audit?cursor=x", key=world.acme.admin)).status == 400


async def test_reading_leaves_no_trace_and_users_do_not_read_it() -> None:
    async with open_world() as world:
        await world.ask("GET", "/v1/users", key=world.acme.admin)
        await world.ask("GET", "/v1/users", key=world.acme.user)
        assert (await world.ask("GET", "/v1/audit", key=world.acme.user)).status == 403
        assert await world.audit(world.acme.tenant_id) == []
