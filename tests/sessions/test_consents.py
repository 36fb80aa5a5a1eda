"""Users sign in to MCP servers: a call waits for it, the callback lets it go on, and no token is anybody else's."""

import urllib.parse
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.operations.fixtures import Desk
from tests.support.oauth import AuthorizationServer, McpWeb, oauth_servers

from agentvm.app import open_agentvm
from agentvm.config import ServerConfig, SystemSettings
from agentvm.drivers.base import Prompt, ToolResultsEntry
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, reply, tool_calls
from agentvm.errors import InvalidInput, NotFound, SessionQuarantined, StoreFailed
from agentvm.errors.tool import McpConsentRequired
from agentvm.model.account import User
from agentvm.model.ids import DEFAULT_TENANT, TenantId, UserId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.tool_settings import ToolNetwork, ToolSettings
from agentvm.model.wait import ToolWait, WaitAnswer
from agentvm.resources.registry import NewVersion
from agentvm.server.serving import Listener
from agentvm.sessions import consents
from agentvm.sessions.resources import ResourceLibrary
from agentvm.tools.base import Caller
from agentvm.tools.mcp.consent import TokenScope
from agentvm.tools.mcp.credentials import SealedCredentials
from agentvm.tools.mcp.listing import ListedTool
from agentvm.vm import AgentVM

pytestmark = pytest.mark.anyio
ALICE, BOB = UserId("usr_alice"), UserId("usr_bob")
TOOL = "resource://tools/srv"


@dataclass
class Site:
    vm: AgentVM
    mcp: McpWeb
    driver: ScriptedDriver

    def desk(self, user_id: UserId | None) -> Desk:
        principal = Principal(tenant_id=DEFAULT_TENANT, user_id=user_id, permissions=EVERYTHING)
        return Desk(self.vm, self.vm.attach(principal))

    async def begin(self, user_id: UserId | None) -> tuple[Desk, Any]:
        """A user whose agent has called the tool; the event that he is told."""
        desk = self.desk(user_id)
        image = await desk.create_image(f"home-{user_id}", tools=[TOOL])
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_parked")
        (asked,) = [event["data"] for event in desk.heard if event["type"] == "tool_waiting"]
        return desk, asked

    def answers(self) -> list[Any]:
        return [
            result.output.value
            for prompt in self.driver.prompts
            for entry in prompt.conversation[-1:]
            if isinstance(entry, ToolResultsEntry)
            for result in entry.results
        ]


def call_once(prompt: Prompt) -> Iterable[ScriptStep]:
    """Calls the tool, and ends when it has its result."""
    has_result = isinstance(prompt.conversation[-1], ToolResultsEntry)
    return reply("done") if has_result else tool_calls(("c1", "srv__whoami", {}))


@asynccontextmanager
async def opened(mcp: McpWeb, folder: Path, *, auth: bool = True) -> AsyncIterator[Site]:
    """One run of a server; what it has stored is there in the next."""
    driver = ScriptedDriver(call_once)
    config = ServerConfig(
        system=SystemSettings(data_dir=str(folder), auth="on" if auth else "off", public_url="https://avm.example/"),
        tools=ToolSettings(network=ToolNetwork(allow=("127.0.0.1",))),
    )
    with anyio.fail_after(60):
        async with open_agentvm(config, drivers={"scripted": driver}) as vm:
            yield Site(vm, mcp, driver)


@asynccontextmanager
async def scene(folder: Path, *, auth: bool = True) -> AsyncIterator[Site]:
    """A server with two users and a published tool whose server wants its users to sign in."""
    async with oauth_servers(AuthorizationServer()) as mcp, opened(mcp, folder, auth=auth) as site:
        await prepare(site)
        yield site


async def prepare(site: Site) -> None:
    for user_id in (ALICE, BOB):
        user = User(user_id=user_id, tenant_id=DEFAULT_TENANT, external_id=user_id[4:], created_at=1, updated_at=1)
        await site.vm.store.accounts(DEFAULT_TENANT).users.add(user)
    pin = ListedTool(name="whoami", input_schema={"type": "object"}).digest
    frozen = {"whoami": {"description": "Who?", "inputSchema": {}, "pin": pin}}
    content = {"description": "x", "runtime": "mcp", "entry": site.mcp.url, "effect": "read", "frozen": frozen}
    made = await site.desk(ALICE).ask("resource_register", type="tools", name="srv", content=content)
    assert "errorCode" not in made, made


async def browse(vm: AgentVM, method: str, fields: dict[str, str]) -> tuple[int, str, dict[str, str]]:
    """What a browser sees at the callback."""
    sent: list[dict[str, Any]] = []
    encoded = urllib.parse.urlencode(fields).encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": encoded if method == "POST" else b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": method, "path": "/v1/mcp/callback", "headers": [], "client": ("127.0.0.1", 1),
        "query_string": encoded if method == "GET" else b"", "scheme": "http", "http_version": "1.1",
    }  # fmt: skip
    await Listener(vm).app.http(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], sent[1]["body"].decode(), headers


