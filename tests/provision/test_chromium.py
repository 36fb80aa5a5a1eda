import json
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.provision import Unavailable
from tests.provision.chromium import PACKAGE, chromium, installed, named, unpacked


async def test_the_browser_runs_a_script_and_shows_its_text(browser: Browser) -> None:
    page = await browser.new_page()
    await page.set_content("<button onclick=\"answer.textContent = 6 * 7 + ' 中文'\">ask</button><p id=answer></p>")
    await page.click("button")
    assert await page.inner_text("#answer") == "42 中文"


INK = """(letter) => {
  const canvas = document.createElement("canvas"), context = canvas.getContext("2d");
  context.font = "40px system-ui";
  context.fillText(letter, 10, 60);
  return context.getImageData(0, 0, 100, 100).data.join();
}"""


async def test_the_browser_has_a_font_of_chinese(browser: Browser) -> None:
    if named() or installed():
        pytest.skip("Chromium: its fonts are those of this machine")
    page = await browser.new_page()
    blank, *drawn = [await page.evaluate(INK, letter) for letter in (" ", "中", "国", "额")]
    assert len({blank, *drawn}) == 4


def test_a_browser_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AVM_TEST_CHROMIUM", str(tmp_path / "gone"))
    with pytest.raises(Unavailable, match="gone does not start"):
        chromium()


def test_a_platform_without_a_package_gets_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(Unavailable, match="riscv64; install Chromium"):
        unpacked(tmp_path)


def test_the_lock_file_pins_contents_and_no_registry() -> None:
    packages = json.loads((PACKAGE / "package-lock.json").read_text())["packages"]
    for name, package in packages.items():
        assert "resolved" not in package
        assert name == "" or package["integrity"].startswith("sha512-")
