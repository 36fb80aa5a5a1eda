from tests.cli.desk import open_desk

from agentvm import Secret, create_agentx, remote_runtime


async def test_containers_are_listed_shown_and_deleted() -> None:
    async with open_desk() as desk:
        assert "No containers found." in (await desk.avm("container", "list")).err
        async with create_agentx(remote_runtime(desk.server.ws_url, key=Secret(desk.operator))) as agentx:
            record = await agentx.images.create(container_id="user-alice")
            agent = await agentx.images.run(record.image_id)
            async for _ in agent.stream("hello"):
                pass
        assert (await desk.ok("container", "list")).splitlines() == ["CONTAINER", "user-alice"]
        shown = await desk.ok("container", "show", "user-alice")
        assert "Messages       2\n" in shown
        assert (await desk.record("container", "show", "user-alice"))["owned"]["sessions"] == 1
        counted = await desk.record("container", "delete", "user-alice", "--dry-run")
        assert (counted["sessions"], counted["messages"]) == (1, 2)
        assert "Sessions" in await desk.ok("container", "delete", "user-alice", "--dry-run")
        assert (await desk.avm("container", "delete", "user-alice")).code == 2, "there is nobody to ask"
        assert await desk.ok("container", "delete", "user-alice", "--yes") == "The container user-alice is deleted.\n"
        assert "container_not_found" in (await desk.avm("container", "delete", "user-alice", "--yes")).err