def consented(site: Site, url: str, user: str) -> dict[str, str]:
    """The parameters with which the authorization server sends the browser back."""
    back = site.mcp.authorization.consent(url, user)
    return {"state": back["state"], "code": back["code"], "iss": back["issuer"]}


async def test_a_call_waits_for_the_consent_and_goes_on_when_the_page_is_confirmed(tmp_path: Path) -> None:
    async with scene(tmp_path) as site:
        desk, asked = await site.begin(ALICE)
        assert (asked["kind"], asked["decisions"]) == ("consent", ["approve", "deny"])
        back = consented(site, asked["url"], "ada")
        status, page, headers = await browse(site.vm, "GET", back)
        assert (status, "<b>alice</b>" in page, "Connect</button>" in page) == (200, True, True)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert (headers["referrer-policy"], headers["cache-control"]) == ("no-referrer", "no-store")
        assert await site.vm.store.accounts(DEFAULT_TENANT).connections.list(ALICE) == ()
        status, page, _ = await browse(site.vm, "POST", back)
        assert (status, "is connected" in page) == (200, True)
        await desk.hear("turn_response")
        assert site.answers() == ["ada"]
        status, page, _ = await browse(site.vm, "POST", back)
        assert (status, "was used already" in page) == (400, True)


async def test_a_consent_is_found_behind_as_many_waits_as_a_page_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consents, "WAITS_MAX", 1)
    async with scene(tmp_path) as site:
        waiting, _ = await site.begin(BOB)
        desk, asked = await site.begin(ALICE)
        assert (await browse(site.vm, "POST", consented(site, asked["url"], "ada")))[0] == 200
        await desk.hear("turn_response")
        assert site.answers() == ["ada"]
        # Bob's call waits on.
        assert len((await waiting.ask("tool_waits", state="open"))["waits"]) == 1


async def test_a_consent_survives_a_restart(tmp_path: Path) -> None:
    async with oauth_servers(AuthorizationServer()) as mcp:
        async with opened(mcp, tmp_path) as site:
            await prepare(site)
            _, asked = await site.begin(ALICE)
        async with opened(mcp, tmp_path) as site:
            back = consented(site, asked["url"], "ada")
            assert (await browse(site.vm, "POST", back))[0] == 200
            # The new process has no peer yet: the end of the turn is looked for in the store.
            turns = site.vm.store.tenant(DEFAULT_TENANT)
            while (turn := await turns.find_turn(asked["turnId"])) is None or turn.outcome is None:
                await anyio.lowlevel.checkpoint()
            assert site.answers() == ["ada"]


async def test_two_users_of_one_server_never_share_a_token(tmp_path: Path) -> None:
    async with scene(tmp_path) as site:
        waiting = {user_id: await site.begin(user_id) for user_id in (ALICE, BOB)}
        names = {ALICE: "ada", BOB: "bertie"}

        async def sign_in(user_id: UserId) -> None:
            desk, asked = waiting[user_id]
            assert (await browse(site.vm, "POST", consented(site, asked["url"], names[user_id])))[0] == 200
            await desk.hear("turn_response")
            heard = [event["data"] for event in desk.heard if event["type"] == "tool_completed"]
            assert [names[user_id] in str(event) for event in heard] == [True], heard

        async with anyio.create_task_group() as tasks:
            for user_id in (ALICE, BOB):
                tasks.start_soon(sign_in, user_id)
        # The rows are sealed for one user: moved to another they do not open.
        connections = site.vm.store.accounts(DEFAULT_TENANT).connections
        stolen = await connections.get(ALICE, site.mcp.url)
        assert stolen is not None
        assert b"ada" not in stolen
        await connections.put(BOB, site.mcp.url, stolen, 1)
        assert site.vm.tool_sets is not None
        with pytest.raises(StoreFailed):
            await SealedCredentials(store=site.vm.store, vault=site.vm.tenancy.vault, clock=site.vm.clock).load(
                TokenScope.of(DEFAULT_TENANT, BOB, site.mcp.url)
            )


async def test_one_consent_lets_all_calls_of_its_user_go_on(tmp_path: Path) -> None:
    async with scene(tmp_path) as site:
        first, asked = await site.begin(ALICE)
        image = await first.create_image("home-2", tools=[TOOL])
        await first.ask("message_send", imageId=image["imageId"], content="go")
        await first.hear("turn_parked", 2)
        await browse(site.vm, "POST", consented(site, asked["url"], "ada"))
        await first.hear("turn_response", 2)
        assert site.answers() == ["ada", "ada"]


