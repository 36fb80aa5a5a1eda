"""Nothing that anybody says, and no secret, is in the log; and nobody reads of anybody else.

Two tenants do what people do, and much that goes wrong, in an order that follows from a seed. All that they say holds a mark.
"""

import json
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import anyio
import pytest
from tests.operations.fixtures import Desk
from tests.server.http.fixtures import OPERATOR, Reply, request

from agentvm.app import open_agentvm
from agentvm.config import BillingSettings, LlmSettings, ServerConfig, SystemSettings
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, echo, last_user_text, reply, tool_calls
from agentvm.errors import ProviderBadRequest
from agentvm.model.account import Tenant
from agentvm.model.ids import TenantId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.secret import Secret
from agentvm.server.asgi import Application
from agentvm.server.serving import Listener
from agentvm.vm import AgentVM

KEY, SERVER_KEY = "sk-planted-provider-key", "A" * 43
TENANT_RIGHTS = EVERYTHING - {"system:admin"}


def play(prompt: Prompt) -> Iterable[ScriptStep]:
    """Does what the first word says, and repeats what was said wherever it can."""
    said = last_user_text(prompt)
    match said.partition(" ")[0]:
        case "refuse":
            return [ProviderBadRequest(f"the provider says: {said} ({KEY})")]
        case "crash":
            raise RuntimeError(f"{said} {KEY}")
        case "tool" if len(prompt.conversation) == 1:
            return tool_calls(("call_1", "calculator", {"expression": f"1/0 # {said}"}))
        case "tool":
            return reply(said)
        case _:
            return echo(prompt)


@dataclass(slots=True)
class Customer:
    """One tenant: what it does, what it says, and what names it."""

    vm: AgentVM
    app: Application
    slug: str
    mark: str
    key: str
    reader: str
    desk: Desk
    names: set[str] = field(default_factory=set)
    image_id: str = ""
    turns: int = 0

    async def begin(self) -> None:
        image = await self.desk.create_image(f"{self.slug}-box", name=f"{self.mark} bot")
        self.image_id = image["imageId"]
        self.names |= {self.slug, f"ten_{self.slug}", f"{self.slug}-box", self.image_id, image["sessionId"]}

    async def say(self, word: str) -> None:
        sent = await self.desk.ask("message_send", imageId=self.image_id, content=f"{word} {self.mark} {KEY}")
        assert "error" not in sent, sent
        self.turns += 1
        await self.desk.hear("turn_response", self.turns)
        self.names.add(sent["sessionId"])

    async def fumble(self) -> None:
        """Commands that are refused, and quote what they were given."""
        await self.desk.ask("image_run", imageId=f"{self.mark} image")
        await self.desk.ask("session_set_title", sessionId=f"{self.mark} session", title=self.mark)
        await self.desk.ask("image_create", containerId=f"{self.slug}-box", config={"name": {"x": self.mark}})
        await self.desk.ask("message_send", imageId=self.image_id, content={"said": self.mark})
        await self.desk.ask("resource_resolve", uri=f"resource://prompts/{self.mark}")

    async def ask(self, method: str, path: str, body: object = None, key: str | None = None) -> Reply:
        headers = [(b"host", b"127.0.0.1:8080"), (b"authorization", f"Bearer {key or self.key}".encode())]
        return await request(self.app, method, path, headers, b"" if body is None else json.dumps(body).encode())

    async def manage(self) -> None:
        await self.ask("PUT", "/v1/secrets/TOKEN", {"value": f"{self.mark} secret"})
        await self.ask("GET", f"/v1/logs?text={self.mark}&nonsense={self.mark}")
        await self.ask("GET", f"/v1/users?after={self.mark}")
        await self.ask("POST", "/v1/users", {"externalId": self.mark, "role": "king"})
        await self.ask("GET", "/v1/users", key=f"avm_{self.mark}")
        await self.ask("POST", "/v1/resources", {"type": "prompts", "name": "p", "content": {"text": 7, "said": self.mark}})

    async def break_it(self) -> None:
        async def crash(*_: object, **__: object) -> NoReturn:
            raise KeyError(f"{self.mark} {KEY}")

        whole, self.vm.logs.errors = self.vm.logs.errors, crash  # type: ignore[method-assign]
        try:
            assert (await self.ask("GET", "/v1/errors")).status == 500
        finally:
            self.vm.logs.errors = whole  # type: ignore[method-assign]

    async def read(self) -> bytes:
        """All that it can read of the log."""
        logs = await self.ask("GET", "/v1/logs?limit=1000", key=self.reader)
        errors = await self.ask("GET", "/v1/errors?limit=1000", key=self.reader)
        assert (logs.status, errors.status) == (200, 200)
        assert "nextCursor" not in logs.body
        return logs.raw + errors.raw


