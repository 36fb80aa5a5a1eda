"""Skill rules — the rules about tool calls after the model has read skills with `allowed-tools`. They can only tighten.

They are derived from the messages of the turn and the version that the image is locked to, so they hold after a restart.
"""

import re
from collections.abc import Collection, Sequence

from agentvm.errors import ToolFailed
from agentvm.model.definition import LOAD_SKILL
from agentvm.model.ids import TurnId
from agentvm.model.message import DeniedOutput, Message, ToolCallMessage, ToolResultMessage, is_failure
from agentvm.model.policy import PolicyRule
from agentvm.runtime.call_skills import CallSkills
from agentvm.runtime.policy import PolicyLayer
from agentvm.runtime.tool_search import FIND_TOOLS

READERS = (LOAD_SKILL, FIND_TOOLS.name, "read_file", "list_files", "find_files", "search_files")
"""Tools that following a skill requires; their other rules remain."""

_NAME = re.compile(r"[A-Za-z0-9_-]+")


async def skill_rules(
    skills: CallSkills, messages: Sequence[Message], turn_id: TurnId, until: Collection[str] = ()
) -> tuple[PolicyLayer, ...]:
    """Returns the rules of the skills that the model has read in the turn, before it asked for the calls `until`."""
    layers: list[PolicyLayer] = []
    for name in _read_skills(messages, turn_id, until) if skills else ():
        try:
            allowed = (await skills.load(name, None)).allowed_tools
        except ToolFailed:
            # Another agent's, from before a handoff to this one.
            continue
        if allowed is not None:
            layers.append(_layer(name, allowed))
    return tuple(layers)


def _layer(skill: str, allowed: Sequence[str]) -> PolicyLayer:
    # Names only: a pattern, or the syntax of another product, names no tool.
    names = dict.fromkeys((*READERS, *filter(_NAME.fullmatch, allowed)))
    rules = (*(PolicyRule(tool=name, do="allow") for name in names), PolicyRule(do="ask"))
    return PolicyLayer(f"allowed-tools of the skill {skill},", rules, only_tightens=True)


def _read_skills(messages: Sequence[Message], turn_id: TurnId, until: Collection[str]) -> Sequence[str]:
    requests: dict[str, str] = {}
    read: dict[str, None] = {}
    for message in messages:
        match message:
            case ToolCallMessage(tool_call=call) if message.turn_id == turn_id:
                if call.id in until:
                    break
                if call.name == LOAD_SKILL:
                    requests[call.id] = str(call.input.get("name"))
            case ToolResultMessage(tool_call_id=call_id) if call_id in requests and _succeeded(message):
                read[requests[call_id]] = None
            case _:
                pass
    return tuple(read)


def _succeeded(message: ToolResultMessage) -> bool:
    output = message.tool_result.output
    return not (is_failure(output) or isinstance(output, DeniedOutput))
