from pathlib import Path

import pytest

from agentvm.cli.options import KEY_FILE_CHARACTERS_MAX, given_key, loop_options
from agentvm.errors import ConfigInvalid

pytestmark = pytest.mark.usefixtures("bare")


def test_uvloop_is_used_where_it_is_installed() -> None:
    assert loop_options() == {"use_uvloop": True}


def test_the_key_comes_from_the_environment_or_from_a_file_which_goes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AVM_KEY", raising=False)
    assert given_key(None) is None
    monkeypatch.setenv("AVM_KEY", " avm_1\n")
    (tmp_path / "key").write_text("avm_2\n")
    from_variable, from_file = given_key(None), given_key(tmp_path / "key")
    assert from_variable is not None
    assert from_file is not None
    assert (from_variable.reveal(), from_file.reveal()) == ("avm_1", "avm_2")


@pytest.mark.parametrize("text", ["", " \n", "avm_1\navm_2", "avm_1 avm_2", "клю́ч", "a" * (KEY_FILE_CHARACTERS_MAX + 1)])
def test_a_file_that_holds_no_key_is_refused_without_showing_what_is_in_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(ConfigInvalid) as refused:
        given_key(tmp_path / "key")
    assert "avm_1" not in str(refused.value)


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="gone"):
        given_key(tmp_path / "gone")
