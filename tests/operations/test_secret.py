import pytest
from tests.server.http.fixtures import World, open_world

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


ORDERS = {
    "description": "Orders.",
    "runtime": "http",
    "entry": "GET https://api.acme.org/orders",
    "inputSchema": {"type": "object"},
    "secrets": ["API_KEY"],
    "http": {"headers": {"Authorization": "Bearer ${secret:API_KEY}"}},
}


async def publish(world: World, name: str = "orders", **about: object) -> None:
    body = {"type": "tools", "name": name, "content": ORDERS, **about}
    assert (await world.ask("POST", "/v1/resources", body, key=world.acme.admin)).status == 201


async def test_a_tool_is_granted_a_secret_until_that_is_revoked() -> None:
    async with open_world() as world:
        admin = world.acme.admin
        await publish(world)
        grant = {"secret": "API_KEY", "tool": "orders", "as": "header", "hosts": ["API.acme.org"]}
        made = await world.ask("POST", "/v1/grants", grant, key=admin)
        assert made.status == 200
        view = {"secret": "API_KEY", "tool": "resource://tools/orders", "as": "header", "hosts": ["api.acme.org"]}
        assert made.body.items() >= view.items()
        assert "grantee" not in made.body
        await world.ask("POST", "/v1/grants", {**grant, "as": "env", "hosts": []}, key=admin)
        await world.ask("POST", "/v1/grants", {"secret": "API_KEY", "tool": "stdio:files", "as": "env"}, key=admin)
        listed = await world.ask("GET", "/v1/grants?secret=API_KEY", key=admin)
        assert [(item["tool"], item["as"]) for item in listed.items] == [
            ("resource://tools/orders", "env"),
            ("resource://tools/orders", "header"),
            ("stdio:files", "env"),
        ]
        assert (await world.ask("GET", "/v1/grants?secret=OTHER", key=admin)).items == []
        assert (await world.ask("GET", "/v1/grants", key=world.bolt.admin)).items == []
        for path, status in (
            ("secret=API_KEY&tool=orders&as=env", 204),
            ("secret=API_KEY&tool=orders&as=env", 404),
            ("secret=API_KEY&tool=resource://tools/orders", 204),
            ("secret=API_KEY&tool=orders", 404),
        ):
            assert (await world.ask("DELETE", f"/v1/grants?{path}", key=admin)).status == status, path
        audit = await world.audit(world.acme.tenant_id)
        assert ("secret.grant", "API_KEY", "ok") in audit
        assert ("secret.revoke", "API_KEY", "ok") in audit


async def test_the_grant_of_a_tool_that_is_gone_is_revoked_by_the_name_it_had() -> None:
    async with open_world() as world:
        await publish(world)
        grant = {"secret": "API_KEY", "tool": "orders", "as": "env"}
        assert (await world.ask("POST", "/v1/grants", grant, key=world.acme.admin)).status == 200
        (found,) = (await world.ask("GET", "/v1/resources?type=tools&scope=own", key=world.acme.admin)).items
        assert (await world.ask("DELETE", f"/v1/resources/{found['id']}", key=world.acme.admin)).status == 204
        assert (await world.ask("POST", "/v1/grants", grant, key=world.acme.admin)).status == 404
        gone = await world.ask("DELETE", "/v1/grants?secret=API_KEY&tool=orders", key=world.acme.admin)
        assert gone.status == 204


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"secret": "NONE"}, 404),
        ({"secret": "provider.anthropic"}, 400),
        ({"tool": "nothing"}, 404),
        ({"tool": "bolt/private"}, 404),
        ({"tool": "resource://prompts/x"}, 400),
        ({"tool": "orders@1.0.0"}, 400),
        ({"tool": "stdio:Files"}, 400),
        ({"tool": "stdio:files"}, 400),
        ({"hosts": []}, 400),
        ({"hosts": ["https://api.acme.org"]}, 400),
        ({"hosts": ["x.org"] * 101}, 400),
        ({"as": "body"}, 400),
    ],
)
async def test_a_grant_that_could_have_no_effect_is_refused(change: dict[str, object], status: int) -> None:
    async with open_world() as world:
        await publish(world)
        grant = {"secret": "API_KEY", "tool": "orders", "as": "header", "hosts": ["api.acme.org"], **change}
        assert (await world.ask("POST", "/v1/grants", grant, key=world.acme.admin)).status == status
        assert (await world.ask("GET", "/v1/grants", key=world.acme.admin)).items == []


async def test_who_does_not_administer_the_tenant_grants_nothing() -> None:
    async with open_world() as world:
        grant = {"secret": "API_KEY", "tool": "stdio:files", "as": "env"}
        for key in (world.acme.user, await world.key(world.acme.tenant_id, ("tools:invoke", "resources:write"))):
            assert (await world.ask("POST", "/v1/grants", grant, key=key)).status == 403
            assert (await world.ask("GET", "/v1/grants", key=key)).status == 403
            assert (await world.ask("DELETE", "/v1/grants?secret=API_KEY&tool=stdio:files", key=key)).status == 403


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
