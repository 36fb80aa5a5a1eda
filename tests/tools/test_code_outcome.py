from typing import Any

import msgspec

from agentvm.model.long_json import LONG_BYTES
from agentvm.model.tier import JobResult
from agentvm.tools.code_outcome import code_outcome


def test_files_that_were_deleted_are_changed_as_well_and_output_is_text() -> None:
    ended = JobResult(signal="SIGKILL", truncated=True, stdout=b"a\x1b[0m\xff", files={"b": b"", "a": b""}, deleted=("c",))
    outcome: Any = code_outcome(ended)
    assert [outcome[name] for name in ("exitCode", "signal", "truncated")] == [None, "SIGKILL", True]
    assert (outcome["files"], outcome["stdout"]) == (["a", "b", "c"], "a[0m\ufffd")


def test_a_long_outcome_stays_text_with_the_reason_of_its_failure_first() -> None:
    outcome = code_outcome(JobResult(exit_code=1, stdout=b"x" * LONG_BYTES), "t ended with exit code 1")
    assert isinstance(outcome, msgspec.Raw)
    assert bytes(outcome).startswith(b'{"error":"t ended with exit code 1","exitCode":1,')
