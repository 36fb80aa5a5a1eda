"""Ids — one NewType per noun, how new ones are made, and which client-chosen ones are allowed.

Ids are opaque to clients. Ids that the server makes are unguessable.
"""

import hashlib
import re
from collections.abc import Callable
from typing import NewType

from agentvm.errors import InvalidInput

TenantId = NewType("TenantId", str)
ContainerId = NewType("ContainerId", str)
ImageId = NewType("ImageId", str)
SessionId = NewType("SessionId", str)
AgentId = NewType("AgentId", str)
MessageId = NewType("MessageId", str)
TurnId = NewType("TurnId", str)
RewindId = NewType("RewindId", str)
SummaryId = NewType("SummaryId", str)
UserId = NewType("UserId", str)
KeyId = NewType("KeyId", str)
BrowserSessionId = NewType("BrowserSessionId", str)
InvitationId = NewType("InvitationId", str)
ShareId = NewType("ShareId", str)

Clock = Callable[[], int]
"""Unix milliseconds now."""

NewId = Callable[[str], str]
"""A fresh id with the given prefix: `new_id("img")` -> `img_mwhhh3mx_5zwio2k0q1ab`."""

DEFAULT_TENANT = TenantId("default")

CONTAINER_ID_MAX = 128
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f/\\?#\ud800-\udfff]")
ERASED_NAME = "erased-"
"""Prefix of the placeholder for an erased container's name; 16 hexadecimal digits follow."""
_ERASED = re.compile(r"erased-[0-9a-f]{16}")
_SUB = "sub_"
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


_PAIRS = tuple(high + low for high in _BASE36 for low in _BASE36)


def base36(number: int) -> str:
    digits = ""
    while number >= 36:
        number, pair = divmod(number, 1296)
        digits = _PAIRS[pair] + digits
    return _BASE36[number] + digits if number or not digits else digits.lstrip("0")


def sub_session_id(turn_id: TurnId, call_id: str) -> SessionId:
    """Returns the id of the session of the sub-agent that works on a call."""
    return SessionId(f"{_SUB}{hashlib.sha256(f'{turn_id}/{call_id}'.encode()).hexdigest()[:24]}")


def is_sub_session(session_id: SessionId) -> bool:
    """Whether a session is that of a sub-agent, whose events are sent only to its own subscribers."""
    return session_id.startswith(_SUB)


def agent_id_of(session_id: SessionId) -> AgentId:
    """The id of a session's agent, the same on every node of a cluster."""
    return AgentId(f"agent_{session_id}")


def session_of_agent(agent_id: AgentId) -> SessionId:
    """The session of an agent whose id is from `agent_id_of`."""
    return SessionId(agent_id.removeprefix("agent_"))


def id_factory(clock: Clock, random_bits: Callable[[int], int]) -> NewId:
    """Ids that sort roughly by time and carry 62 random bits."""

    def new_id(prefix: str) -> str:
        return f"{prefix}_{base36(clock())}_{base36(random_bits(62)).rjust(12, '0')}"

    return new_id


def check_container_id(value: str) -> ContainerId:
    """Checks a client's name for a container: refuses a path, a query or a terminal escape."""
    if not 0 < len(value) <= CONTAINER_ID_MAX:
        raise InvalidInput(f"containerId must have 1 to {CONTAINER_ID_MAX} characters, not {len(value)}")
    if _FORBIDDEN.search(value) or value.startswith("."):
        raise InvalidInput("containerId must not start with '.' nor contain '/', '\\', '?', '#' or control characters")
    if is_erased_name(value):
        raise InvalidInput(
            f"containerId must not be {ERASED_NAME!r} and 16 hexadecimal digits: that form is reserved for erased containers"
        )
    return ContainerId(value)


def is_erased_name(value: str) -> bool:
    """Whether the text has the form of the placeholder for an erased container's name."""
    return _ERASED.fullmatch(value) is not None
