"""World — what the steps of a scenario share: a server, its clients, and what was last asked. Steps are synchronous."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal
from tests.support.serving import Play, Served, serving
from tests.support.wire import Client19, Json, client

from agentvm import AgentX, Definition, create_agentx, remote_runtime
from agentvm.drivers.base import Prompt, UserEntry

T = TypeVar("T")


class World:
    """Restarting the server connects everybody again."""

    def __init__(self, portal: BlockingPortal, data_dir: Path) -> None:
        self._portal = portal
        self._data_dir = data_dir
        self._stack = ExitStack()
        self._names: list[str] = []
        self._wants_application = False
        self.definitions: list[Definition] = []
        self.play = Play()
        self.server: Served | None = None
        self.clients: dict[str, Client19] = {}
        self.images: dict[str, Json] = {}
        self.answer: Json = {}
        self.agents: list[str] = []
        self.application: AgentX | None = None
        self.built: dict[str, str] = {}

    # --- the server and who is connected to it

    def start(self) -> Served:
        self.server = self._stack.enter_context(
            self._portal.wrap_async_context_manager(
                serving(self.play, data_dir=self._data_dir, definitions=tuple(self.definitions))
            )
        )
        return self.server

    def restart(self) -> None:
        self._stack.close()
        self.start()
        for name in self._names:
            self._connect(name)
        if self._wants_application:
            self.open_application()

    def close(self) -> None:
        self._stack.close()

    @property
    def running(self) -> Served:
        assert self.server is not None
        return self.server

    def connect(self, name: str) -> None:
        self._names.append(name)
        self._connect(name)

    def _connect(self, name: str) -> None:
        self.clients[name] = self._stack.enter_context(self._portal.wrap_async_context_manager(client(self.running.url)))

    def open_application(self) -> AgentX:
        self._wants_application = True
        opened = create_agentx(remote_runtime(self.running.url))
        self.application = self._stack.enter_context(self._portal.wrap_async_context_manager(opened))
        return self.application

    # --- doing things

    def run(self, what: Callable[..., Awaitable[T]], *arguments: Any, **options: Any) -> T:
        return self._portal.call(partial(what, *arguments, **options))

    def request(self, name: str, kind: str, /, **data: Any) -> Json:
        self.answer = self.run(self.clients[name].request, kind, **data)
        return self.answer

    def record(self, name: str) -> Json:
        """The image of that client, as it is now."""
        found: Json = self.request(name, "image_get_request", imageId=self.images[name]["imageId"])["record"]
        return found

    def history(self, name: str) -> list[Json]:
        found: list[Json] = self.request(name, "image_messages_request", imageId=self.images[name]["imageId"])["messages"]
        return found

    @property
    def prompts(self) -> Sequence[Prompt]:
        """What the model was asked since the server started."""
        return self.running.model.prompts


def said_by_users(prompt: Prompt) -> list[str]:
    return [str(said.content) for said in prompt.conversation if isinstance(said, UserEntry)]
