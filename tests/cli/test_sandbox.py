import json
from pathlib import Path

import pytest
from tests.cli.desk import avm, open_desk
from tests.cli.fake_server import answering

pytestmark = pytest.mark.anyio
OUTCOME = {
    "exitCode": 3,
    "stdout": "hi\x1b[31m\n",
    "stderr": "oops\n",
    "value": {"a": 1},
    "files": {"d/e": "x"},
    "timedOut": True,
}


async def test_a_file_is_run_on_the_server(tmp_path: Path) -> None:
    script = tmp_path / "tool.py"
    script.write_text("def run(a):\n    open('out', 'w').write('made')\n    print('hello')\n    return a * 2")
    async with open_desk() as desk:
        text = await desk.ok("sandbox", "run", str(script), "--input", '{"a": 21}', "--save", str(tmp_path / "saved"))
        assert text == "hello\n42\n"
    assert (tmp_path / "saved/out").read_text() == "made"


def test_what_a_program_writes_is_shown_without_control_characters(tmp_path: Path) -> None:
    with answering(lambda asked: (200, OUTCOME)) as (url, asked):
        done = avm("sandbox", "run", "--", "ls", "-l", url=url)
    assert done.code == 3
    assert done.out == 'hi\\x1b[31m\n{"a": 1}\n'
    assert done.err == "oops\nThe code timed out, and was killed.\nChanged files: d/e\n"
    assert json.loads(asked[0].body) == {"engine": "command", "argv": ["ls", "-l"]}


def test_files_code_and_limits_are_sent(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"\0\xff")
    with answering(lambda asked: (200, {"exitCode": 0})) as (url, asked):
        options = ("--engine", "shell", "--file", str(tmp_path / "data.bin"), "--timeout", "1.5", "-")
        assert avm("sandbox", "run", *options, url=url, given="ls").code == 0
    assert json.loads(asked[0].body) == {
        "engine": "shell",
        "code": "ls",
        "files": {"data.bin": {"data": "AP8="}},
        "limits": {"timeoutMs": 1500},
    }


def test_wrong_usage_sends_nothing(tmp_path: Path) -> None:
    with answering(lambda asked: (200, {})) as (url, asked):
        for words in (("--engine", "python", "a", "b"), ("--input", "[1]", "x.py"), ("no-such.py",)):
            assert avm("sandbox", "run", *words, url=url).code == 2
    assert asked == []


def test_a_path_that_climbs_is_not_written(tmp_path: Path) -> None:
    with answering(lambda asked: (200, {"exitCode": 0, "files": {"../evil": "x"}})) as (url, _):
        assert avm("sandbox", "run", "--save", str(tmp_path / "s"), "--", "ls", url=url).code != 0
    assert not (tmp_path / "evil").exists()
