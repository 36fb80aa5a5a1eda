import pytest
from tests.server.http.fixtures import open_world

from agentvm.operations import secret
from agentvm.operations.http_face import HttpFace
from agentvm.operations.secret import SecretPut


async def test_a_secret_goes_in_and_never_comes_out() -> None:
    async with open_world() as world:
        admin = world.acme.admin
        put = await world.ask("PUT", "/v1/secrets/OTHER", {"value": "hush"}, key=admin)
        assert (put.status, put.raw) == (204, b"")
        listed = await world.ask("GET", "/v1/secrets", key=admin)
        assert [(item["name"], set(item)) for item in listed.items] == [
            ("API_KEY", {"name", "updatedAt"}),
            ("OTHER", {"name", "updatedAt"}),
        ]
        assert b"hush" not in listed.raw
        found = await world.vm.tenancy.vault.get(world.acme.tenant_id, "OTHER")
        assert found is not None
        assert found.reveal() == "hush"
        assert (await world.ask("GET", "/v1/secrets/OTHER", key=admin)).status == 405
        assert (await world.ask("DELETE", "/v1/secrets/OTHER", key=admin)).status == 204
        assert (await world.ask("DELETE", "/v1/secrets/OTHER", key=admin)).status == 404
        audit = await world.audit(world.acme.tenant_id)
        assert ("secret.put", "OTHER", "ok") in audit
        assert "hush" not in str(audit)


@pytest.mark.parametrize(("name", "value"), [("1A", "x"), ("a%20b", "x"), ("A", ""), ("A", "x" * 70_000)])
async def test_a_secret_without_a_proper_name_or_value_is_refused(name: str, value: str) -> None:
    async with open_world() as world:
        refused = await world.ask("PUT", f"/v1/secrets/{name}", {"value": value}, key=world.acme.admin)
        assert refused.code == "invalid_input"
        assert value == "" or b"xxx" not in refused.raw


async def test_secrets_come_in_pages() -> None:
    async with open_world() as world:
        for name in ("B", "C"):
            await world.ask("PUT", f"/v1/secrets/{name}", {"value": "x"}, key=world.acme.admin)
        first = await world.ask("GET", "/v1/secrets?limit=2", key=world.acme.admin)
        rest = await world.ask("GET", f"/v1/secrets?limit=2&cursor={first.body['nextCursor']}", key=world.acme.admin)
        assert [item["name"] for item in first.items + rest.items] == ["API_KEY", "B", "C"]


def test_a_value_does_not_print_itself() -> None:
    put = next(row for row in secret.operation.rows if row.name == "secret.put")
    assert put.http is not None
    body = HttpFace(put, put.http).body(value="hush")
    assert "hush" not in repr(body) + repr(SecretPut(name="A", value="hush"))


async def test_a_key_for_a_provider_that_takes_none_of_tenants_is_refused_with_the_remedy() -> None:
    async with open_world() as world:
        change = {"changes": {"llm.providers.openai.ownKeys": "off"}}
        assert (await world.ask("PUT", "/v1/config", change)).status == 200
        refused = await world.ask("PUT", "/v1/secrets/provider.openai", {"value": "sk-own"}, key=world.acme.admin)
        assert (refused.status, refused.code) == (403, "access_denied")
        assert b"llm.providers.openai.ownKeys: on" in refused.raw
        assert (await world.ask("PUT", "/v1/secrets/provider.anthropic", {"value": "sk"}, key=world.acme.admin)).status == 204
