import anyio
import pytest
from tests.server.http.fixtures import World, open_world

from agentvm.errors import ContainerForbidden, NotFound, PermissionDenied, SessionNotFound
from agentvm.gateways.talk import Talk
from agentvm.gateways.turn_parts import TextAdded, TurnEnded
from agentvm.model.ids import ContainerId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.session import Alias
from agentvm.operations.session import SessionDelete
from agentvm.sessions.seeding import SeedMessage


def talk_of(world: World, **about: object) -> Talk:
    rights = {"tenant_id": world.acme.tenant_id, "permissions": EVERYTHING, **about}
    return Talk(vm=world.vm, principal=Principal(**rights))  # type: ignore[arg-type]


async def test_a_message_is_sent_and_its_turn_read_until_its_end() -> None:
    async with open_world() as world:
        talk = talk_of(world)
        image = await talk.agent("default", ContainerId("c1"))
        session = await talk.open(image.image_id, Alias("test", "t1"), seeds=(SeedMessage(role="user", content="before"),))
        sent = await talk.send(session.session_id, "hello", key="k1")
        parts = [part async for part in talk.parts(sent)]
        assert "".join(part.text for part in parts if isinstance(part, TextAdded)) == "hello"
        assert isinstance(parts[-1], TurnEnded)
        again = await talk.send(session.session_id, "hello", key="k1")
        assert again.turn_id == sent.turn_id
        assert [part async for part in talk.parts(again)] == parts
        assert await talk.cursor(session) > 0
        await talk.stop(sent)
        await talk.ask(SessionDelete(session_id=session.session_id))
        # As for a client that leaves the stream of a session that is gone.
        await talk.stop(sent)


async def test_what_is_out_of_reach_is_not_there() -> None:
    async with open_world() as world:
        talk = talk_of(world)
        image = await talk.agent("default", ContainerId("c1"))
        session = await talk.open(image.image_id, None)
        sent = await talk.send(session.session_id, "hello")
        stranger = talk_of(world, tenant_id=world.bolt.tenant_id)
        with pytest.raises(SessionNotFound):
            await stranger.session(session.session_id)
        with pytest.raises(NotFound):
            await stranger.turn(sent.turn_id)
        with pytest.raises(SessionNotFound):
            await stranger.send(session.session_id, "hello")
        with pytest.raises(PermissionDenied):
            await talk_of(world, permissions=frozenset({"agent:use"})).send(session.session_id, "hello")
        with anyio.fail_after(60):
            assert isinstance([part async for part in talk.parts(sent)][-1], TurnEnded)


async def test_the_container_of_a_request_is_never_one_out_of_reach() -> None:
    async with open_world() as world:
        everywhere, bound = talk_of(world), talk_of(world, containers=("home",))
        several = talk_of(world, containers=("user-*",))
        of_user = talk_of(world, user_id=world.acme.user_id, containers=("user-alice", "shared"))
        assert everywhere.container(None) == everywhere.container(None, "") == "default"
        assert everywhere.container("named", "bob") == "named"
        assert everywhere.container(None, "bob") == several.container(None, "bob") == "user-bob"
        assert bound.container(None, "bob") == "home"
        assert of_user.container(None, "bob") == "user-alice"
        with pytest.raises(ContainerForbidden):
            bound.container("other")
        with pytest.raises(ContainerForbidden):
            talk_of(world, containers=("team-*", "x")).container(None, "bob")
