"""A server with two tenants, and its management API through the ASGI interface."""

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import anyio
from tests.conformance import records
from tests.conformance.records import default_session, image, message, session

from agentvm.app import open_agentvm
from agentvm.channels.host import ChannelHost
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.account import Tenant, User, UserRole
from agentvm.model.channel import ChannelId, ChatChannel
from agentvm.model.gateway_settings import AnthropicSwitch, GatewaySettings, OpenAISwitch
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, KeyId, SessionId, ShareId, TenantId, TurnId, UserId
from agentvm.model.ledger import LedgerEntry
from agentvm.model.principal import EVERYTHING, MEMBER, Principal
from agentvm.model.schedule import TriggerId
from agentvm.model.secret import Secret
from agentvm.model.session_file import FileChange, FileDelta
from agentvm.model.settings import OidcConfig
from agentvm.model.share import Share
from agentvm.model.tool_settings import ToolSettings
from agentvm.model.usage import Usage
from agentvm.model.wait import ToolWait, WaitId
from agentvm.model.webhook import Notice, Webhook, WebhookId
from agentvm.resources.registry import Author, NewVersion
from agentvm.server.asgi import Application
from agentvm.server.serving import Listener
from agentvm.storage.attachments import Upload
from agentvm.storage.base import SessionWrite
from agentvm.tenants.rights import TENANT_WIDE
from agentvm.tools.safe_http import SafeHttp
from agentvm.vm import AgentVM

