import pytest

from agentvm.errors.tool import TierUnavailable
from agentvm.model.tier import Job
from agentvm.tiers.container_programs import program_of


def test_input_reaches_a_script_by_variables_and_stdin_and_never_in_its_text() -> None:
    program = program_of(Job(engine="shell", code="echo", input={"a-b": "$(id)", "n": 1}, env={"X": "1"}, key="k"))
    assert {"ARG_A_B=$(id)", "ARG_N=1", "X=1", "AVM_CALL_KEY=k"} <= set(program.env)
    assert (program.files["script.sh"], program.files["stdin"]) == (b"echo", b'{"a-b":"$(id)","n":1}')
    assert program.argv[-2:] == ("/bin/sh", "/avm/script.sh")


def test_an_argument_that_is_too_long_for_a_variable_is_on_stdin_alone() -> None:
    program = program_of(Job(engine="shell", code="echo", input={"a": "x" * 70_000, "b": 1}))
    assert [variable for variable in program.env if variable.startswith("ARG_")] == ["ARG_B=1"]
    assert len(program.files["stdin"]) > 70_000


def test_each_engine_has_its_command_and_others_are_refused() -> None:
    assert program_of(Job(engine="command", argv=("git", "a b"))).argv[-2:] == ("git", "a b")
    assert program_of(Job(engine="python", files={"main.py": b"1"})).files["program"] == b"1"
    assert program_of(Job(engine="javascript", code="x")).has_value
    with pytest.raises(TierUnavailable):
        program_of(Job(engine="cobol"))
