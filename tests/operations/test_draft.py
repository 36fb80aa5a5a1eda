from tests.server.http.fixtures import open_world

from agentvm.model.ids import ContainerId
from agentvm.model.principal import MEMBER


async def test_a_draft_is_kept_changed_and_removed() -> None:
    async with open_world() as world:
        path = f"/v1/sessions/{await world.say(world.acme, 'hello')}"
        kept = (await world.ask("PUT", f"{path}/draft", {"text": "a  b", "device": "phone"}, key=world.acme.admin)).body[
            "draft"
        ]
        assert (kept["text"], kept["device"], kept["updatedAt"]) == ("a  b", "phone", world.clock())
        listed = (await world.ask("GET", "/v1/drafts?container=private", key=world.acme.admin)).items
        assert [one["preview"] for one in listed] == ["a b"]
        late = {"text": "c", "device": "phone", "ifUpdatedAt": 1}
        refused = await world.ask("PUT", f"{path}/draft", late, key=world.acme.admin)
        assert (refused.status, refused.code) == (412, "precondition_failed")
        assert refused.body["error"]["details"]["draft"]["text"] == "a  b"
        assert (await world.ask("DELETE", f"{path}/draft?device=phone", key=world.acme.admin)).status == 204
        assert (await world.ask("GET", f"{path}/drafts", key=world.acme.admin)).items == []
        assert "draft" not in str(await world.audit(world.acme.tenant_id))


async def test_users_of_one_container_do_not_read_each_others_drafts() -> None:
    async with open_world() as world:
        bob_id = await world.user(world.acme.tenant_id, "bob")
        await world.vm.tenancy.people.bind(world.acme.tenant_id, bob_id, ContainerId("shared"))
        bob = await world.key(world.acme.tenant_id, MEMBER, user_id=bob_id)
        path = f"/v1/sessions/{await world.say(world.acme, 'hello', container='shared')}"
        assert (await world.ask("PUT", f"{path}/draft", {"text": "secret"}, key=world.acme.user)).status == 200
        for key in (bob, world.acme.admin):
            assert (await world.ask("GET", f"{path}/drafts", key=key)).items == []
            assert (await world.ask("GET", "/v1/drafts", key=key)).items == []
            assert (await world.ask("DELETE", f"{path}/draft", key=key)).status == 204
        mine = (await world.ask("GET", f"{path}/drafts", key=world.acme.user)).items
        assert [one["text"] for one in mine] == ["secret"]
        assert (await world.ask("GET", f"{path}/drafts", key=world.bolt.admin)).status == 404
