"""The journeys that differ between browsers, in a Firefox of the machine."""

import json
from pathlib import Path

import pytest
from tests.console.firefox import CONTROL, ENTER, ESCAPE, firefox, open_window
from tests.console.test_engines import COMPOSE, HOSTILE
from tests.console.test_journeys import IN_MEMORY, driver

from agentvm import start_server
from agentvm.drivers.scripted import echo
from agentvm.server.console import DIRECTORY

SHOWN = "document.querySelector('.log-inner').innerText"
FIELD = "document.querySelector('.composer textarea')"


async def test_an_installed_firefox_answers_keeps_and_shows_texts_as_texts(tmp_path: Path) -> None:
    program = firefox()
    if program is None or not (DIRECTORY / "index.html").exists():
        pytest.skip("firefox: it is not installed (AVM_TEST_FIREFOX names one), or the console is not built")
    async with start_server(IN_MEMORY, drivers=driver(echo)) as server, open_window(program, tmp_path) as window:
        await window.goto(server.url)
        await window.until(f"{FIELD} !== null && document.activeElement === {FIELD}")
        await window.write(HOSTILE)
        await window.press(ENTER)
        await window.until("document.querySelector('.bill') !== null")
        assert await window.read("document.querySelector('.said').textContent") == HOSTILE
        assert await window.read("document.querySelector('.answer strong').textContent") == "bold"
        assert await window.read("document.querySelectorAll('.log img, .log a[href^=javascript]').length") == 0
        live, address = await window.read(SHOWN), await window.read("location.href")
        # Opened again it is what is stored.
        await window.goto("about:blank")
        await window.goto(address)
        await window.until("document.querySelector('.log[aria-busy=false] .bill') !== null")
        await window.until(f"{SHOWN} === {json.dumps(live)}")
        await window.until(f"document.activeElement === {FIELD}")
        await window.write("zhongwen")
        await window.read(f"({COMPOSE})({FIELD})")
        assert await window.read(f"{FIELD}.value") == "zhongwen"
        await window.press(CONTROL, "k")
        await window.until("document.activeElement === document.querySelector('.palette input')")
        await window.press(ESCAPE)
        await window.until(f"document.activeElement === {FIELD}")
