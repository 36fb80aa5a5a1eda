import pytest

from agentvm.drivers.base import MessageStopped, TextChunk, UsageReported
from agentvm.drivers.demo import answer_with_notice, is_demo, is_mostly_chinese
from agentvm.drivers.model_catalog import DEFAULT_MODEL


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("你好，请介绍一下你自己", True),
        ("请用 Python 写一个排序函数", True),
        ("What does 你好 mean?", False),
        ("hello", False),
        ("", False),
        ("12 + 30 = ?", False),
        ("привет", False),
    ],
)
def test_a_message_is_chinese_when_most_of_its_letters_are(text: str, chinese: bool) -> None:
    assert is_mostly_chinese(text) is chinese


async def test_the_notice_is_a_whole_answer_that_costs_nothing() -> None:
    outputs = [output async for output in answer_with_notice(DEFAULT_MODEL)]
    text = "".join(output.text for output in outputs if isinstance(output, TextChunk))
    assert "LLM_API_KEY" in text
    assert "演示模型" in text
    assert isinstance(outputs[-1], MessageStopped)
    assert [output.usage.total for output in outputs if isinstance(output, UsageReported)] == [0]
    assert is_demo(DEFAULT_MODEL)
    assert not is_demo("other")
