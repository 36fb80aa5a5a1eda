import msgspec

from agentvm.model.ids import TurnId
from agentvm.model.program import ProgramCall


def test_a_call_of_a_program_is_small_and_comes_back_as_it_was() -> None:
    call = ProgramCall(turn_id=TurnId("turn_1"), program="c1", number=1, tool="look", digest="sha256:0", result=[1, None])
    body = msgspec.json.encode(call)
    assert len(body) < 120
    assert msgspec.json.decode(body, type=ProgramCall) == call
