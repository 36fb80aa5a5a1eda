"""Device — somebody's telephone: says things, stops them, loses its connection and comes back for what it has missed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio

from tests.simulation.frames import Frame, Reply, decode, decode_data
from tests.simulation.loop import Dice
from tests.simulation.network import Socket


@dataclass(slots=True, eq=False)
class Sent:
    """One message of a user, however often it was sent."""

    number: int
    key: str | None
    image_id: str
    session_id: str
    acked: set[tuple[str, str]] = field(default_factory=set)
    """The message and the turn that the server named; one pair, if all is well."""
    refused: int = 0
    times: int = 0

    @property
    def text(self) -> str:
        return f"message {self.number}"


@dataclass(slots=True, eq=False)
class User:
    """One container, and what all devices of its owner know of it."""

    container_id: str
    images: dict[str, list[str]] = field(default_factory=dict)
    """Sessions by image, as far as anybody was told; the default session first."""
    created: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    """Images that somebody asked to delete, whatever came of it."""
    gone: set[str] = field(default_factory=set)
    """Their sessions: a slow device may find that their log is gone before it hears that they are."""
    sent: list[Sent] = field(default_factory=list)


class World(Protocol):
    """What a device finds around itself."""

    dice: Dice
    thinned: set[str]
    """Sessions of which something may have been dropped because it was old."""

    def connect(self, socket: Socket) -> bool: ...

    def hear(self, device: "Device", text: str, frame: Frame) -> None:
        """A frame has arrived."""

    def object(self, complaint: str) -> None:
        """A promise was broken."""

    def note(self, line: str) -> None: ...

    def next_number(self) -> int: ...


class Device:
    """`follows` says whether it keeps cursors; older clients do not."""

    def __init__(self, world: World, user: User, name: str) -> None:
        self.user = user
        self.name = name
        self.cursors: dict[str, int] = {}
        """The last event of each session that was heard; 0 for none."""
        self.frames = self.connections = 0
        self._world = world
        self._dice = world.dice
        self.follows = world.dice.happens(0.85)
        self._wraps = world.dice.happens(0.5)
        self._socket: Socket | None = None
        self.subscribed: set[str] = set()
        """The sessions that were asked for on this connection."""
        self._resumed: set[str] = set()
        """Those that were asked for at its beginning, from the last event that was heard."""
        self._asked: dict[str, tuple[str, Any]] = {}
        """What each request that was not answered was about."""

    @property
    def connected(self) -> bool:
        return self._socket is not None

    async def live(self, actions: int) -> None:
        choices = tuple(ACTIONS)
        weights = tuple(ACTIONS.values())
        for _ in range(actions):
            await anyio.sleep(self._dice.pause(0.5))
            if self.connect():
                self._dice.choices(choices, weights)[0](self)

    def connect(self) -> bool:
        if self._socket is not None:
            return True
        socket = Socket(self._dice, self)
        if not self._world.connect(socket):
            return False
        self._socket = socket
        self.connections += 1
        self._asked.clear()
        self.subscribed.clear()
        if not self.follows:
            self.cursors.clear()
        known = (session_id for sessions in self.user.images.values() for session_id in sessions)
        for session_id in dict.fromkeys((*known, *self.cursors)):
            self._subscribe(session_id)
        self._resumed = set(self.subscribed) if self.follows else set()
        for sent in self.user.sent:
            if sent.key is not None and not sent.acked and sent.image_id in self.user.images and self._dice.happens(0.5):
                self.send(sent)
        return True

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def vanish(self) -> None:
        if self._socket is not None:
            self._socket.vanish()
            self._socket = None

    def read_on(self) -> None:
        if self._socket is not None:
            self._socket.read_on()

    def ask(self, command: str, about: Any = None, /, **data: object) -> None:
        if self._socket is not None:
            request_id = f"r{self._world.next_number()}"
            self._asked[request_id] = (command, about)
            self._socket.say({"type": f"{command}_request", "data": {**data, "requestId": request_id}})

    def send(self, sent: Sent, on_busy: str = "queue") -> None:
        sent.times += 1
        data: dict[str, object] = {"content": sent.text, "imageId": sent.image_id, "onBusy": on_busy}
        if self.user.images.get(sent.image_id, [""])[0] != sent.session_id:
            data["sessionId"] = sent.session_id
        if sent.key is not None:
            data["clientMessageId"] = sent.key
        self.ask("message_send", sent, **data)

    # What arrives.

    def hear(self, socket: Socket, text: str) -> None:
        if socket is not self._socket:
            return
        frame, wrapped = decode(text)
        self.frames += 1
        self._world.hear(self, text, frame)
        if wrapped is not None and self._wraps and (frame.type == "server_hello" or self._dice.happens(0.05)):
            socket.say({"__ack": wrapped})
        if frame.cursor is not None and frame.context.session_id is not None:
            self._follow(frame.context.session_id, int(frame.cursor))
        elif frame.type.endswith("_response") and frame.cursor is None and frame.context == _NOWHERE:
            self._hear_reply(decode_data(frame.data))
        elif frame.type == "system_error" and decode_data(frame.data).request_id is None:
            # A subscription may have failed: to be sure of what follows, begin again.
            self.vanish()
        elif frame.type == "resync_required":
            session_id = str(decode_data(frame.data).session_id)
            if session_id not in self._world.thinned and session_id not in self.user.gone:
                self._world.object(f"{self.name} was told that the log of {session_id} has lost something")

    def lost(self, socket: Socket, code: int) -> None:
        if socket is self._socket:
            self._socket = None
            self._world.note(f"{self.name} lost its connection: {code}")

    def _follow(self, session_id: str, cursor: int) -> None:
        last = self.cursors.get(session_id)
        if last is not None and cursor > last + 1 and session_id not in self._world.thinned:
            self._world.object(f"{self.name} heard {cursor} of {session_id} right after {last}")
        if last is not None and cursor <= last and session_id in self._resumed:
            self._world.object(f"{self.name} heard {cursor} of {session_id} again after {last}")
        self.cursors[session_id] = max(cursor, last or 0)

    def _hear_reply(self, reply: Reply) -> None:
        command, about = self._asked.pop(reply.request_id or "", ("", None))
        images = self.user.images
        if isinstance(about, Sent):
            if reply.error is not None:
                # Of a node that has ended nobody knows whether it has accepted the message.
                about.refused += reply.error_code != "node_silent"
            elif reply.message_id is not None and reply.turn_id is not None:
                about.acked.add((reply.message_id, reply.turn_id))
            else:
                self._world.object(f"{about.text} was answered without a turn")
        elif reply.error is not None:
            return
        elif command == "image_create" and reply.record is not None:
            self.user.created.add(reply.record.image_id)
            images[reply.record.image_id] = [reply.record.session_id]
            self._subscribe(reply.record.session_id)
        elif command in ("session_create", "session_fork") and reply.session is not None and about in images:
            images[about].append(reply.session.session_id)
            self._subscribe(reply.session.session_id)

    def _subscribe(self, session_id: str) -> None:
        if self._socket is None:
            return
        frame: dict[str, object] = {"type": "subscribe", "sessionId": session_id}
        if self.follows:
            frame["afterCursor"] = str(self.cursors.setdefault(session_id, 0))
        self._socket.say(frame)
        self.subscribed.add(session_id)

    # What people do.

    def _some_image(self) -> str | None:
        return self._dice.choice(tuple(self.user.images)) if self.user.images else None

    def act_create(self) -> None:
        if len(self.user.images) < 3:
            config = {"name": "Chat", "systemPrompt": self._dice.choice(("Be kind.", "Be short."))}
            self.ask("image_create", containerId=self.user.container_id, config=config)

    def act_say(self) -> None:
        image_id = self._some_image()
        if image_id is None:
            self.act_create()
            return
        number = self._world.next_number()
        key = f"key{number}" if self._dice.happens(0.75) else None
        sent = Sent(number, key, image_id, self._dice.choice(self.user.images[image_id]))
        self.user.sent.append(sent)
        self.send(sent, self._dice.choice(("queue", "queue", "queue", "interrupt", "reject")))
        if key is not None and self._dice.happens(0.1):
            self.send(sent)

    def act_repeat(self) -> None:
        """Sends again what perhaps arrived, perhaps from another device."""
        keyed = [one for one in self.user.sent[-8:] if one.key is not None and one.image_id in self.user.images]
        if keyed:
            self.send(self._dice.choice(keyed))

    def act_interrupt(self) -> None:
        if image_id := self._some_image():
            self.ask("agent_interrupt", imageId=image_id, sessionId=self._dice.choice(self.user.images[image_id]))

    def act_stop(self) -> None:
        if image_id := self._some_image():
            self.ask("image_stop", imageId=image_id)

    def act_delete(self) -> None:
        if image_id := self._some_image():
            self.user.deleted.add(image_id)
            self.user.gone.update(self.user.images.pop(image_id))
            self.ask("image_delete", imageId=image_id)

    def act_fork(self) -> None:
        """Another session of the image, empty, or beginning with what was said in one."""
        image_id = self._some_image()
        if image_id is None or len(self.user.images[image_id]) >= 3:
            return
        if self._dice.happens(0.5):
            self.ask("session_create", image_id, imageId=image_id)
        else:
            session_id = self._dice.choice(self.user.images[image_id])
            self.ask("session_fork", image_id, sessionId=session_id)

    def act_rewind(self) -> None:
        """Takes back something that was said, which may have been taken back already."""
        if (old := self._some_accepted()) is not None:
            ((message_id, _),) = old.acked
            last = self._dice.choice(("before", "messageId"))
            self.ask("session_rewind", sessionId=old.session_id, onBusy=self._on_busy(), **{last: message_id})

    def act_edit(self) -> None:
        """Says something else in the place of something that was said."""
        if (old := self._some_accepted()) is not None:
            ((message_id, _),) = old.acked
            number = self._world.next_number()
            sent = Sent(number, f"key{number}", old.image_id, old.session_id)
            sent.times += 1
            self.user.sent.append(sent)
            data = {"messageId": message_id, "content": sent.text, "clientMessageId": sent.key, "onBusy": self._on_busy()}
            self.ask("message_edit", sent, sessionId=old.session_id, **data)

    def _some_accepted(self) -> Sent | None:
        said = [one for one in self.user.sent[-12:] if len(one.acked) == 1 and one.image_id in self.user.images]
        return self._dice.choice(said) if said else None

    def _on_busy(self) -> str:
        return self._dice.choice(("reject", "interrupt"))

    def act_compact(self) -> None:
        if image_id := self._some_image():
            self.ask("session_compact", sessionId=self._dice.choice(self.user.images[image_id]))

    def act_look(self) -> None:
        if image_id := self._some_image():
            session_id = self._dice.choice(self.user.images[image_id])
            self.ask("image_list", containerId=self.user.container_id)
            self.ask("session_messages", sessionId=session_id)

    def act_stall(self) -> None:
        if self._socket is not None:
            self._socket.stop_reading()

    def act_noise(self) -> None:
        if self._socket is not None:
            self._socket.say(self._dice.choice(("{", "[]", '{"type":"no_such_request","data":{"requestId":"x"}}', '"', "{}")))


_NOWHERE = Frame("").context

ACTIONS: dict[Callable[[Device], None], float] = {
    Device.act_say: 10,
    Device.act_create: 0.6,
    Device.act_repeat: 1.5,
    Device.act_interrupt: 1.5,
    Device.act_stop: 0.4,
    Device.act_delete: 0.2,
    Device.act_fork: 0.6,
    Device.act_rewind: 0.5,
    Device.act_edit: 1.0,
    Device.act_compact: 0.3,
    Device.act_look: 0.5,
    Device.act_stall: 0.5,
    Device.read_on: 1.0,
    Device.disconnect: 0.6,
    Device.vanish: 0.5,
    Device.act_noise: 0.2,
}
"""What people do, and how often in comparison."""
