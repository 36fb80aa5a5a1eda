"""What can go wrong with a model provider: each shape as what it plays, and what the user must be told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support import answers as play
from tests.support.provider import Answer, Delay, Disconnect, Stall, Step

OVERLOADED, RATE_LIMITED, PROTOCOL = "provider_overloaded", "provider_rate_limited", "provider_protocol_error"
UNREACHABLE, TIMEOUT, BAD_REQUEST, AUTH = "provider_unreachable", "timeout", "provider_bad_request", "provider_auth_failed"

MOST_TRIES = 3
SPOKEN = "Hello world"
USED = (10, 5)
"""What the scripted answers say they consumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One way to fail, or to be odd. `code` None: the turn completes all the same."""

    plays: Sequence[Answer] = ()
    code: str | None = None
    tries: int = 1
    """Requests the provider sees."""
    text: str = ""
    """What of the answer the user keeps."""
    used: tuple[int, int] | None = None
    """Tokens in and out that are counted; None for any estimate."""
    stop: str = "end_turn"
    takes: float = 0.0
    """Seconds the turn takes at least: the provider asked for them."""
    where: str = "http"
    """`stalled` if only a deadline ends it; else what the socket does: `refused`, `reset`, `closed` or `silent`."""


Wire = Sequence[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one provider says what all providers say."""

    name: str
    begin: Wire
    """The beginning of an answer, with the text spoken."""
    end: Callable[[str, play.Json | None], Wire]
    """The end of an answer: why it ended, and the usage; {} for none."""
    error: Callable[[str], bytes]
    """An error inside of the stream."""
    refusal: str
    tools: Callable[..., Answer]
    count: Callable[[object, object], play.Json]
    """A usage."""

    def answer(self, *steps: Step, why: str = "stop", usage: play.Json | None = None) -> Answer:
        return play.stream([*self.begin, *steps, *self.end(why, usage)])


def _anthropic_end(why: str, usage: play.Json | None) -> Wire:
    return play.message_end({"stop": "end_turn"}.get(why, why), usage=usage)


def _openai_end(why: str, usage: play.Json | None) -> Wire:
    end = play.openai_end(why, usage=usage)
    return [end[0], end[2]] if usage == {} else end


ANTHROPIC = Dialect(
    name="anthropic",
    begin=[play.message_start(usage={"input_tokens": 10, "output_tokens": 1}), *play.text_block(0, "Hello", " world")],
    end=_anthropic_end,
    error=lambda kind: play.event("error", {"error": {"type": kind, "message": "scripted"}}),
    refusal="refusal",
    tools=play.anthropic_tools,
    count=lambda read, written: {"input_tokens": read, "output_tokens": written},
)
OPENAI = Dialect(
    name="openai",
    begin=[
        play.delta({"role": "assistant", "content": ""}),
        play.delta({"content": "Hello"}),
        play.delta({"content": " world"}),
    ],
    end=_openai_end,
    error=lambda kind: play.chunk({"error": {"type": kind, "message": "scripted"}}),
    refusal="content_filter",
    tools=play.openai_tools,
    count=lambda read, written: {"prompt_tokens": read, "completion_tokens": written},
)


def _status(status: int, *, tries: int = 1, code: str, **headers: str) -> Shape:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Shape(plays=[play.failure(status, headers=named)], code=code, tries=tries, used=(0, 0))


def _page(status: int, body: bytes = b"<html><h1>Bad gateway</h1></html>", kind: str = "text/html") -> Answer:
    return Answer(status=status, content_type=kind, steps=(body,) if body else ())


def _once(first: Answer, good: Answer, *, takes: float = 0.0) -> Shape:
    """Fails once, then answers: tried again, counted once."""
    return Shape(plays=[first, good], tries=2, text=SPOKEN, used=USED, takes=takes)


def refusals(wire: Dialect) -> dict[str, Shape]:
    """Answers that are no success."""
    good = wire.answer()
    return {
        "429": _status(429, code=RATE_LIMITED, tries=MOST_TRIES),
        "429 once": _once(play.failure(429), good),
        "429 once, retry-after 1 s": _once(play.failure(429, headers={"retry-after": "1"}), good, takes=1.0),
        "429 once, retry-after-ms 700": _once(play.failure(429, headers={"retry-after-ms": "700"}), good, takes=0.7),
        "429 once, retry-after in the past": _once(play.failure(429, headers={"retry-after": "-5"}), good),
        "429 once, retry-after is nonsense": _once(play.failure(429, headers={"retry-after": "soon"}), good),
        "429, retry-after an hour": _status(429, code=RATE_LIMITED, retry_after="3600"),
        "500": _status(500, code=OVERLOADED, tries=MOST_TRIES),
        "502 with a page": Shape(plays=[_page(502)], code=OVERLOADED, tries=MOST_TRIES, used=(0, 0)),
        "503 once": _once(play.failure(503), good),
        "503 with nothing": Shape(plays=[_page(503, b"")], code=OVERLOADED, tries=MOST_TRIES, used=(0, 0)),
        "504": _status(504, code=TIMEOUT, tries=MOST_TRIES),
        "529": _status(529, code=OVERLOADED, tries=MOST_TRIES),
        "529 once": _once(play.failure(529), good),
        "408 once": _once(play.failure(408), good),
        "400": _status(400, code=BAD_REQUEST),
        "401": _status(401, code=AUTH),
        "403": _status(403, code=AUTH),
        "404": _status(404, code=BAD_REQUEST),
        "413": _status(413, code=BAD_REQUEST),
        "302 elsewhere": _status(302, code=PROTOCOL, location="http://127.0.0.1:9/"),
        "nobody listens": Shape(where="refused", code=UNREACHABLE, used=(0, 0)),
        # The request has left, and whether it was read is unknown: charged as an estimate.
        "reset at once": Shape(where="reset", code=UNREACHABLE, tries=MOST_TRIES),
        "closed at once": Shape(where="closed", code=UNREACHABLE, tries=MOST_TRIES),
        "silence before the first byte": Shape(where="silent", code=TIMEOUT),
    }


