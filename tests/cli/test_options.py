from pathlib import Path

import click
import pytest

from agentvm.cli.main import avm
from agentvm.cli.options import KEY_FILE_CHARACTERS_MAX, loop_options, option_key
from agentvm.errors import ConfigInvalid

pytestmark = pytest.mark.usefixtures("bare")


@pytest.mark.parametrize(
    "earlier", ["secret remove", "quota remove", "files rm", "knowledge remove", "memory keep", "session draft remove"]
)
def test_the_earlier_name_of_a_command_still_works_but_is_not_shown(earlier: str) -> None:
    group: click.Command | None = avm
    for name in earlier.split():
        assert isinstance(group, click.Group)
        shown, group = group.get_help(click.Context(group)), group.get_command(click.Context(group), name)
    assert group is not None
    assert f"  {name} " not in shown


def test_uvloop_is_used_where_it_is_installed() -> None:
    assert loop_options() == {"use_uvloop": True}


def test_the_key_comes_from_the_environment_or_from_a_file_which_goes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AVM_KEY", raising=False)
    assert option_key(None) is None
    monkeypatch.setenv("AVM_KEY", " avm_1\n")
    (tmp_path / "key").write_text("avm_2\n")
    from_variable, from_file = option_key(None), option_key(tmp_path / "key")
    assert from_variable is not None
    assert from_file is not None
    assert (from_variable.reveal(), from_file.reveal()) == ("avm_1", "avm_2")


@pytest.mark.parametrize("text", ["", " \n", "avm_1\navm_2", "avm_1 avm_2", "клю́ч", "a" * (KEY_FILE_CHARACTERS_MAX + 1)])
def test_a_file_that_holds_no_key_is_refused_without_showing_what_is_in_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(ConfigInvalid) as refused:
        option_key(tmp_path / "key")
    assert "avm_1" not in str(refused.value)


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="gone"):
        option_key(tmp_path / "gone")
