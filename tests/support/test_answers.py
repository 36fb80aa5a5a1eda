import httpx2
import pytest
from tests.support import answers
from tests.support.provider import Answer


def data_of(answer: Answer) -> list[str]:
    body = b"".join(step for step in answer.steps if isinstance(step, bytes))
    response = httpx2.Response(
        200, content=body, headers={"content-type": "text/event-stream"}, request=httpx2.Request("GET", "http://x")
    )
    return [event.data for event in httpx2.EventSource(response)]


@pytest.mark.parametrize(
    ("answer", "last"),
    [
        (answers.anthropic_text("a"), '{"type":"message_stop"}'),
        (answers.anthropic_tools(("c", "n", ["{}"]), text="a"), '{"type":"message_stop"}'),
        (answers.openai_text("a"), "[DONE]"),
        (answers.openai_tools(("c", "n", ["{}"])), "[DONE]"),
    ],
)
def test_every_answer_is_an_event_stream_that_ends(answer: Answer, last: str) -> None:
    assert data_of(answer)[-1] == last


def test_a_failure_has_a_body_and_headers() -> None:
    answer = answers.failure(429, headers={"retry-after": "1"})
    assert answer.status == 429
    assert answer.headers == {"retry-after": "1"}
    assert answer.content_type == "application/json"