@pytest.fixture
def talkative() -> Iterator[None]:
    """Everything is logged."""
    ours = logging.getLogger("agentvm")
    before = ours.level
    ours.setLevel(logging.DEBUG)
    yield
    ours.setLevel(before)


@asynccontextmanager
async def open_house(data_dir: Path) -> AsyncIterator[tuple[AgentVM, Application]]:
    config = ServerConfig(
        system=SystemSettings(data_dir=str(data_dir), auth="on", log_file_bytes=20_000),
        llm=LlmSettings(api_key=Secret(KEY)),
        billing=BillingSettings(allow_unpriced="on"),
    )
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver(play)}) as vm:
        yield vm, Listener(vm).app


async def settle(vm: AgentVM, app: Application, slug: str, mark: str) -> Customer:
    tenant_id = TenantId(f"ten_{slug}")
    await vm.tenancy.store.directory.add_tenant(
        Tenant(tenant_id=tenant_id, slug=slug, name=f"{mark} Inc.", created_at=1, updated_at=1)
    )
    keys = []
    for permissions in (TENANT_RIGHTS, {"logs:read"}):
        keys.append(await vm.tenancy.access.issue(tenant_id, name=mark, granter=OPERATOR, permissions=permissions))
    principal = Principal(tenant_id=tenant_id, permissions=TENANT_RIGHTS)
    desk = Desk(vm, vm.attach(principal))
    one = Customer(vm, app, slug, mark, keys[0][1].reveal(), keys[1][1].reveal(), desk)
    one.names |= {keys[0][0].key_id, keys[1][0].key_id}
    await one.begin()
    return one


def deeds(one: Customer) -> list[Callable[[], Awaitable[None]]]:
    words = ("hello", "refuse", "crash", "tool")
    return [*(lambda word=word: one.say(word) for word in words), one.fumble, one.manage, one.break_it]


def everything(data_dir: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((data_dir / "logs").iterdir()))


@pytest.mark.usefixtures("talkative")
@pytest.mark.parametrize("seed", range(3))
async def test_nobody_reads_of_anybody_else_and_nothing_that_was_said_is_kept(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    marks = {slug: f"{slug}said{chance.getrandbits(64):016x}" for slug in ("acme", "bolt")}
    read: dict[str, bytes] = {}
    with anyio.fail_after(60):
        async with open_house(tmp_path) as (vm, app):
            customers = [await settle(vm, app, slug, mark) for slug, mark in marks.items()]
            todo = [deed for one in customers for deed in deeds(one) * 2]
            chance.shuffle(todo)
            for deed in todo:
                await deed()
            for one in customers:
                read[one.slug] = await one.read()
    kept = everything(tmp_path)
    for one in customers:
        for secret in (one.mark, KEY, one.key, one.reader, "Inc."):
            assert secret.encode() not in kept, find(kept, secret)
    (acme, bolt) = customers
    for mine, other in ((acme, bolt), (bolt, acme)):
        text = read[mine.slug]
        assert f"ten_{mine.slug}".encode() in text
        for event in (b"turn_failed", b"turn_crashed", b"command_refused", b"request_crashed"):
            assert event in text
        for name in {*other.names, other.mark}:
            assert name.encode() not in text, find(text, name)


def find(text: bytes, word: str) -> Any:
    """The place, for who has to mend it."""
    at = text.find(word.encode())
    return text[max(0, at - 300) : at + 100]