async def test_a_call_that_cannot_go_on_keeps_no_other_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(tmp_path) as site:
        first, asked = await site.begin(ALICE)
        image = await first.create_image("home-2", tools=[TOOL])
        await first.ask("message_send", imageId=image["imageId"], content="go")
        await first.hear("turn_parked", 2)
        runtime, real, tried = site.vm.runtime, site.vm.runtime.answer_wait, list[str]()

        async def answer(tenant_id: TenantId, wait: ToolWait, answer: WaitAnswer, by: UserId | None) -> bool:
            tried.append(wait.wait_id)
            if len(tried) == 1:
                raise SessionQuarantined("broken")
            return await real(tenant_id, wait, answer, by)

        monkeypatch.setattr(runtime, "answer_wait", answer)
        await browse(site.vm, "POST", consented(site, asked["url"], "ada"))
        await first.hear("turn_response")
        assert (len(tried), site.answers()) == (2, ["ada"])


async def test_a_callback_that_is_not_the_users_is_refused(tmp_path: Path) -> None:
    async with scene(tmp_path) as site:
        _, asked = await site.begin(ALICE)
        back = consented(site, asked["url"], "ada")
        consents = site.vm.consents
        assert consents is not None
        for fields, why in (
            ({**back, "state": "x" + back["state"]}, "has expired, or was used already"),
            ({**back, "state": "no-tenant"}, "has expired, or was used already"),
            ({**back, "iss": "https://evil.example"}, "another authorization server"),
            ({name: value for name, value in back.items() if name != "iss"}, "another authorization server"),
            ({"state": back["state"], "error": "<script>"}, "has not agreed: &lt;script&gt;"),
            ({"state": back["state"], "iss": back["iss"]}, "is not complete"),
        ):
            status, page, _ = await browse(site.vm, "GET", fields)
            assert (status, why in page) == (400, True), page
        with pytest.raises(InvalidInput, match="requested from another user"):
            await consents.finish(
                state=back["state"], code=back["code"], issuer=back["iss"], caller=Caller(DEFAULT_TENANT, BOB)
            )
        # The attempt has used it up.
        status, _, _ = await browse(site.vm, "POST", back)
        assert (status, await site.vm.store.accounts(DEFAULT_TENANT).connections.list(ALICE)) == (400, ())


async def test_a_caller_without_a_user_signs_in_nowhere(tmp_path: Path) -> None:
    async with scene(tmp_path) as site:
        desk = site.desk(None)
        image = await desk.create_image("home", tools=[TOOL])
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_response")
        assert "this call is not made for a user" in site.answers()[0]


async def test_without_authentication_there_is_one_user(tmp_path: Path) -> None:
    async with scene(tmp_path, auth=False) as site:
        desk, asked = await site.begin(None)
        status, page, _ = await browse(site.vm, "GET", consented(site, asked["url"], "ada"))
        assert (status, "everybody who uses this server" in page) == (200, True)
        await browse(site.vm, "POST", consented(site, asked["url"], "ada"))
        await desk.hear("turn_response")
        assert site.answers() == ["ada"]


async def test_a_list_is_read_with_the_consent_of_its_publisher(tmp_path: Path) -> None:
    async with scene(tmp_path) as site:
        content = {"description": "x", "runtime": "mcp", "entry": site.mcp.url}
        desk = site.desk(ALICE)
        library = ResourceLibrary(desk.peer.workspace)
        with pytest.raises(McpConsentRequired) as required:
            await library.register(NewVersion(type="tools", name="mine", content=content))
        await browse(site.vm, "POST", consented(site, required.value.url, "ada"))
        assert "errorCode" not in await desk.ask("resource_register", type="tools", name="mine", content=content)
        other = await site.desk(BOB).ask("resource_register", type="tools", name="his", content=content)
        assert other["errorCode"] == "mcp_consent_required"


async def test_a_user_who_disconnects_or_is_deleted_leaves_no_token(tmp_path: Path) -> None:
    async with scene(tmp_path) as site:
        for user_id in (ALICE, BOB):
            desk, asked = await site.begin(user_id)
            await browse(site.vm, "POST", consented(site, asked["url"], user_id))
            await desk.hear("turn_response")
        consents, accounts = site.vm.consents, site.vm.store.accounts(DEFAULT_TENANT)
        assert consents is not None
        assert await consents.disconnect(DEFAULT_TENANT, ALICE, site.mcp.url)
        assert not await consents.disconnect(DEFAULT_TENANT, ALICE, site.mcp.url)
        assert (await accounts.connections.list(ALICE), len(await accounts.connections.list(BOB))) == ((), 1)
        _, asked = await site.begin(ALICE)
        late = consented(site, asked["url"], "ada")
        for user_id in (ALICE, BOB):
            assert await accounts.users.delete(user_id, 9)
        assert (await accounts.connections.list(BOB), await accounts.connections.get(BOB, site.mcp.url)) == ((), None)
        # A consent on its way brings nothing back.
        assert (await browse(site.vm, "POST", late))[0] == 400
        with pytest.raises(NotFound):
            await accounts.connections.put(ALICE, site.mcp.url, b"x", 10)
