"""Code outcome — the result of a program for the model: exit code, output, usage and changed files."""

from agentvm.model.base import Record, record_from
from agentvm.model.long_json import folded
from agentvm.model.tier import JobResult, JobUsage
from agentvm.tools.base import plain_text
from agentvm.tools.sandbox_jobs import text_of


class CodeOutcome(Record):
    """The end of a program, as the model is told."""

    error: str | None = None
    exit_code: int | None
    """None for a program that was killed."""
    signal: str | None = None
    truncated: bool
    timed_out: bool
    oom: bool = False
    duration_ms: int
    usage: JobUsage
    files: list[str]
    """Files that were added, changed or deleted."""
    # The long ones come last: the end of a result is cut off.
    stderr: str
    stdout: str
    value: object = None


def code_outcome(result: JobResult, error: str | None = None) -> object:
    """Returns the end of a job as JSON, successful or not; `error` is the reason of a failure."""
    outcome = record_from(
        CodeOutcome,
        result,
        error=error,
        stdout=plain_text(text_of(result.stdout)),
        stderr=plain_text(text_of(result.stderr)),
        files=sorted({*result.files, *result.deleted}),
    )
    return folded(outcome)
