"""Channels of a cluster run on one node: what platforms tell another one arrives there, and each tells how they are doing."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
from tests.channels.fake_telegram import TOKEN, telegram
from tests.channels.fixtures import LOOPBACK, SECONDS, Office
from tests.support.serving import Served

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.channels.telegram import SECRET_HEADER
from agentvm.config import SessionSettings, SystemSettings
from agentvm.model.cluster_settings import ClusterSettings
from agentvm.model.secret import Secret

PUBLIC = "https://agents.example"


@asynccontextmanager
async def a_node(name: str, url: str) -> AsyncIterator[Office]:
    model = ScriptedDriver()
    config = ServerConfig(
        system=SystemSettings(
            port=0,
            data_dir=":memory:",
            database=Secret(url),
            server_key=Secret("ab" * 32),
            public_url=PUBLIC,
        ),
        sessions=SessionSettings(titles="off"),
        tools=LOOPBACK,
        cluster=ClusterSettings(enabled="on", name=name, lease_seconds=20.0),
    )
    async with start_server(config, drivers={"scripted": model}) as running:
        address = f"http://127.0.0.1:{running.port}"
        async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=SECONDS) as http:
            yield Office(Served(running.url, address, running.port, model, running), http)


async def test_a_webhook_that_reaches_another_node_is_answered_once_by_the_bot(shipped_url: str) -> None:
    async with AsyncExitStack() as stack:
        fake = await stack.enter_async_context(telegram())
        first, second = [await stack.enter_async_context(a_node(name, shipped_url)) for name in ("a", "b")]
        await second.connect("telegram", {"token": TOKEN, "webhookSecret": "s3cret"}, {"address": fake.url})

        for desk in (first, second):
            channel = await desk.until(lambda channel: channel["status"]["state"] == "connected")
        assert channel["status"]["hook"].startswith(f"{PUBLIC}/hooks/telegram/")
        update = json.dumps(fake.say("hello")).encode()
        assert (await second.hook({SECRET_HEADER: "wrong"}, update)).status_code == 404
        for desk in (second, first, second):
            assert (await desk.hook({SECRET_HEADER: "s3cret"}, update)).status_code == 200
        await fake.shown("hello")
        assert list(fake.messages.values()) == ["hello"]
