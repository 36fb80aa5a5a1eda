import os
import pty
import subprocess
from pathlib import Path

from tests.cli.desk import avm, open_desk
from tests.cli.fake_server import answering
from tests.cli.program import COMMAND, WAIT, environment


async def test_a_secret_comes_from_the_input_and_is_never_shown() -> None:
    async with open_desk() as desk:
        assert await desk.ok("secret", "set", "A_KEY", given="s3cret\n") == "The secret A_KEY is stored.\n"
        assert "s3cret" not in await desk.ok("secret", "list")
        (one,) = await desk.record("secret", "list")
        assert one["name"] == "A_KEY"
        await desk.ok("secret", "delete", "A_KEY", "--yes")
        assert "not_found" in (await desk.avm("secret", "delete", "A_KEY", "--yes")).err


async def test_a_secret_is_granted_to_a_tool_listed_and_revoked() -> None:
    async with open_desk() as desk:
        await desk.ok("secret", "set", "A_KEY", given="s3cret\n")
        granted = await desk.ok("secret", "grant", "A_KEY", "calculator", "--host", "api.acme.org")
        assert granted == "resource://tools/system/calculator may use A_KEY as header for api.acme.org.\n"
        await desk.ok("secret", "grant", "A_KEY", "stdio:files", "--as", "env")
        assert [(grant["tool"], grant["as"]) for grant in await desk.record("secret", "grants", "A_KEY")] == [
            ("resource://tools/system/calculator", "header"),
            ("stdio:files", "env"),
        ]
        assert "api.acme.org" in await desk.ok("secret", "grants")
        await desk.ok("secret", "revoke", "A_KEY", "system/calculator", "--as", "header")
        await desk.ok("secret", "revoke", "A_KEY", "stdio:files")
        assert await desk.record("secret", "grants") == []


def test_what_is_stored_is_what_was_given_without_the_last_line_break() -> None:
    with answering(lambda asked: (200, {})) as (url, asked):
        assert avm("secret", "set", "A", url=url, given="two\nlines\r\n").code == 0
    assert asked[0].body == '{"value":"two\\nlines"}'


def test_a_value_is_no_argument_and_an_empty_one_is_none() -> None:
    with answering(lambda asked: (200, {})) as (url, asked):
        assert avm("secret", "set", "A", "value", url=url).code == 2
        assert avm("secret", "set", "A", url=url, given="\n").code == 2
    assert asked == []


def test_at_a_terminal_it_is_asked_for_without_being_shown(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with answering(lambda asked: (200, {})) as (url, asked):
        env = environment(tmp_path, AVM_URL=url)
        with subprocess.Popen([*COMMAND, "secret", "set", "A"], env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            seen = b""
            while b"Value of A:" not in seen:
                seen += os.read(ours, 1024)
            os.write(ours, b"s3cret\n")
            assert process.wait(WAIT) == 0
            seen += os.read(ours, 1024)
        os.close(ours)
    assert b"s3cret" not in seen
    assert asked[0].body == '{"value":"s3cret"}'
