from tests.cli.desk import open_desk


async def test_a_tenant_is_made_changed_and_deleted() -> None:
    async with open_desk() as desk:
        made = await desk.record("tenant", "create", "acme", "--name", "爱丽丝公司", "--plan", "pro")
        assert (made["slug"], made["name"], made["plan"], made["status"]) == ("acme", "爱丽丝公司", "pro", "active")
        lines = (await desk.ok("tenant", "list")).splitlines()
        assert lines[1].startswith("acme     爱丽丝公司  active  pro   ten_")
        changed = await desk.record("tenant", "update", "acme", "--slug", "wonder", "--plan", "", "--description", "Tea")
        assert (changed["slug"], changed["description"], "plan" in changed) == ("wonder", "Tea", False)
        assert "Name           爱丽丝公司\n" in await desk.ok("tenant", "show", made["tenantId"])
        assert await desk.ok("tenant", "delete", "wonder", "--yes") == "The tenant wonder is deleted.\n"
        assert (await desk.avm("tenant", "show", "wonder")).code == 5


async def test_a_suspended_tenant_is_shut_out_until_it_is_resumed() -> None:
    async with open_desk() as desk:
        await desk.ok("tenant", "create", "acme")
        key = (await desk.ok("key", "create", "k", "--tenant", "acme")).strip()
        await desk.ok("whoami", key=key)
        assert (await desk.record("tenant", "suspend", "acme"))["status"] == "suspended"
        assert (await desk.avm("whoami", key=key)).code == 4
        assert (await desk.record("tenant", "resume", "acme"))["status"] == "active"
        await desk.ok("whoami", key=key)


async def test_only_the_operator_has_to_do_with_other_tenants() -> None:
    async with open_desk() as desk:
        for slug in ("acme", "globex"):
            await desk.ok("tenant", "create", slug)
        key = (await desk.ok("key", "create", "k", "--permission", "tenants:admin", "--tenant", "acme")).strip()
        assert (await desk.record("tenant", "show", "acme", key=key))["slug"] == "acme"
        assert "not_found" in (await desk.avm("tenant", "show", "globex", key=key)).err
        assert "permission_denied" in (await desk.avm("tenant", "list", key=key)).err
        assert "not_found" in (await desk.avm("user", "list", "--tenant", "globex", key=key)).err


async def test_what_cannot_be_done_is_explained() -> None:
    async with open_desk() as desk:
        assert "small letters" in (await desk.avm("tenant", "create", "Acme Corp")).err
        assert (await desk.avm("tenant", "update", "default")).code == 2
        assert "conflict" in (await desk.avm("tenant", "suspend", "default")).err
