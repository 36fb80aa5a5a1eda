from agentvm.model.usage import Usage
from agentvm.observability.genai import SECOND_BOUNDS, TOKEN_BOUNDS, GenAi
from agentvm.observability.metrics import LABELS_MAX, OTHER
from agentvm.observability.spans import TracedCall


def call(
    model: str = "m", *, asked_at: int | None = 1_000, first_at: int | None = None, error: str | None = None
) -> TracedCall:
    used = Usage(input_tokens=3, output_tokens=2)
    return TracedCall("c", "work", model, model, asked_at, first_at=first_at, error=error, usage=used, ended_at=1_500)


def test_the_bounds_are_those_that_are_advised() -> None:
    tokens = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]
    assert [int(bound) for bound in TOKEN_BOUNDS] == tokens
    assert [round(bound, 2) for bound in SECOND_BOUNDS] == [
        0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
    ]  # fmt: skip


def test_a_call_is_in_each_histogram_once_under_its_driver() -> None:
    genai = GenAi(lambda provider, model: True, lambda provider: "anthropic")
    genai.note(call(first_at=1_020))
    tokens, duration, first = genai.read()
    assert [point.total for point in tokens.points] == [3, 2]
    assert dict(tokens.points[0].labels) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "m",
        "gen_ai.token.type": "input",
    }
    assert (duration.points[0].total, first.points[0].total) == (0.5, 0.02)
    assert first.points[0].counts[1] == 1


def test_a_failure_has_a_series_of_its_own_and_what_has_no_beginning_has_no_duration() -> None:
    genai = GenAi(lambda provider, model: True)
    genai.note(call(error="provider_timeout"))
    genai.note(call(asked_at=None))
    tokens, duration, first = genai.read()
    assert [dict(point.labels)["error.type"] for point in duration.points] == ["provider_timeout"]
    assert (sum(tokens.points[0].counts), first.points) == (2, ())


def test_what_nobody_knows_is_other_and_series_are_bounded() -> None:
    genai = GenAi(lambda provider, model: not model)
    for number in range(50):
        genai.note(call(f"made-up-{number}"))
    tokens, _, _ = genai.read()
    assert {dict(point.labels)["gen_ai.request.model"] for point in tokens.points} == {OTHER}
    loose = GenAi(lambda provider, model: True)
    for number in range(LABELS_MAX * 5):
        loose.note(call(f"m{number}"))
    assert all(len(series.points) <= LABELS_MAX * 4 for series in loose.read())
