"""avm cluster."""

from tests.cli.desk import open_desk


async def test_the_nodes_are_listed_with_their_database() -> None:
    async with open_desk() as desk:
        shown = await desk.ok("cluster", "status")
        assert "up (leads, asked)" in shown
        assert "Database: sqlite" in shown
        assert "has its database alone" in shown
        told = await desk.record("cluster", "status")
        assert [node["nodeId"] for node in told["nodes"]] == [0]


async def test_a_server_that_is_no_node_is_not_drained() -> None:
    async with open_desk() as desk:
        done = await desk.avm("cluster", "drain", "0", "--yes")
        assert done.code != 0
        assert "not a node of a cluster; stop it with SIGTERM" in done.err
