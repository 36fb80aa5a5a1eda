"""The ledger against a provider's bill, over the management API."""

import pytest
from tests.server.http.fixtures import open_world

PATH = "/v1/usage/reconcile"


async def test_each_model_and_day_is_compared() -> None:
    async with open_world() as world:
        tenant_id = world.acme.tenant_id
        await world.spend(tenant_id, "1")
        await world.spend(tenant_id, "2", model="m2")
        export = b"day,model,input_tokens,output_tokens\n2023-11-14,m1,10,5\n2023-11-14,m2,110,5\n"
        reply = await world.ask("POST", PATH, raw=export, key=world.acme.admin)
        assert reply.status == 200, reply.raw
        first, second = reply.body["groups"]
        assert (first["model"], first["verdict"], first["explained"]) == ("m1", "equal", True)
        assert (second["verdict"], second["explained"]) == ("provider has more", False)
        assert "100 tokens unexplained" in second["reasons"][0]
        assert reply.body["allExplained"] is False


async def test_the_operators_bill_covers_all_tenants_unless_one_is_named() -> None:
    async with open_world() as world:
        for number, account in enumerate((world.acme, world.bolt)):
            await world.spend(account.tenant_id, str(number))
        export = b'[{"day": "2023-11-14", "model": "m1", "input_tokens": 20, "output_tokens": 10}]'
        assert (await world.ask("POST", PATH, raw=export)).body["allExplained"] is True
        assert (await world.ask("POST", f"{PATH}?tenant=acme", raw=export)).body["allExplained"] is False
        assert (await world.ask("POST", f"{PATH}?driver=other", raw=export)).body["leftOut"] == {"scripted": 2}


@pytest.mark.parametrize("export", [b"", b"\xff\xfe", b"day,model\nnever,m1", b"[{}]x"])
async def test_what_is_no_export_is_refused(export: bytes) -> None:
    async with open_world() as world:
        assert (await world.ask("POST", PATH, raw=export, key=world.acme.admin)).code == "invalid_input"
        assert (await world.ask("POST", PATH, raw=export, key=world.acme.user)).code == "permission_denied"
