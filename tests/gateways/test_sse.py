import anyio
from tests.gateways.test_talk import talk_of
from tests.server.http.fixtures import open_world

from agentvm.gateways.sse import event, stream_parts
from agentvm.gateways.turn_parts import TextAdded, TurnEnded, TurnPart
from agentvm.model.ids import ContainerId


class Plain:
    """Writes text as it is."""

    is_done = False

    def begin(self) -> bytes:
        return b"<"

    def write(self, part: TurnPart, cursor: int) -> bytes:
        self.is_done = isinstance(part, TurnEnded)
        return b">" if self.is_done else part.text.encode() if isinstance(part, TextAdded) else b""


def test_an_event_has_its_name_and_number_before_its_data() -> None:
    assert event(b"{}") == b"data: {}\n\n"
    assert event(b"{}", "done", 7) == b"id: 7\nevent: done\ndata: {}\n\n"


async def test_a_turn_is_written_piece_by_piece_and_its_end_waits_for_what_is_to_be_done() -> None:
    async with open_world() as world:
        talk, order = talk_of(world), list[bytes]()
        session = await talk.open((await talk.agent("default", ContainerId("c1"))).image_id, None)
        sent = await talk.send(session.session_id, "hello")

        async def on_end() -> None:
            order.append(b"named")

        streamed = stream_parts(talk, sent, Plain(), on_end=on_end, interrupts=True)
        with streamed.opened() as source, anyio.fail_after(60):
            while piece := await source.take():
                order.append(piece)
        assert streamed.closed is not None
        await streamed.closed()
        assert b"".join(order).replace(b"named", b"") == b"<hello>"
        assert order.index(b"named") < len(order) - 1
        assert (await talk.turn(sent.turn_id)).outcome == "completed"
