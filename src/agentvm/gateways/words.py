"""Words — texts of the server itself in a chat, in the language of the message that it answers."""

import json
import re
from dataclasses import dataclass

from agentvm.errors import AgentVMError
from agentvm.gateways.turn_parts import CallWaits
from agentvm.model.wait import options_of

INPUT_MAX = 600
"""Characters of a call's input that are shown to the one who approves it."""

_CHINESE = re.compile(r"[\u3400-\u9fff]")
_YES = frozenset({"y", "yes", "ok", "/approve", "是", "好", "好的", "可以", "同意", "批准", "允许"})
_NO = frozenset({"n", "no", "/deny", "不", "否", "不行", "不可以", "不同意", "拒绝"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    help: str
    begun: str
    stopped: str
    too_many: str
    nothing: str
    failed: str
    was_stopped: str
    approve: str
    ask: str
    lost: str
    no_file: str
    held: str


EN = Words(
    help="Write a message, and the agent answers.\n/new begins a new conversation.\n/stop stops the answer.\n/help shows this.",
    begun="A new conversation begins with your next message.",
    stopped="Stopped.",
    too_many="You write faster than this channel allows. Wait a minute, then write again.",
    nothing="(The agent gave no answer.)",
    failed="The answer failed: {error}",
    was_stopped="(Stopped.)",
    approve="The agent wants to use **{name}**:\n```\n{input}\n```\nAnswer **y** to allow it, or **n** to refuse.",
    ask="The agent asks:\n{input}",
    lost="(The rest of this answer is no longer kept.)",
    no_file="(A file could not be fetched: {error})",
    held="(Waits for an approval of {name}. {about})",
)
ZH = Words(
    help="直接发消息，智能体就会回答。\n/new 开始新的对话\n/stop 停止当前的回答\n/help 显示本说明",
    begun="从下一条消息开始新的对话。",
    stopped="已停止。",
    too_many="消息发得太快了，请过一分钟再发。",
    nothing="（智能体没有说话。）",
    failed="回答失败：{error}",
    was_stopped="（已停止。）",
    approve="智能体想使用 **{name}**：\n```\n{input}\n```\n回复 **y** 同意，回复 **n** 拒绝。",
    ask="智能体想问：\n{input}",
    lost="（这个回答的其余部分已不再保存。）",
    no_file="（有一个文件无法取得：{error}）",
    held="（等待批准 {name}。{about}）",
)


def words_for(text: str) -> Words:
    """Returns the words in the language of a message."""
    return ZH if _CHINESE.search(text) else EN


def answer_word(text: str) -> str | None:
    """Returns the durable text answer that a message stands for: `/approve` or `/deny`; None for any other message."""
    word = text.strip().lower().rstrip("。.!！")
    return "/approve" if word in _YES else "/deny" if word in _NO else None


def error_text(words: Words, error: AgentVMError) -> str:
    return words.failed.format(error=f"{error} ({error.code})")


def wait_text(words: Words, part: CallWaits) -> str:
    """Asks for an approval, or shows a question with its numbered options."""
    if part.questions:
        questions = "\n".join(" ".join(filter(None, (question.message, question.url))) for question in part.questions.values())
        options = options_of(part.questions)
        listed = "".join(f"\n{number}. {option}" for number, option in enumerate(options, start=1))
        return words.ask.format(input=f"{questions}{listed}")
    shown = json.dumps(part.input, ensure_ascii=False, indent=1).replace("```", "'''")
    shown = shown if len(shown) <= INPUT_MAX else f"{shown[:INPUT_MAX]}…"
    return (words.approve if part.kind in ("approval", "consent") else words.ask).format(name=part.name, input=shown)


def held_text(words: Words, part: CallWaits) -> str:
    """Explains that a call waits for an answer that this chat cannot give: an approval, or a visit to a page."""
    pages = [question.url for question in (part.questions or {}).values() if question.url is not None]
    about = part.url or " ".join(pages) or part.why
    return words.held.format(name=part.name, about=about).replace(" )", ")")


def is_asked(part: CallWaits) -> bool:
    """Returns whether a call waits for a text of the user, so that a message can answer it."""
    return part.kind in ("question", "elicitation") and not any(
        question.mode == "url" for question in (part.questions or {}).values()
    )


def asks_caller(part: CallWaits) -> bool:
    """Returns whether the next request of the caller answers a call: with a result, or with the words of its user."""
    return part.kind == "client" or is_asked(part)
