import base64
import logging
import os
import stat
import threading
from pathlib import Path

import pytest

from agentvm.errors import ConfigInvalid
from agentvm.tenants.server_key import FILE_NAME, ServerKey, load_server_key

ROOT = bytes(range(32))


def test_the_first_start_makes_a_key_that_only_its_owner_can_read(tmp_path: Path) -> None:
    made = load_server_key(tmp_path)
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert load_server_key(tmp_path).same_as(made)


def test_of_several_first_starts_one_key_wins(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)
    made: list[ServerKey] = []

    def start() -> None:
        barrier.wait(timeout=60)
        made.append(load_server_key(tmp_path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(made) == 8
    assert all(one.same_as(made[0]) for one in made)


def test_without_a_directory_each_run_has_its_own() -> None:
    assert not load_server_key(None).same_as(load_server_key(None))


@pytest.mark.parametrize(
    "text",
    [
        ROOT.hex(),
        ROOT.hex().upper(),
        base64.b64encode(ROOT).decode(),
        base64.urlsafe_b64encode(ROOT).decode().rstrip("=") + "\n",
    ],
)
def test_the_operators_key_is_taken_and_not_written_down(tmp_path: Path, text: str) -> None:
    assert load_server_key(tmp_path, text).same_as(ServerKey(ROOT))
    assert list(tmp_path.iterdir()) == []


def test_both_alphabets_of_base64_are_read() -> None:
    root = b"\xfb\xff" * 16
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert load_server_key(None, encode(root).decode()).same_as(ServerKey(root))


@pytest.mark.parametrize("text", ["", "hunter2", "0" * 63, "g" * 64, "x" * 42, "ü" * 43])
def test_what_is_no_key_is_refused_with_how_to_make_one_and_not_repeated(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="openssl rand -hex 32") as caught:
        load_server_key(None, text)
    assert not text or text not in str(caught.value)


def test_a_given_key_that_differs_from_the_kept_one_is_refused(tmp_path: Path) -> None:
    kept = load_server_key(tmp_path)
    with pytest.raises(ConfigInvalid, match="differs"):
        load_server_key(tmp_path, ROOT.hex())
    same = (tmp_path / FILE_NAME).read_text()
    assert load_server_key(tmp_path, same).same_as(kept)


@pytest.mark.parametrize("content", [b"", b"half", b"\xff\xfe"])
def test_a_damaged_file_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(ConfigInvalid):
        load_server_key(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_a_directory_that_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="AVM_SERVER_KEY"):
        load_server_key(tmp_path / "gone")


def test_a_key_that_others_can_read_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_server_key(tmp_path)
    os.chmod(tmp_path / FILE_NAME, 0o644)
    with caplog.at_level(logging.WARNING, logger="agentvm"):
        load_server_key(tmp_path)
    (record,) = caplog.records
    assert record.getMessage() == "server_key_readable_by_others"


def test_what_is_derived_differs_by_purpose_and_does_not_change_between_releases() -> None:
    key = ServerKey(ROOT)
    assert len({key.pepper, key.vault, ROOT}) == 3
    assert key.pepper.hex() == "b5b27a614d238f17ea71a28588a666040e75d3a557089b94ba22229ce3e9520a"
    assert key.vault.hex() == "fca104075a4ee54028bc5e8be8e6301d322084868c801bcba71f60507a060aca"


def test_a_server_key_has_32_bytes_and_does_not_print_itself() -> None:
    with pytest.raises(ConfigInvalid):
        ServerKey(b"short")
    assert ROOT.hex() not in repr(ServerKey(ROOT)) + str(ServerKey(ROOT))
    assert repr(ServerKey(ROOT)) == "ServerKey('***')"