def broken_streams(wire: Dialect) -> dict[str, Shape]:
    """Answers that begin well and do not end so, or are no stream at all."""
    begin, cut = wire.begin, b'data: {"type": "content_block_del'

    def broken(*steps: Step, code: str, text: str = SPOKEN, used: tuple[int, int] | None = None) -> Shape:
        where = "stalled" if Stall() in steps else "http"
        return Shape(plays=[play.stream(steps)], code=code, text=text, used=used, where=where)

    return {
        "a page for an answer": Shape(plays=[_page(200)], code=PROTOCOL, used=(0, 0)),
        "JSON for a stream": Shape(plays=[_page(200, b'{"id":"x"}', "application/json")], code=PROTOCOL, used=(0, 0)),
        "an empty stream": broken(code=PROTOCOL, text="", used=(0, 0)),
        "only comments": broken(b": ping\n\n" * 10, code=PROTOCOL, text="", used=(0, 0)),
        "a gzip that is none": Shape(
            plays=[Answer(headers={"content-encoding": "gzip"}, steps=(b"plain",))], code=PROTOCOL, used=(0, 0)
        ),
        "headers, then a stall": broken(Stall(), code=TIMEOUT, text=""),
        "a stall in the middle": broken(*begin, Stall(), code=TIMEOUT),
        "a hang-up in the middle": broken(*begin, Disconnect(), code=UNREACHABLE),
        "the end is missing": broken(*begin, code=PROTOCOL),
        "truncated JSON": broken(*begin, cut, code=PROTOCOL),
        "truncated JSON and a line end": broken(*begin, cut + b"\n\n", code=PROTOCOL),
        "no UTF-8": broken(*begin, b'data: {"id":"\xff\xfe"}\n\n', code=PROTOCOL),
        "no object": broken(*begin, b"data: 7\n\n", code=PROTOCOL),
        "an event without end": broken(*begin, *[b"data: " + b"x" * 1_000_000 + b"\n"] * 9, code=PROTOCOL),
        "an error at the beginning": broken(wire.error("overloaded_error"), code=OVERLOADED, text="", used=(0, 0)),
        "an error in the middle": broken(*begin, wire.error("overloaded_error"), code=OVERLOADED),
        "a rate limit in the middle": broken(*begin, wire.error("rate_limit_error"), code=RATE_LIMITED),
        "an error nobody knows": broken(*begin, wire.error("mystery"), code="provider_error"),
    }


def odd_answers(wire: Dialect) -> dict[str, Shape]:
    """Answers that are odd, and whose turn ends well all the same; and usages."""
    calls = (("call_1", "calculator", ['{"expression":', ' "6*7"}']), ("call_1", "calculator", ['{"expression": "1+1"}']))
    twice = (2 * USED[0], 2 * USED[1])

    def counted(usage: play.Json, used: tuple[int, int] | None, code: str | None = None) -> Shape:
        return Shape(plays=[wire.answer(usage=usage)], text=SPOKEN, used=used, code=code)

    def tools(*asked: play.CallSpec) -> Shape:
        return Shape(plays=[wire.tools(*asked), wire.answer()], tries=2, text=SPOKEN, used=twice)

    return {
        "a slow answer": Shape(plays=[wire.answer(Delay(0.2))], text=SPOKEN, used=USED, takes=0.2),
        "a refusal": Shape(plays=[wire.answer(why=wire.refusal)], text=SPOKEN, used=USED, stop="refusal"),
        "a reason nobody knows": Shape(plays=[wire.answer(why="mystery")], text=SPOKEN, used=USED),
        "an event nobody knows": Shape(plays=[wire.answer(play.event("mystery", {"x": 1}))], text=SPOKEN, used=USED),
        "a usage that is missing": counted({}, None),
        "a usage of nothing": counted(wire.count(0, 0), (0, 0)),
        "a usage that is huge": counted(wire.count(10**15, 10**15), (10**12, 10**12)),
        "a usage below zero": counted(wire.count(-10, -5), None),
        "a usage in words": counted(wire.count("ten", "five"), None, PROTOCOL),
        "two calls with one id": tools(*calls),
        "a call whose input is no JSON": tools(("call_1", "calculator", ["{{"])),
        "a call of a tool nobody has": tools(("call_1", "nobody", ["{}"])),
        "calls without end": Shape(plays=[wire.tools(calls[0])], code="turn_limit_reached", tries=4, used=(40, 20)),
    }


def shapes(wire: Dialect) -> dict[str, Shape]:
    return {**refusals(wire), **broken_streams(wire), **odd_answers(wire)}