OPERATOR = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING)
NOON = 1_700_000_000_000
"""2023-11-14 22:13:20 UTC."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def code(self) -> str:
        return str(self.body["error"]["code"])

    @property
    def items(self) -> list[Any]:
        return list(self.body["items"])

    def but_its_id(self, *names: str) -> tuple[int, bytes]:
        """All that may tell one refusal from another, without the names that the request had itself."""
        raw = self.raw
        for name in (self.headers["x-request-id"], *names):
            raw = raw.replace(name.encode(), b"")
        return self.status, raw


@dataclass(slots=True)
class Clock:
    now: int = NOON

    def __call__(self) -> int:
        return self.now


@dataclass(slots=True, kw_only=True)
class Account:
    """A tenant, and what the tests need to know of it."""

    tenant_id: TenantId
    slug: str
    admin: str
    user_id: UserId
    user: str
    user_key_id: str
    resource_id: str = ""
    """A prompt that nobody else may see, once there is one: see `World.hide`."""
    session_id: str = ""
    """A session in which a secret was said, as well."""
    turn_id: str = ""
    attachment: str = ""
    """A file that nobody else may see."""
    image_id: str = ""
    """The image of that session."""
    wait_id: str = ""
    """A tool call of that session that waits for somebody."""
    browser_session_id: str = ""
    """A browser of the user."""
    invitation_id: str = ""
    """An invitation that waits."""
    webhook_id: str = ""
    """A webhook."""
    channel_id: str = ""
    """A chat channel."""
    schedule_id: str = ""
    """A schedule."""
    trigger_id: str = ""
    """A trigger."""
    share_id: str = ""
    """A link to that session."""
    collection_id: str = ""
    """A collection with a document."""


@dataclass(slots=True, kw_only=True)
class World:
    vm: AgentVM
    app: Application
    clock: Clock
    operator: str
    acme: Account = field(init=False)
    bolt: Account = field(init=False)

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = None,
        raw: bytes | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
        host: str = "127.0.0.1:8080",
    ) -> Reply:
        """One request; with the operator's key unless another is given, `""` for none."""
        credential = self.operator if key is None else key
        sent = [(b"host", host.encode()), *headers]
        if credential:
            sent.append((b"authorization", f"Bearer {credential}".encode()))
        content = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        return await request(self.app, method, path, sent, content)

    async def key(self, tenant_id: TenantId, permissions: Iterable[str], **about: Any) -> str:
        _, text = await self.vm.tenancy.access.issue(tenant_id, name="k", granter=OPERATOR, permissions=permissions, **about)
        return text.reveal()

    async def user(self, tenant_id: TenantId, external_id: str, role: UserRole = "member") -> UserId:
        user_id = UserId(f"usr_{external_id}_{tenant_id}")
        user = User(user_id=user_id, tenant_id=tenant_id, external_id=external_id, role=role, created_at=1, updated_at=1)
        await self.vm.tenancy.access.add_user(user)
        return user_id

    async def spend(self, tenant_id: TenantId, key: str, **about: Any) -> None:
        """One model call of 10 tokens in and 5 out, that cost 100 and is charged 105."""
        entry = LedgerEntry(
            key=key,
            at=about.get("at", self.clock()),
            tenant_id=tenant_id,
            user_id=about.get("user_id"),
            container_id=ContainerId(about.get("container_id", "c1")),
            image_id=ImageId("img_1"),
            session_id=SessionId("ses_1"),
            turn_id=TurnId("trn_1"),
            driver="scripted",
            model=about.get("model", "m1"),
            usage=Usage(input_tokens=10, output_tokens=5),
            cost=100,
            price=105,
        )
        await self.vm.tenancy.store.accounts(tenant_id).ledger.add([entry])

    async def hide(self, account: Account) -> None:
        """Gives the tenant a prompt, a turn and a file that nobody else may see, and a session in which a secret was said."""
        prompt = NewVersion(type="prompts", name="private", content={"text": f"prompt of {account.slug}"})
        author = Author(tenant_id=account.tenant_id, actor="setup", may_publish=False)
        account.resource_id = (await self.vm.resources.registry.register(author, prompt)).resource.resource_id
        account.session_id = await self.say(account, f"said by {account.slug}")
        access = self.vm.tenancy.access
        signed_in, _ = await access.sign_in(await access.authenticate(account.user), "browser")
        account.browser_session_id = signed_in.browser_session_id
        invited, _ = await access.invitations.add(
            account.tenant_id, "setup", role="member", external_id=None, display_name=None, days=7
        )
        account.invitation_id = invited.invitation_id
        await self.hook(account)
        await self.schedule(account)
        account.channel_id = f"chn_{account.slug}"
        await self.vm.tenancy.store.accounts(account.tenant_id).channels.add(_channel(account))
        account.share_id = f"share_{account.slug}"
        await self.vm.tenancy.store.accounts(account.tenant_id).shares.add(_share(account))
        account.collection_id = f"books-{account.slug}"
        books = self.vm.tenancy.store.collections(account.tenant_id)
        await books.create(account.collection_id, 2)
        text = BytesIO(f"book of {account.slug}".encode())
        await books.put(account.collection_id, text, "notes.txt", None, None, self.clock())
        account.turn_id = f"turn_{account.slug}"
        images = await self.vm.tenancy.store.tenant(account.tenant_id).container(ContainerId("private")).list_images()
        account.image_id = images[0].image_id
        home = self.vm.tenancy.store.tenant(account.tenant_id).container(ContainerId("private"))
        ended = records.turn(account.turn_id, outcome="completed", ended=2)
        await home.log(SessionId(account.session_id)).record(turns=[ended], now=2)
        account.wait_id = f"wait_{account.slug}"
        wait = ToolWait(
            wait_id=WaitId(account.wait_id),
            container_id=ContainerId("private"),
            session_id=SessionId(account.session_id),
            turn_id=ended.turn_id,
            call_id="call",
            kind="approval",
            tool=f"tool of {account.slug}",
            fingerprint="sha256:0",
            input={},
            why="",
            audience="sender",
            asked_at=2,
            expires_at=2**50,
        )
        (digest,) = await home.files(wait.session_id).put_all((b"notes",), self.clock())
        write = SessionWrite(
            tenant_id=account.tenant_id,
            container_id=wait.container_id,
            session_id=wait.session_id,
            now=2,
            waits=[wait],
            files=[FileDelta(changes=(FileChange(path="notes.txt", digest=digest, size=5),), at=2)],
        )
        await self.vm.store.commit([write])
        file = BytesIO(f"file of {account.slug}".encode())
        account.attachment = (await home.attachments.add(file, Upload(media_type="text/plain", name="file of"), self.clock()))[
            0
        ].reference

    async def hook(self, account: Account) -> None:
        """Gives the tenant a webhook and a delivery that is never due."""
        webhooks, webhook_id = self.vm.store.webhooks(account.tenant_id), WebhookId(f"whk_{account.slug}")
        _, sealed = self.vm.webhooks.new_secret(account.tenant_id, webhook_id)
        webhook = Webhook(
            webhook_id=webhook_id,
            url=f"https://{account.slug}.example/hook",
            events=("turn.failed",),
            secret=sealed,
            created_by="setup",
            created_at=2,
            updated_at=2,
            disabled_at=2,
        )
        await webhooks.add(webhook)
        notice = Notice(event_id=f"evt_{account.slug}", type="webhook.test", at=2)
        due = await webhooks.notify(webhook_id, notice, 2**50)
        assert due is not None
        account.webhook_id = webhook_id

    async def schedule(self, account: Account) -> None:
        """Gives the tenant a schedule that is never due, and a trigger."""
        account.schedule_id, account.trigger_id = f"sched_{account.slug}", f"trig_{account.slug}"
        home, tenant = ContainerId("private"), self.vm.store.tenant(account.tenant_id)
        words = f"scheduled by {account.slug}"
        await tenant.schedules(None).add(records.schedule(account.schedule_id, home, message=words, wake_at=None))
        _, sealed = self.vm.triggers.new_secret(account.tenant_id, TriggerId(account.trigger_id))
        await tenant.triggers(None).add(records.trigger(account.trigger_id, home, message=words, secret=sealed))

    async def say(self, account: Account, *texts: str, container: str = "private") -> str:
        """A session of the tenant, in which this was said; its id."""
        home = self.vm.tenancy.store.tenant(account.tenant_id).container(ContainerId(container))
        await home.create(self.clock())
        image_id, session_id = self.vm.new_id("img"), SessionId(self.vm.new_id("sess"))
        built = image(image_id, container, now=self.clock())
        await home.add_image(built, default_session(built))
        await home.add_session(session(session_id, image_id, container, now=self.clock()))
        told = [message(f"{session_id}-{number}", text) for number, text in enumerate(texts)]
        await home.log(session_id).record(messages=told, now=self.clock())
        return session_id

    async def audit(self, tenant_id: TenantId = DEFAULT_TENANT) -> list[tuple[str, str, str]]:
        """Action, target and result, newest first."""
        found = await self.vm.tenancy.store.accounts(tenant_id).audit.list()
        return [(entry.action, entry.target, entry.result) for _, entry in found]


