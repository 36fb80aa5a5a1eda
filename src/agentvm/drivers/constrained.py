"""Constrained — tools for small embedded models: every answer is one JSON object, which a grammar enforces.

A small model knows when a tool would help, but misses the notation that its chat template wants: it writes a call as prose. So
it is told of the tools in plain words, and llama.cpp lets it write nothing but `{"tool": "none", "answer": …}` or
`{"tool": …, "input": …}` with an input that fits the tool's schema. The answer is streamed while its string grows; a call is
taken whole.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from agentvm.drivers.base import (
    AssistantEntry,
    ConversationEntry,
    MessageStopped,
    ModelOutput,
    Prompt,
    TextChunk,
    TextStarted,
    TextStopped,
    ToolCallStarted,
    ToolCallStopped,
    ToolInputChunk,
    ToolResultsEntry,
    ToolSpec,
    UserEntry,
)
from agentvm.drivers.chat_body import RequestJson, chat_body
from agentvm.drivers.chat_completions import ChatDecoder
from agentvm.drivers.exchange import CallIds
from agentvm.drivers.failures import Failures
from agentvm.drivers.output_schema import enforced_part, enforced_schema
from agentvm.model.turn import ANY_TOOL, OutputFormat

NO_TOOL = "none"

_ANSWER = re.compile(rf'\s*\{{\s*"tool"\s*:\s*"{NO_TOOL}"\s*,\s*"answer"\s*:\s*"')
# Whole characters of a JSON string: an escape that is not complete yet waits for the next chunk.
_CHARACTERS = re.compile(
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89abAB])[0-9a-fA-F]{4})*'
)

_INSTRUCTION = (
    "Reply with one JSON object that names one of these tools first:\n"
    "- {none}: no tool. For greetings, what you know, writing, translating, and once you have the result of a tool.\n"
    "{tools}\n"
    'Without a tool reply {{"tool": "{none}", "answer": "<your whole answer to the user, in the language of the user>"}}. '
    'To use one reply {{"tool": "<name>", "input": {{…}}}}; you will see its result and reply again.'
)
_FORM = (
    'Instead of such a text the "answer" is the JSON value {name}, which fits this JSON Schema, as a part of the object and '
    "not in quotes:\n{schema}"
)
_SCALARS: tuple[RequestJson, ...] = tuple({"type": kind} for kind in ("object", "string", "number", "boolean", "null"))
_ANY_JSON: RequestJson = {"anyOf": [*_SCALARS, {"type": "array", "items": {"anyOf": [*_SCALARS]}}]}
"""A grammar for any value, apart from lists in lists."""
_SAMPLING: RequestJson = {"temperature": 0.2}
"""A small model that is left to chance guesses instead of using a tool."""


def constrained_body(prompt: Prompt, failures: Failures) -> RequestJson:
    """Returns the whole request for a prompt with tools."""
    instruction = _INSTRUCTION.format(none=NO_TOOL, tools="\n".join(_described(tool) for tool in prompt.tools))
    form = "" if prompt.output is None else _FORM.format(name=prompt.output.name, schema=_json(prompt.output.schema))
    system = "\n\n".join(filter(None, (prompt.system, instruction, form)))
    conversation = tuple(_as_text(entry) for entry in prompt.conversation)
    plain = msgspec.structs.replace(prompt, system=system, conversation=conversation, tools=(), output=None)
    answer = _object(tool={"const": NO_TOOL}, answer=_answer_schema(prompt.output))
    repeated, choice = _repeated(prompt.conversation), prompt.tool_choice
    calls = [_call_schema(tool) for tool in prompt.tools if tool.name not in repeated and choice in (None, ANY_TOOL, tool.name)]
    schema = {"anyOf": [*calls] if choice is not None and calls else [answer, *calls]}
    named = {"name": "reply", "schema": schema, "strict": True}
    constraint = {"response_format": {"type": "json_schema", "json_schema": named}}
    return _SAMPLING | chat_body(plain, failures, speech_only=True) | constraint


def _described(tool: ToolSpec) -> str:
    return f"- {tool.name}: {tool.description} Input: {msgspec.json.encode(tool.input_schema).decode()}"


def _as_text(entry: ConversationEntry) -> ConversationEntry:
    """Writes an earlier entry of the conversation in the notation that the model uses now."""
    match entry:
        case AssistantEntry(tool_calls=(call, *_)):
            return AssistantEntry(text=_json({"tool": call.name, "input": call.input}))
        case ToolResultsEntry(results=results):
            results_text = "\n".join(f"Result of {result.name}: {result.output.text}" for result in results)
            return UserEntry(content=f'{results_text}\nIf this is enough, reply with "tool": "{NO_TOOL}" and the answer.')
        case AssistantEntry(text=text) if text:
            return AssistantEntry(text=_json({"tool": NO_TOOL, "answer": text}))
        case _:
            return entry


def _repeated(conversation: tuple[ConversationEntry, ...]) -> set[str]:
    """Returns the tools that were called twice with one input since the user spoke: a small model would continue with it."""
    calls: list[tuple[str, str]] = []
    for entry in reversed(conversation):
        if isinstance(entry, UserEntry):
            break
        if isinstance(entry, AssistantEntry):
            calls += [(call.name, _json(call.input)) for call in entry.tool_calls]
    return {name for (name, _), number in Counter(calls).items() if number > 1}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _answer_schema(output: OutputFormat | None) -> object:
    return {"type": "string"} if output is None else enforced_part(output.schema) or _ANY_JSON


def _call_schema(tool: ToolSpec) -> RequestJson:
    return _object(tool={"const": tool.name}, input=enforced_schema(tool.input_schema) or {"type": "object"})


def _object(**properties: object) -> RequestJson:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


class ConstrainedDecoder:
    """Decodes one answer of a model that is bound to the JSON of `constrained_body`."""

    def __init__(self, inner: ChatDecoder, *, is_text: bool = True) -> None:
        """`is_text` is false for answers that have a form: they are taken whole, as JSON."""
        self._inner = inner
        self._is_text = is_text
        self._text = ""
        self._streams = False
        self._calls = False

    @property
    def finished(self) -> bool:
        """Whether the model has ended its answer."""
        return self._inner.finished

    def feed(self, data: str) -> Iterable[ModelOutput]:
        """Returns the outputs of one event."""
        return list(self._translate(self._inner.feed(data)))

    def end(self) -> Iterable[ModelOutput]:
        """Returns the outputs still owed when the stream ended."""
        return list(self._translate(self._inner.end()))

    def _translate(self, outputs: Iterable[ModelOutput]) -> Iterator[ModelOutput]:
        for output in outputs:
            match output:
                case TextStarted():
                    pass
                case TextChunk(text=text):
                    self._text += text
                    yield from self._grow()
                case TextStopped():
                    yield from self._close()
                case MessageStopped(stop_reason="end_turn") if self._calls:
                    yield MessageStopped("tool_use")
                case _:
                    yield output

    def _grow(self) -> Iterator[ModelOutput]:
        """Streams the part of the answer that is complete."""
        if not self._streams:
            begin = _ANSWER.match(self._text) if self._is_text else None
            if begin is None:
                return
            self._streams, self._text = True, self._text[begin.end() :]
            yield TextStarted()
        ready = _CHARACTERS.match(self._text)
        assert ready is not None
        if ready.end():
            self._text = self._text[ready.end() :]
            yield TextChunk(json.loads(f'"{ready[0]}"', strict=False))

    def _close(self) -> Iterator[ModelOutput]:
        if self._streams:
            yield TextStopped()
            return
        try:
            reply = msgspec.json.decode(self._text, type=dict[str, object])
        except (msgspec.DecodeError, RecursionError):
            # Cut off by the limit of tokens in the middle of a call or of an object: there is nothing to use.
            return
        yield from self._reply(reply)

    def _reply(self, reply: dict[str, object]) -> Iterator[ModelOutput]:
        if "answer" in reply:
            yield from (TextStarted(), TextChunk(_json(reply["answer"])), TextStopped())
        elif isinstance(name := reply.get("tool"), str):
            self._calls = True
            call_id = CallIds().take(None)
            yield from (ToolCallStarted(call_id, name), ToolInputChunk(_json(reply.get("input", {}))), ToolCallStopped())
