"""The lines for a shell on the pages of gateways, channels and webhooks, typed as they are written."""

import json
import re
import shlex
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.channels import fake_dingtalk, fake_feishu, fake_telegram, fake_wecom
from tests.channels.fixtures import office
from tests.cli.program import environment, run_avm
from tests.docs.documents import blocks, read
from tests.docs.tour import run
from tests.support.web import Asked, Replied, web

FAKES: dict[str, tuple[Callable[[], AbstractAsyncContextManager[Any]], str]] = {
    "telegram": (fake_telegram.telegram, fake_telegram.TOKEN),
    "wecom": (fake_wecom.wecom, fake_wecom.SECRET),
    "dingtalk": (fake_dingtalk.dingtalk, fake_dingtalk.SECRET),
    "feishu": (fake_feishu.feishu, fake_feishu.SECRET),
}
NAMES = {"BOT_ID": fake_wecom.BOT_ID, "CLIENT_ID": fake_dingtalk.CLIENT_ID, "APP_ID": fake_feishu.APP_ID}
WRITTEN = [block.text for block in blocks(read("docs/channels.md"), "sh")]


def typed(line: str, env: dict[str, str], given: str = "") -> str:
    """What a line of the page prints; it must work."""
    done = run_avm(*shlex.split(line, comments=True)[1:], env=env, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", FAKES)
async def test_three_lines_connect_a_channel(kind: str, tmp_path: Path) -> None:
    (lines,) = [text.splitlines() for text in WRITTEN if f"--kind {kind} " in text and ".webhook" not in text]
    fake, secret = FAKES[kind]
    async with fake() as platform, office() as desk:
        env = environment(tmp_path, AVM_URL=desk.served.http)

        def connect() -> None:
            store, create, show = lines
            for name, value in NAMES.items():
                create = create.replace(f"={name}", f"={value}")
            typed(store, env, f"{secret}\n")
            typed(f"{create} --set address={platform.url}", env)
            assert "support" in typed(show, env)

        await anyio.to_thread.run_sync(connect)
        channel = await desk.until(lambda channel: channel["status"]["state"] == "connected")
        assert (channel["kind"], channel["agent"]) == (kind, "assistant")


async def test_three_lines_register_test_and_inspect_a_webhook(tmp_path: Path) -> None:
    create, test, deliveries = blocks(read("docs/webhooks.md"), "sh")[0].text.splitlines()
    received: list[Asked] = []

    def receive(asked: Asked) -> Replied:
        received.append(asked)
        return Replied()

    async with web(receive) as site, office() as desk:
        env = environment(tmp_path, AVM_URL=desk.served.http)

        def walk() -> str:
            made = typed(create.replace("https://example.org/hooks", site.url("/hooks")), env)
            assert "whsec_" in made
            named = re.search(r"whk_\w+", made)
            assert named is not None
            typed(test.replace("whk_…", named[0]), env)
            return typed(deliveries.replace("whk_…", named[0]), env)

        assert "webhook.test" in await anyio.to_thread.run_sync(walk)
        assert "webhook-signature" in received[0].headers


async def test_the_lines_of_plain_http_are_answered(tmp_path: Path) -> None:
    ask, stream, follow = blocks(read("docs/plain-http.md"), "sh")[0].text.splitlines()
    async with office() as desk:

        async def typed_at(line: str) -> str:
            here = desk.served.http.removeprefix("http://")
            return (await run(line.replace("localhost:8080", here), tmp_path, {"PATH": "/usr/bin:/bin", "NO_PROXY": "*"}))[0]

        answer = json.loads(await typed_at(ask))
        assert (answer["text"], answer["outcome"]) == ("Hello!", "completed")
        told = await typed_at(stream)
        assert told.rstrip().splitlines()[-2] == "event: turn_response"
        cursor = re.findall(r"^id: (\d+)$", told, re.MULTILINE)[-2]
        turn = re.findall(r"turn_\w+", told.split('"turnId":"')[1])[0]
        rest = await typed_at(follow.replace("turn_…", turn).replace("17", cursor))
        assert re.findall(r"^event: (\w+)$", rest, re.MULTILINE) == ["turn_response"]


@pytest.mark.parametrize("page", ["channels.md", "webhooks.md", "plain-http.md"])
def test_each_begins_with_three_lines(page: str) -> None:
    assert len(blocks(read(f"docs/{page}"), "sh")[0].text.splitlines()) == 3
