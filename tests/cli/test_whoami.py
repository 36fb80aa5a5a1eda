from tests.cli.desk import open_desk


async def test_the_operator_and_a_user_are_told_who_they_are() -> None:
    async with open_desk() as desk:
        said = await desk.ok("whoami")
        assert "Tenant          default\n" in said
        assert "system:admin" in said
        await desk.ok("user", "create", "alice")
        key = (await desk.ok("key", "create", "hers", "--user", "alice")).strip()
        one = await desk.record("whoami", key=key)
        assert (one["tenant"], one["user"], one["role"], one["containers"]) == ("default", "alice", "member", ["user-alice"])
        said = await desk.ok("whoami", key=key)
        assert f"Server          {desk.server.url}\n" in said
        assert f"Key             {one['keyId']} (hers)\n" in said
        assert key not in said


async def test_a_wrong_key_is_refused_and_not_repeated() -> None:
    async with open_desk() as desk:
        done = await desk.avm("whoami", key="avm_wrong")
        assert (done.code, done.out) == (4, "")
        assert "(unauthenticated, request req_" in done.err
        assert "AVM_KEY=<key>" in done.err
        assert "avm_wrong" not in done.err
