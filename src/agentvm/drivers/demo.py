"""Demo — the limits of the embedded default model: it is tiny, knows English only, and is often wrong."""

import secrets
from collections.abc import AsyncGenerator

from agentvm.drivers.base import (
    MessageStarted,
    MessageStopped,
    ModelOutput,
    TextChunk,
    TextStarted,
    TextStopped,
    UsageReported,
)
from agentvm.drivers.model_catalog import DEFAULT_MODEL
from agentvm.model.usage import NO_USAGE

ANSWER_TOKENS_MAX = 400
"""A longer answer of so small a model only repeats itself."""

CHINESE_SHARE = 0.5
"""A message with a larger share of Chinese letters is not given to a model without Chinese."""

NOTICE = "The built-in demo model (SmolLM2-135M) knows English only and is often wrong."
REMEDY = "For real answers set LLM_API_KEY, or name a model: avm serve --model ..."

_CHINESE_NOTICE = (
    "这是内置的演示模型（SmolLM2-135M）：它只懂英文，而且经常答错，因此没有用它回答这条中文消息。"
    "要得到真正的回答，请设置 LLM_API_KEY，或指定一个模型：avm serve --model …\n\n"
    f"{NOTICE} {REMEDY}"
)


def is_demo(model: str | None) -> bool:
    """Returns whether a model is the demo model, by its name without the provider."""
    return model == DEFAULT_MODEL


def is_mostly_chinese(text: str) -> bool:
    """Whether more than half of the letters are Chinese characters."""
    chinese = sum(1 for char in text if "\u3400" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff")
    letters = sum(1 for char in text if char.isalpha())
    return chinese > letters * CHINESE_SHARE


async def answer_with_notice(model: str) -> AsyncGenerator[ModelOutput, None]:
    """An answer that explains why the model cannot answer; no model is called, and nothing is billed."""
    yield MessageStarted(f"msg_{secrets.token_hex(12)}", model)
    yield TextStarted()
    yield TextChunk(_CHINESE_NOTICE)
    yield TextStopped()
    yield UsageReported(NO_USAGE)
    yield MessageStopped("end_turn")
