"""Programs — the journals of programs that call tools, as rows of their sessions while the programs are unfinished."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from agentvm.model.program import ProgramCall, ProgramChange, ProgramEnded
from agentvm.storage.sql.connection import Connection

PROGRAM = """
SELECT p.body
FROM sessions JOIN program_calls AS p USING (session_key)
WHERE tenant_id = ? AND container_id = ? AND session_id = ? AND p.turn_id = ? AND p.program = ?
ORDER BY p.number
"""
# A call that is made again after a crash has the result of the first time, should that have been stored.
_ADD = """
INSERT INTO program_calls (session_key, turn_id, program, number, body) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (session_key, turn_id, program, number) DO NOTHING
"""
_END = "DELETE FROM program_calls WHERE session_key = ? AND turn_id = ? AND program = ?"
_END_ALL = "DELETE FROM program_calls WHERE session_key = ? AND turn_id = ?"

_body = msgspec.json.Decoder(ProgramCall)


def decode_call(row: Sequence[Any]) -> ProgramCall:
    return _body.decode(row[0])


def write_programs(changes: Sequence[ProgramChange]) -> Callable[[Connection, Any], None]:
    """Returns the part of a commit that is about programs, encoded."""
    encoded = [(change, msgspec.json.encode(change)) for change in changes]

    def work(connection: Connection, session_key: Any) -> None:
        for change, body in encoded:
            match change:
                case ProgramCall(turn_id=turn_id, program=program, number=number):
                    connection.execute(_ADD, (session_key, turn_id, program, number, body))
                case ProgramEnded(turn_id=turn_id, program=None):
                    connection.execute(_END_ALL, (session_key, turn_id))
                case ProgramEnded(turn_id=turn_id, program=program):
                    connection.execute(_END, (session_key, turn_id, program))

    return work
