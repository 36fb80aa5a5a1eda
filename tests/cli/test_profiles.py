import os
import stat
from pathlib import Path

import click
import pytest

from agentvm.cli import profiles
from agentvm.errors import ConfigInvalid
from agentvm.model.secret import Secret

KEY = Secret("avm_hidden")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "agentvm"


def test_what_is_saved_is_there_until_it_is_removed(home: Path) -> None:
    assert profiles.load_all() == {}
    first, second = profiles.Profile(url="http://a:1", key=KEY), profiles.Profile(url="http://b:2")
    profiles.save("default", first)
    profiles.save("work", second)
    assert profiles.load_all() == {"default": first, "work": second}
    assert profiles.remove("work")
    assert not profiles.remove("work")
    assert profiles.load_all() == {"default": first}
    assert [path.name for path in home.iterdir()] == ["profiles.json"]


def test_only_the_user_can_read_it(home: Path) -> None:
    path = profiles.save("default", profiles.Profile(url="http://a:1", key=KEY))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_file_that_others_can_read_is_warned_of_and_private_again_after_the_next_login(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = profiles.save("default", profiles.Profile(url="http://a:1", key=KEY))
    path.chmod(0o644)
    profiles.load_all()
    said = capsys.readouterr().err
    assert f"chmod 600 {path}" in said
    assert KEY.reveal() not in said
    profiles.save("default", profiles.Profile(url="http://a:1", key=KEY))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"avm_hidden", b"[]", b'{"profiles": 5}', b'{"profiles": {"x": {}}}', b"\xff"])
def test_a_damaged_file_is_named_and_not_quoted(content: bytes, home: Path) -> None:
    home.mkdir(parents=True)
    (home / "profiles.json").write_bytes(content)
    (home / "profiles.json").chmod(0o600)
    with pytest.raises(ConfigInvalid) as refused:
        profiles.load_all()
    assert str(home / "profiles.json") in str(refused.value)
    assert "avm_hidden" not in str(refused.value)


def test_a_place_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", os.devnull)
    with pytest.raises(ConfigInvalid, match="Cannot write the profiles"):
        profiles.save("default", profiles.Profile(url="http://a:1"))


def test_without_a_variable_they_are_in_the_usual_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert profiles.directory() == tmp_path / ".config" / "agentvm"


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "x" * 65, "ü"])
def test_a_name_that_could_be_something_else_is_refused(name: str) -> None:
    with pytest.raises(click.BadParameter):
        profiles.check_name(name)
    assert profiles.check_name("work-2.eu") == "work-2.eu"
