"""RPC peer — one 2.x peer's side of the conversation, without its socket.

Two things are known only here, in the order in which frames leave: the calls that belong to an assistant message, which
2.x clients read as one message with it; and the end of a turn, which answers the `message.send` that began it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agentvm.model.ids import SessionId, TurnId
from agentvm.model.message import AssistantMessage, ToolCallMessage
from agentvm.protocol.codec import Frame
from agentvm.protocol.dialect_v2 import FrameV2, encode_folded, with_agent_id
from agentvm.protocol.rpc import RpcId, encode_result

SENDS_MAX = 1_000
"""Maximum messages of one connection whose turns are awaited; the request of a further one returns at once with the status
`running`."""


@dataclass(frozen=True, slots=True)
class PendingSend:
    """A `message.send` that is answered when its turn ends. `stop` ends the timer that answers it before."""

    request_id: RpcId
    result: dict[str, object]
    stop: Callable[[], None]


class _Held:
    """An assistant message or its calls, whichever came first, that wait for the other."""

    __slots__ = ("calls", "frame", "parent")

    def __init__(self, frame: FrameV2) -> None:
        self.frame = frame
        part = frame.part
        self.parent = part if isinstance(part, AssistantMessage) else None
        self.calls: list[ToolCallMessage] = [part] if isinstance(part, ToolCallMessage) else []

    def takes(self, frame: FrameV2) -> bool:
        """Adds a part of the same message; whether the frame is one."""
        part, own = frame.part, self.parent.id if self.parent else self.calls[0].parent_id
        if isinstance(part, ToolCallMessage) and part.parent_id == own:
            self.calls.append(part)
            return True
        if isinstance(part, AssistantMessage) and part.id == own and self.parent is None:
            self.parent = part
            return True
        return False

    def text(self) -> str:
        return encode_folded(self.frame.event, self.parent, self.calls)


class RpcPeer:
    """The state of one connection that speaks JSON-RPC."""

    __slots__ = ("_held", "_sends", "is_earlier", "is_presumed")

    def __init__(self, *, is_presumed: bool = False) -> None:
        self.is_presumed = is_presumed
        """Whether the peer has not spoken yet, and is only taken for one of 2.x."""
        self.is_earlier = False
        """Whether the peer has used names of 2.0 to 2.8: then it also receives agents under those names."""
        self._held: dict[SessionId | None, _Held] = {}
        self._sends: dict[TurnId, list[PendingSend]] = {}

    def expect(self, turn_id: TurnId, send: PendingSend) -> bool:
        """Answers the request after the last event of the turn; False if too many wait already."""
        if len(self._sends) >= SENDS_MAX:
            return False
        self._sends.setdefault(turn_id, []).append(send)
        return True

    def give_up(self, turn_id: TurnId, request_id: RpcId) -> PendingSend | None:
        """Returns a request that is to be answered before its turn has ended, if it still waits."""
        waiting = self._sends.get(turn_id, [])
        for send in waiting:
            if send.request_id == request_id:
                waiting.remove(send)
                if not waiting:
                    del self._sends[turn_id]
                return send
        return None

    def texts(self, frames: Iterable[Frame]) -> list[str]:
        """Returns the texts that leave for these frames, in order. A response is its own text."""
        texts = self._texts(frames)
        return [with_agent_id(text) for text in texts] if self.is_earlier else texts

    def close(self) -> None:
        """Ends all waits: the connection has ended."""
        for sends in self._sends.values():
            for send in sends:
                send.stop()
        self._sends.clear()

    def _texts(self, frames: Iterable[Frame]) -> list[str]:
        texts: list[str] = []
        for frame in frames:
            if not isinstance(frame, FrameV2):
                texts.append(frame.bare)
                continue
            held = self._held.get(frame.session_id)
            if held is not None and not frame.is_within:
                if held.takes(frame):
                    continue
                texts.append(self._held.pop(frame.session_id).text())
            if frame.part is not None:
                self._held[frame.session_id] = _Held(frame)
                continue
            texts += frame.texts
            if frame.ended is not None:
                texts += self._answers(frame.ended)
        return texts

    def _answers(self, turn_id: TurnId) -> Iterable[str]:
        for send in self._sends.pop(turn_id, ()):
            send.stop()
            yield encode_result(send.request_id, {**send.result, "status": "completed"}).bare
