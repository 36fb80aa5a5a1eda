from tests.server.http.fixtures import Reply, open_world


def ids(reply: Reply) -> list[int]:
    return [int(line.removeprefix("id: ")) for line in reply.raw.decode().split("\n") if line.startswith("id: ")]


async def test_a_turn_is_followed_from_the_last_event_that_was_received() -> None:
    async with open_world() as world:
        said = (await world.ask("POST", "/v1/messages", {"content": "hello"}, key=world.acme.user)).body
        path = f"/v1/turns/{said['turnId']}/events?follow=true"
        whole = ids(await world.ask("GET", path, key=world.acme.user))
        assert whole == list(range(1, len(whole) + 1))
        rest = await world.ask("GET", path, key=world.acme.user, headers=[(b"last-event-id", b"5")])
        assert ids(rest) == whole[5:]
        assert ids(await world.ask("GET", f"{path}&after=7", key=world.acme.user)) == whole[7:]
        assert ids(await world.ask("GET", f"{path}&after={whole[-1]}", key=world.acme.user)) == []
        wrong = await world.ask("GET", path, key=world.acme.user, headers=[(b"last-event-id", b"x")])
        assert wrong.code == "invalid_input"
        assert (await world.ask("GET", path, key=world.bolt.user)).status == 404
