import os

import pytest

from agentvm.tiers.isolate_worker import WorkerLine, _collect, _exported, _lacking_of_javascript, _lacking_of_shell, _variables


def test_a_frame_comes_as_it_went_and_the_end_of_the_line_is_told() -> None:
    incoming, outgoing = os.pipe()
    with open(incoming, "rb", buffering=0), open(outgoing, "wb", buffering=0) as writer:
        line = WorkerLine(incoming, outgoing)
        line.send({"text": "ü" * 1000, "n": [1, None]})
        assert line.receive() == {"text": "ü" * 1000, "n": [1, None]}
        writer.write(b"\0\0")
        writer.close()
        assert line.receive() is None


@pytest.mark.parametrize(
    ("code", "exported"),
    [
        ("export default () => 1", ("globalThis.__default = () => 1", True)),
        ("const a = 1;\nexport default a", ("const a = 1;\nglobalThis.__default = a", True)),
        ("const text = 'export default 1'", ("const text = 'export default 1'", False)),
    ],
)
def test_the_default_export_is_found_at_the_start_of_a_line_only(code: str, exported: tuple[str, bool]) -> None:
    assert _exported(code) == exported


def test_only_a_module_or_a_name_of_another_engine_is_a_lack() -> None:
    assert _lacking_of_javascript("ReferenceError: process is not defined\n at x")
    assert _lacking_of_javascript("ReferenceError: could not load module 'fs'")
    assert _lacking_of_javascript("ReferenceError: mistyped is not defined") == ""
    assert _lacking_of_shell(127, "a\nbash: x: command not found", "") == "bash: x: command not found"
    assert _lacking_of_shell(1, "x: command not found", "") == ""
    assert _lacking_of_shell(1, "", "parse error at line 1")


def test_arguments_become_variables_and_changed_files_come_back() -> None:
    assert _variables({"a-b": "x", "n": [1], "nul": "\0"}) == {"ARG_A_B": "x", "ARG_N": "[1]"}
    assert _variables(None) == {}
    assert _collect({"a": b"1", "b": b"2"}, {"a": b"1", "c": b"3"}) == ({"b": "Mg=="}, ["c"])
