import pytest
from tests.commands.fixtures import Desk, open_desk

from agentvm.model.account import Quota
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.principal import Principal

pytestmark = pytest.mark.anyio

TEXT = {"text": "Sell {{product}}."}
SALES = {"type": "prompt", "name": "sales-v2", "content": TEXT, "description": "Sells", "tags": ["销售"]}


async def test_a_prompt_is_registered_found_resolved_and_referred_to() -> None:
    async with open_desk() as desk:
        made = await desk.ask("resource_register", **SALES)
        assert (made["uri"], made["version"]) == ("resource://prompts/sales-v2@1.0.0", "1.0.0")
        found = await desk.ask("resource_list", q="销售")
        assert [record["uri"] for record in found["records"]] == ["resource://prompts/sales-v2"]
        assert found["total"] == 1
        resolved = await desk.ask("resource_resolve", uri="resource://prompts/sales-v2", args={"product": "tea"})
        assert (resolved["rendered"], resolved["digest"]) == ("Sell tea.", made["digest"])
        config = {"systemPrompt": "resource://prompts/sales-v2", "variables": {"product": "tea"}}
        image = (await desk.ask("image_create", containerId="c1", config=config))["record"]
        assert image["systemPrompt"] == "Sell tea."


async def test_registering_the_same_again_changes_nothing_and_another_is_a_conflict() -> None:
    async with open_desk() as desk:
        first = await desk.ask("resource_register", **SALES)
        assert await desk.ask("resource_register", **SALES) == first
        other = await desk.ask("resource_register", **{**SALES, "content": {"text": "Other."}})
        assert other["errorCode"] == "resource_exists"
        assert all(way in other["error"] for way in ("PUT /v1/resources/{id}", "resource_publish", "--bump"))


async def test_a_new_version_is_published_by_number_or_as_the_next() -> None:
    async with open_desk() as desk:
        made = await desk.ask("resource_register", **SALES)
        uri, more = "resource://prompts/sales-v2", {"text": "Sell more {{product}}."}
        assert (await desk.ask("resource_publish", uri=uri, content=more))["uri"] == f"{uri}@1.0.1"
        found = await desk.ask("resource_publish", uri=made["record"]["id"], content=TEXT, bump="major", tag="stable")
        assert (found["version"], found["digest"]) == ("2.0.0", made["digest"])
        told = await desk.ask("resource_publish", uri=uri, content=more, version="2.1.0", description="Sells more", tags=["a"])
        assert (told["version"], told["record"]["description"], told["record"]["tags"]) == ("2.1.0", "Sells more", ["a"])
        stable = await desk.ask("resource_resolve", uri=f"{uri}@stable", args={"product": "tea"})
        assert (stable["resolved"], stable["rendered"]) == (f"{uri}@2.0.0", "Sell tea.")
        entries = await desk.peer.workspace.accounts.audit.list(action="resource.change")
        assert [(entry.target, entry.result) for _, entry in entries] == [("prompts/sales-v2", "ok")] * 3


async def test_a_version_never_changes_and_others_resources_are_not_published() -> None:
    async with open_desk() as desk:
        await desk.ask("resource_register", **SALES)
        uri, other = "resource://prompts/sales-v2", {"text": "Other."}

        async def code(**data: object) -> object:
            return (await desk.ask("resource_publish", **data))["errorCode"]

        assert await code(uri=uri, content=other, version="1.0.0") == "resource_version_exists"
        assert await code(uri=uri, content=other, version="1.1.0", bump="minor") == "invalid_input"
        assert await code(uri=uri) == "invalid_input"
        assert await code(uri=f"{uri}@2.0.0", content=other) == "invalid_input"
        assert await code(uri=uri, content={}) == "resource_invalid"
        assert await code(uri="resource://prompts/absent", content=other) == "resource_not_found"
        assert await code(uri="resource://prompts/assistant", content=other) == "access_denied"
        await desk.limit("storage_bytes", 0)
        assert await code(uri=uri, content=other) == "quota_exceeded"


@pytest.mark.parametrize(
    ("command", "data", "code"),
    [
        ("resource_register", {**SALES, "type": "poem"}, "invalid_input"),
        ("resource_register", {**SALES, "content": {}}, "resource_invalid"),
        ("resource_register", {"type": "prompt"}, "invalid_input"),
        ("resource_list", {"limit": 101}, "invalid_input"),
        ("resource_list", {"cursor": "nonsense"}, "invalid_input"),
        ("resource_resolve", {"uri": "nonsense"}, "resource_uri_invalid"),
        ("resource_resolve", {"uri": "resource://prompts/absent"}, "resource_not_found"),
    ],
)
async def test_what_does_not_fit_is_refused(command: str, data: dict[str, object], code: str) -> None:
    async with open_desk() as desk:
        assert (await desk.ask(command, **data))["errorCode"] == code


async def test_a_peer_needs_the_permissions_that_http_needs() -> None:
    async with open_desk() as desk:
        reading = Principal(tenant_id=DEFAULT_TENANT, permissions=frozenset({"resources:read"}))
        weak = Desk(desk.vm, desk.vm.attach(reading))
        assert (await weak.ask("resource_register", **SALES))["errorCode"] == "permission_denied"
        assert (await weak.ask("resource_list", scope="own"))["total"] == 0
        may = frozenset({"resources:read", "resources:write"})
        writer = Desk(desk.vm, desk.vm.attach(Principal(tenant_id=DEFAULT_TENANT, permissions=may)))
        assert (await writer.ask("resource_register", **SALES, visibility="public"))["errorCode"] == "permission_denied"
        assert (await writer.ask("resource_register", **SALES))["version"] == "1.0.0"


async def test_the_quota_and_the_audit_log_know_of_it() -> None:
    async with open_desk() as desk:
        await desk.peer.workspace.accounts.quotas.put(Quota(metric="resources", hard=1), 1)
        await desk.ask("resource_register", **SALES)
        refused = await desk.ask("resource_register", **{**SALES, "name": "more"})
        assert refused["errorCode"] == "quota_exceeded"
        entries = await desk.peer.workspace.accounts.audit.list(action="resource.register")
        assert [(entry.target, entry.result) for _, entry in entries] == [("prompts/sales-v2", "ok")]


async def test_an_agent_does_not_take_the_name_of_a_definition() -> None:
    async with open_desk() as desk:
        await desk.ask("definition_register", definition={"name": "poet", "systemPrompt": "Rhyme."})
        other = await desk.ask("resource_register", type="agent", name="poet", content={"systemPrompt": "Write prose."})
        assert other["errorCode"] == "definition_conflict"
        same = await desk.ask("resource_register", type="agent", name="poet", content={"systemPrompt": "Rhyme."})
        assert same["version"] == "1.0.0"
