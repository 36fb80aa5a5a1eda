from agentvm.events import CATALOGUE
from agentvm.events.tool import ProgramChanged, ToolAnswered, ToolStarted, ToolWaiting, WaitChanged


def test_people_are_told_of_waits_and_never_of_their_rows() -> None:
    told = {kind.type for kind in (ToolWaiting, ToolAnswered, ToolStarted)}
    assert told <= set(CATALOGUE)
    assert not {WaitChanged.type, ProgramChanged.type} & set(CATALOGUE)


def test_an_answer_that_is_told_carries_neither_a_result_nor_an_input() -> None:
    assert not {"result", "input"} & set(ToolAnswered.__struct_fields__)
