"""What a turn says about the usage of its model calls."""

import msgspec
from tests.runtime.test_turn import LS, START, begin, only

from agentvm.drivers.base import MessageStopped, UsageReported
from agentvm.events.turn import ModelCalled
from agentvm.model.usage import Usage
from agentvm.runtime import turn


def test_every_call_that_began_is_counted_once_however_it_ended() -> None:
    spent = Usage(input_tokens=3, output_tokens=2)
    now = begin()
    for output in [START, *LS, UsageReported(spent), MessageStopped("tool_use")]:
        now, events = turn.step(now, output, 101)
    assert only(events, ModelCalled) == ModelCalled(call_id="msg_7_1", model="fake-model-1", usage=spent)
    # The next one is cut off before it has said anything: it has read all the same.
    now, events = turn.step(msgspec.structs.replace(now, prompt_tokens=9), START, 102)
    assert not any(isinstance(event, ModelCalled) for event in events)
    read = Usage(input_tokens=9, output_tokens=0, estimated=True)
    for cut in (turn.interrupted(now, 103), turn.failed(now, "code", "text", True, 103)):
        assert only(cut[1], ModelCalled) == ModelCalled(call_id=str(now.message_id), model="fake-model-1", usage=read)
    # One that never began is none.
    assert not any(isinstance(event, ModelCalled) for event in turn.failed(begin(), "code", "text", True, 103)[1])