@asynccontextmanager
async def open_world(
    *,
    auth: bool = True,
    tool_settings: ToolSettings | None = None,
    oidc: OidcConfig | None = None,
    public_url: str | None = None,
) -> AsyncIterator[World]:
    clock = Clock()
    config = ServerConfig(
        system=SystemSettings(data_dir=MEMORY, auth="on" if auth else "off", oidc=oidc or OidcConfig(), public_url=public_url),
        tools=tool_settings or ToolSettings(),
        gateways=GatewaySettings(anthropic=AnthropicSwitch(enabled="on"), openai=OpenAISwitch(models="on")),
    )
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}, clock=clock) as vm:
        vm.channels = ChannelHost(vm, SafeHttp())
        first = vm.first_key
        world = World(vm=vm, app=Listener(vm).app, clock=clock, operator="" if first is None else first.reveal())
        if auth:
            world.acme = await _open_account(world, "acme")
            world.bolt = await _open_account(world, "bolt")
        yield world


def _share(account: Account) -> Share:
    return Share(
        share_id=ShareId(account.share_id),
        session_id=SessionId(account.session_id),
        container_id=ContainerId("private"),
        created_by="setup",
        created_at=NOON,
    )


def _channel(account: Account) -> ChatChannel:
    return ChatChannel(
        channel_id=ChannelId(account.channel_id),
        tenant_id=account.tenant_id,
        name="bot",
        kind="telegram",
        agent="default",
        settings={"token": "API_KEY"},
        messages_per_minute=20,
        key_id=KeyId("nobody"),
        enabled=False,
        created_by="setup",
        created_at=1,
        updated_at=1,
    )


async def _open_account(world: World, slug: str) -> Account:
    tenant_id = TenantId(f"ten_{slug}")
    tenant = Tenant(tenant_id=tenant_id, slug=slug, name=slug.title(), created_at=1, updated_at=1)
    await world.vm.tenancy.store.directory.add_tenant(tenant)
    user_id = await world.user(tenant_id, "alice")
    key, text = await world.vm.tenancy.access.issue(
        tenant_id, name="alice", granter=OPERATOR, user_id=user_id, permissions=MEMBER
    )
    await world.vm.tenancy.people.bind(tenant_id, user_id, ContainerId("shared"))
    await world.vm.tenancy.vault.put(tenant_id, "API_KEY", Secret(f"secret of {slug}"))
    return Account(
        tenant_id=tenant_id,
        slug=slug,
        admin=await world.key(tenant_id, TENANT_WIDE),
        user_id=user_id,
        user=text.reveal(),
        user_key_id=key.key_id,
    )


async def request(app: Any, method: str, path: str, headers: Sequence[tuple[bytes, bytes]], content: bytes) -> Reply:
    sent: list[dict[str, Any]] = []
    bare, _, query = path.partition("?")

    given, answered = iter([content]), anyio.Event()

    async def receive() -> dict[str, Any]:
        for content in given:
            return {"type": "http.request", "body": content, "more_body": False}
        # The peer has no more to say, and stays until it has the answer.
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": unquote(bare),
        "raw_path": bare.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": query.encode(),
        "headers": [*headers, (b"content-length", str(len(content)).encode())],
        "client": ("10.0.0.7", 1),
        "server": ("127.0.0.1", 8080),
        "extensions": {},
    }
    with anyio.fail_after(60):
        await app(scope, receive, send)
    headers_back = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Reply(sent[0]["status"], headers_back, b"".join(message.get("body", b"") for message in sent[1:]))
