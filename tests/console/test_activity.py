"""Watching a server in the console: replays, logs, providers, and messages of other tenants."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
from playwright.async_api import Page, Route, expect
from tests.console.conftest import Open
from tests.console.operator_pages import HOSTILE
from tests.console.pages import filled_server
from tests.console.test_journeys import IN_MEMORY, driver
from tests.console.test_sign_in import GUARDED, first_key, sign_in, signed_in
from tests.faults.test_fallback import claude, gpt, place, two
from tests.support import answers as play

from agentvm import ImageConfig, ScriptedDriver, ServerConfig, start_server, tool
from agentvm.config import SystemSettings
from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.scripted import Pause, ScriptStep, reply, tool_calls
from agentvm.errors import ProviderBadRequest
from agentvm.log import concerning, get_logger
from agentvm.model.account import Tenant
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, TenantId
from agentvm.model.principal import EVERYTHING, MEMBER, Principal
from agentvm.operations.dispatch import answer
from agentvm.operations.image_build import ImageCreate
from agentvm.operations.message import MessageSend
from agentvm.server.local import RunningServer

logger = get_logger("agentvm.example")
PIECES = ("会话的", "**每个**", "事件", " have a cursor")


async def say(server: RunningServer, text: str, definition: str | None = None) -> str:
    """One turn in a conversation of its own; returns its id."""
    image = await server.agentx.images.create(None if definition is None else ImageConfig(definition=definition))
    agent = await server.agentx.images.run(image.image_id)
    ended: list[str] = []
    done = anyio.Event()

    def end(event: Any) -> None:
        ended.append(event.data["turnId"])
        done.set()

    server.agentx.runtime.on("turn_response", end)
    await agent.receive(text)
    with anyio.fail_after(60):
        await done.wait()
    return ended[0]


async def get(page: Page, server: RunningServer, path: str) -> Any:
    return await (await page.request.get(f"{server.url}{path}")).json()


class Spread:
    """An answer whose pieces have different moments."""

    def __init__(self) -> None:
        self.gates = [anyio.Event() for _ in PIECES]

    def __call__(self, prompt: Prompt) -> Iterable[ScriptStep]:
        start, text, *rest = reply(*PIECES)
        steps: list[ScriptStep] = [start, text]
        for gate, piece in zip(self.gates, rest, strict=False):
            steps += [Pause(gate), piece]
        return [*steps, *rest[len(PIECES) :]]


async def spread_turn(server: RunningServer, spread: Spread) -> str:
    image = await server.agentx.images.create()
    agent = await server.agentx.images.run(image.image_id)
    told, ended = anyio.Semaphore(0), anyio.Event()
    turn_ids: list[str] = []
    server.agentx.runtime.on("text_delta", lambda _: told.release())

    def end(event: Any) -> None:
        turn_ids.append(event.data["turnId"])
        ended.set()

    server.agentx.runtime.on("turn_response", end)
    await agent.receive("go")
    clock = server.server.vm.clock
    with anyio.fail_after(60):
        for gate in spread.gates:
            before = clock()
            while clock() < before + 3:
                await anyio.lowlevel.checkpoint()
            gate.set()
            await told.acquire()
        await ended.wait()
    return turn_ids[0]


async def test_a_replay_shows_what_was_streamed_by_each_moment_and_its_address_reproduces_it(open_page: Open) -> None:
    spread = Spread()
    async with start_server(IN_MEMORY, drivers=driver(spread)) as server:
        turn_id = await spread_turn(server, spread)
        page = await open_page(f"{server.url}/activity/turns/{turn_id}")
        turn = await get(page, server, f"/v1/turns/{turn_id}")
        events = (await get(page, server, f"/v1/turns/{turn_id}/events"))["items"]
        deltas = [
            (event["timestamp"] - turn["acceptedAt"], event["data"]["text"])
            for event in events
            if event["type"] == "text_delta"
        ]
        assert [text for _, text in deltas] == list(PIECES)
        shown = page.locator(".told .answer")
        await expect(shown).to_have_text("会话的每个事件 have a cursor")
        slider = page.get_by_role("slider", name="Moment of the replay")
        texts = ["会话的", "会话的每个", "会话的每个事件", "会话的每个事件 have a cursor"]
        for (moment, _), text in reversed(list(zip(deltas, texts, strict=True))):
            await slider.fill(str(moment))
            await expect(shown).to_have_text(text)
            await expect(page).to_have_url(f"{server.url}/activity/turns/{turn_id}?at={moment}")
        await slider.press("ArrowLeft")
        await expect(page.locator(".told")).not_to_contain_text(texts[0])
        second = deltas[1][0]
        other = await open_page(f"{server.url}/activity/turns/{turn_id}?at={second}")
        await expect(other.locator(".told .answer")).to_have_text(texts[1])
        await other.get_by_role("button", name="One event on").click()
        await other.get_by_role("button", name="max").click()
        await other.get_by_role("button", name="Play", exact=True).click()
        await expect(other.locator(".told .answer")).to_have_text(texts[-1])
        await expect(other.get_by_role("button", name="Play", exact=True)).to_be_visible()
        await page.get_by_role("link", name="Conversation", exact=True).click()
        await expect(page.locator(".answer")).to_have_text(texts[-1])
        await page.get_by_role("link", name="Timeline and replay").click()
        await expect(page.locator(".told .answer")).to_have_text(texts[-1])


async def test_a_turn_whose_events_are_gone_keeps_its_price_and_says_why_it_is_not_replayed(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        image = await server.agentx.images.create()
        agent = await server.agentx.images.run(image.image_id)
        ended = anyio.Semaphore(0)
        server.agentx.runtime.on("turn_response", lambda _: ended.release())
        for text in ("one", "two"):
            await agent.receive(text)
            with anyio.fail_after(60):
                await ended.acquire()
        vm = server.server.vm
        page = await open_page(f"{server.url}/activity/turns?session={image.session_id}")
        rows = page.get_by_role("row").filter(has_text="completed")
        await expect(rows).to_have_count(2)
        await vm.tenancy.store.trim_log(vm.clock() + 1, 10**9)
        await rows.last.get_by_role("link").click()
        await expect(page.locator(".replay-gone")).to_contain_text("no longer kept")
        await expect(page.locator(".figures")).to_contain_text("1 → 1")


async def test_an_error_leads_to_its_entries_and_its_turn_and_back(open_page: Open) -> None:
    def failing(prompt: Prompt) -> Iterable[ScriptStep]:
        return [ProviderBadRequest("not like this")]

    async with start_server(IN_MEMORY, drivers=driver(failing)) as server:
        turn_id = await say(server, "hello")
        page = await open_page(f"{server.url}/activity")
        row = page.get_by_role("row").filter(has_text="turn_failed")
        await row.get_by_role("link", name="Log entries").click()
        await expect(page).to_have_url(f"{server.url}/activity/logs?turn={turn_id}")
        entry = page.locator(".entry").filter(has_text="provider_bad_request").first
        await entry.locator("summary").first.click()
        await entry.get_by_role("link", name=f"Turn {turn_id}").click()
        await expect(page.locator(".moments")).to_contain_text("provider_bad_request")
        await expect(page.locator(".outcome")).to_have_text("failed")
        await page.get_by_role("link", name="Log entries").click()
        await expect(page.locator(".entry").first).to_be_visible()
        await page.goto(f"{server.url}/activity/turns?outcome=failed")
        await expect(page.get_by_role("link", name=turn_id)).to_be_visible()


async def test_the_log_is_followed_over_a_restart_and_hostile_facts_are_text(open_page: Open, tmp_path: Path) -> None:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=str(tmp_path)))
    async with start_server(config, drivers=driver()) as server:
        page = await open_page(f"{server.url}/activity/logs?follow=true&level=warning")
        await expect(page.get_by_role("status").filter(has_text="Following")).to_be_visible()
        with concerning(tenant_id="default"):
            logger.warning("before_restart", code="timeout", fact=HOSTILE, **{HOSTILE[:30]: [HOSTILE]})
        entry = page.locator(".entry").filter(has_text="before_restart")
        await entry.locator("summary").first.click()
        await expect(entry.locator(".entry-facts")).to_contain_text("<img src=x onerror=alert(1)>")
        assert await page.locator("main img, main script, main a[href^=javascript]").count() == 0
        port = server.port
    await expect(page.get_by_role("status").filter(has_text="continues by itself")).to_be_visible()
    again = ServerConfig(system=SystemSettings(port=port, data_dir=str(tmp_path)))
    async with start_server(again, drivers=driver()):
        with concerning(tenant_id="default"):
            logger.warning("after_restart")
        await expect(page.locator(".entry").filter(has_text="after_restart")).to_have_count(1, timeout=60_000)
        await expect(page.locator(".entry").filter(has_text="before_restart")).to_have_count(1)
        numbers = await page.locator(".entry-event").all_text_contents()
        assert numbers.index("after_restart") < numbers.index("before_restart")
        await page.get_by_label("Text").fill("before")
        await page.keyboard.press("Enter")
        await expect(page.locator(".entry")).to_have_count(1)
        await expect(page).to_have_url(f"http://127.0.0.1:{port}/activity/logs?level=warning&text=before&follow=true")


async def test_a_provider_that_is_limited_says_so_and_who_answers_instead(open_page: Open) -> None:
    async with two() as (first, second):
        first.play(play.failure(429, headers={"retry-after": "3600"}))
        async with place(claude("main", first.base_url), gpt("spare", second.base_url), fallback=["spare"]) as here:
            turn_id = (await here.turn())["turnId"]
            page = await open_page(f"{here.server.url}/settings/providers")
            limited = page.get_by_role("row").filter(has_text="main")
            await expect(limited).to_contain_text("limits requests")
            await expect(limited).to_contain_text("next try")
            await expect(limited).to_contain_text("provider_rate_limited")
            await expect(limited).to_contain_text("or with a fallback")
            await expect(page.get_by_role("row").filter(has_text="spare")).to_contain_text("answers")
            await page.goto(f"{here.server.url}/activity")
            await expect(page.locator(".health-sum")).to_have_text("It works, but something needs attention.")
            await page.goto(f"{here.server.url}/activity/turns/{turn_id}")
            await expect(page.locator(".moments")).to_contain_text("main")
            await expect(page.locator(".moments")).to_contain_text("answers instead")


async def tenant_turn(server: RunningServer, slug: str) -> str:
    """A turn of a user of another tenant."""
    vm, tenant_id = server.server.vm, TenantId(f"ten_{slug}")
    tenant = Tenant(tenant_id=tenant_id, slug=slug, name=slug, created_at=1, updated_at=1)
    await vm.tenancy.store.directory.add_tenant(tenant)
    peer = vm.attach(Principal(tenant_id=tenant_id, permissions=MEMBER, containers=("c1",)))
    await peer.store.container(ContainerId("c1")).create(1)
    await answer(peer, ImageCreate(container_id="c1"), "r")
    (image,) = await peer.store.container(ContainerId("c1")).list_images()
    await answer(peer, MessageSend(image_id=image.image_id, content="a private word"), "r")
    said = ""
    with anyio.fail_after(60):
        while '"turn_response"' not in said:
            said += "".join(frame.bare for frame in await peer.channel.take())
    return tenant_id


async def test_an_operator_gives_a_reason_before_messages_of_another_tenant_are_shown(open_page: Open) -> None:
    async with start_server(GUARDED, drivers={"scripted": ScriptedDriver()}) as server:
        tenant_id = await tenant_turn(server, "acme")
        page = await open_page(f"{server.url}/activity/turns")
        await signed_in(page, first_key(server))
        await page.get_by_label("Tenant").select_option("acme")
        await expect(page).to_have_url(f"{server.url}/activity/turns?tenant=acme")
        await page.get_by_role("row").filter(has_text="completed").get_by_role("link").click()
        await expect(page.locator(".bars")).to_be_visible()
        await expect(page.locator(".told")).to_have_count(0)
        await page.get_by_label("Why do you read this?").fill("投诉 42")
        await page.get_by_role("button", name="Read").click()
        await expect(page.locator(".told .said")).to_have_text("a private word")
        entries = await server.server.vm.tenancy.store.accounts(TenantId(tenant_id)).audit.list()
        newest = entries[0][1]
        assert (newest.action, newest.target.partition(": ")[2]) == ("message.read", "投诉 42")


async def test_each_page_names_the_permission_that_is_missing(open_page: Open) -> None:
    async with start_server(GUARDED, drivers=driver()) as server:
        operator = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING)
        _, key = await server.server.vm.tenancy.access.issue(
            DEFAULT_TENANT, name="watcher", granter=operator, permissions=["metrics:read"]
        )
        page = await open_page(f"{server.url}/activity")
        await sign_in(page, key.reveal())
        await expect(page.locator(".health-sum")).to_be_visible()
        await expect(page.locator(".tabs a")).to_have_text(["Activity", "Metrics"])
        missing = {
            "/activity/turns": "sessions:read",
            "/activity/turns/x": "sessions:read",
            "/activity/logs": "logs:read",
            "/settings": "config:read",
            "/settings/history": "config:read",
            "/settings/limits.steps": "config:read",
            "/settings/secrets": "tenants:admin",
            "/settings/channels": "tenants:admin",
            "/settings/webhooks": "tenants:admin",
            "/settings/retention": "config:read",
            "/settings/import": "images:write",
        }
        for path, permission in missing.items():
            await page.goto(f"{server.url}{path}")
            await expect(page.locator("main .problem")).to_contain_text(permission)
        # A key of the operator's tenant that is bound to no user sees the course of the server.
        await page.goto(f"{server.url}/activity/metrics")
        await expect(page.locator("main")).to_contain_text("a restart begins anew")


async def test_a_turn_tells_which_rule_decided_about_a_tool_and_its_result_is_replayed(open_page: Open) -> None:
    @tool(effect="read", world="closed")
    async def count_orders(day: str) -> str:
        """Count the orders of a day."""
        return f"{HOSTILE} {day}"

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        if isinstance(prompt.conversation[-1], UserEntry):
            return tool_calls(("call_1", "count_orders", {"day": "<b>Monday</b>"}))
        return reply("Seven.")

    clerk = Definition(name="clerk", tools=("count_orders",))
    async with start_server(IN_MEMORY, definitions=[clerk], drivers=driver(script), tools=[count_orders]) as server:
        turn_id = await say(server, "how many", definition="clerk")
        page = await open_page(f"{server.url}/activity/turns/{turn_id}")
        bar = page.locator(".bars li").filter(has_text="count_orders")
        await expect(bar).to_contain_text("Rule")
        await expect(page.locator(".bars li").filter(has_text="Call 2")).to_be_visible()
        shown = page.locator(".told .tool")
        await shown.locator("summary").first.click()
        await expect(shown).to_contain_text("<b>Monday</b>")
        await expect(page.locator(".told .answer").last).to_have_text("Seven.")
        assert await page.locator("main img, main b, main script").count() == 0
        await page.locator(".events > summary").click()
        await expect(page.locator(".events li").filter(has_text="tool_use_start")).to_be_visible()


async def test_a_turn_leads_to_its_neighbours_in_the_conversation(open_page: Open) -> None:
    async with filled_server() as filled:
        session_id = filled.long.rpartition("/")[2]
        page = await open_page(filled.server.url)
        newest, middle, oldest = [
            row["turnId"] for row in (await get(page, filled.server, f"/v1/turns?session={session_id}"))["items"]
        ]
        await page.goto(f"{filled.server.url}/activity/turns/{newest}")
        await expect(page.get_by_role("button", name="Next turn of the conversation")).to_be_disabled()
        previous = page.get_by_role("link", name="Previous turn of the conversation")
        for turn_id in (middle, oldest):
            await previous.click()
            await expect(page).to_have_url(f"{filled.server.url}/activity/turns/{turn_id}")
            await expect(page.locator(".copyable").first).to_contain_text(turn_id)
        await expect(page.get_by_role("button", name="Previous turn of the conversation")).to_be_disabled()
        await page.get_by_role("link", name="Next turn of the conversation").click()
        await expect(page.locator(".told .answer")).to_have_text("You said: A second question")


async def test_the_nodes_of_a_cluster_are_listed_with_what_hinders_them(open_page: Open) -> None:
    about = {"version": "9.9.9", "startedAt": 1, "runs": 3, "sockets": 1200, "loopLagMs": 4, "skewMs": -25}
    first = {"nodeId": 1, "name": "one", "state": "up", "isAsked": True, "isLeading": True, **about}
    second = {"nodeId": 2, "name": "<b>two", "state": "dead", "hindrance": "the disk is full", **about}
    database = {"engine": "postgresql", "version": "18.1", "standbys": 1, "lagMs": 40}
    cluster = {"isShared": True, "nodes": [first, second], "database": database}
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(f"{server.url}/activity/nodes")
        # A server alone is its only node.
        await expect(page.get_by_text("has its database alone")).to_be_visible()
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.route("**/v1/cluster/nodes", lambda route: route.fulfill(json=cluster))
        await page.reload()
        rows = page.locator("tbody tr")
        await expect(rows).to_contain_text(["shows you this page · leads", "the disk is full"])
        await expect(rows.nth(1)).to_contain_text("<b>two")
        await expect(rows.nth(1)).to_contain_text("−25 ms")
        await expect(page.get_by_text("1 standby, the slowest 40 ms behind.")).to_be_visible()
        # One that is up can be drained, after a question.
        asked: list[str] = []

        async def drain(route: Route) -> None:
            asked.append(f"{route.request.method} {route.request.url.removeprefix(server.url)}")
            await route.fulfill(json={"nodeId": 1})

        await page.route("**/drain", drain)
        await expect(rows.nth(1).get_by_role("button")).to_have_count(0)
        await rows.nth(0).get_by_role("button", name="Drain").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("Drain one?")
        await dialog.get_by_role("button", name="Drain").click()
        await expect(dialog).to_have_count(0)
        assert asked == ["POST /v1/cluster/nodes/1/drain"]


async def test_the_log_of_a_cluster_has_the_node_of_each_entry_and_names_who_does_not_answer(open_page: Open) -> None:
    about = {"at": 1_700_000_000_000, "level": "info", "event": "counted", "logger": "l"}
    page_of = {
        "items": [{"number": 7, "nodeId": 1, **about}, {"number": 7, "nodeId": 2, **about}],
        "silentNodes": [{"nodeId": 3, "name": "three", "error": "The node has not answered in time"}],
    }
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(f"{server.url}/activity")
        asked: list[str] = []

        async def answer(route: Route) -> None:
            asked.append(route.request.url)
            await route.fulfill(json=page_of)

        await page.route("**/v1/logs?*", answer)
        await page.goto(f"{server.url}/activity/logs")
        await expect(page.locator(".entry")).to_have_count(2)
        await expect(page.get_by_text("Node 3 (three) has not answered")).to_be_visible()
        async with page.expect_request(lambda request: "/v1/logs?" in request.url and "nodes=2" in request.url):
            await page.get_by_role("link", name="Node 2").click()
        await expect(page.get_by_label("Node number")).to_have_value("2")
        assert "nodes=all" in asked[0]
