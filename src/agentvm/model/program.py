"""Program — the journal of a program that calls tools: the result of each call, so that the program can be run again.

Kept until the program has a result or its turn has ended.
"""

from agentvm.model.base import Record
from agentvm.model.ids import TurnId

JOURNAL_MAX_BYTES = 16 * 1024 * 1024
"""Bytes of all results of one program."""


class ProgramCall(Record):
    """A finished call of a program. Where the program is run again, the same call has the same result."""

    turn_id: TurnId
    program: str
    """The id of the program's own call."""
    number: int
    """The place of the call in the program, from 1; number 0 holds the files that it began with."""
    tool: str
    digest: str
    """Digest of the tool and its input."""
    result: object = None
    error: str | None = None
    """The text of a call that failed, or was not made."""
    note: str | None = None
    """The change that a person has made to the call, for the model."""
    tainted: bool = False
    """Whether the result is untrusted text."""


class ProgramEnded(Record):
    """The end of one program, or of all programs of a turn."""

    turn_id: TurnId
    program: str | None = None


ProgramChange = ProgramCall | ProgramEnded
