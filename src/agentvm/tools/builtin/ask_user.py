"""ask_user — asks the person a question; the turn is parked until the answer comes."""

from collections.abc import Mapping

from agentvm.model.wait import Question
from agentvm.tools.base import (
    CallContext,
    CallTraits,
    InputRequired,
    Outcome,
    TraitsOfTool,
    error_result,
    text_result,
    tool_spec,
)

QUESTION_MAX = 4_000
OPTIONS_MAX = 20
OPTION_MAX = 200
ANSWER_MAX = 20_000
ANSWER = "answer"
"""Key of the one question, and of the value in its answer."""

_SPEC = tool_spec(
    "ask_user",
    (
        "Asks the user a question and returns the answer. Use it when you cannot go on without a decision or a fact that only "
        "the user has. With options the user chooses one of them, or several if `multiple` is true."
    ),
    ["question"],
    {
        "question": {"type": "string", "minLength": 1, "maxLength": QUESTION_MAX},
        "options": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": OPTION_MAX},
            "minItems": 1,
            "maxItems": OPTIONS_MAX,
            "uniqueItems": True,
            "description": "Answers to choose from; without them the user writes freely",
        },
        "multiple": {"type": "boolean", "description": "Several options may be chosen"},
        "other": {"type": "boolean", "description": "Besides the options the user may write an answer of his own"},
    },
)


class AskUser(TraitsOfTool):
    """The tool `ask_user`."""

    spec = _SPEC
    traits = CallTraits.of("read", world="closed")

    async def run(self, input: Mapping[str, object], context: CallContext) -> Outcome:
        """Asks; called again with the answer, returns it."""
        if context.resumption is None:
            question = Question(mode="form", message=str(input["question"]), schema=_schema(input))
            return InputRequired(questions={ANSWER: question}, kind="question")
        answer = context.resumption.answers.get(ANSWER)
        if answer is None or answer.action != "accept" or answer.content is None:
            return error_result("The user did not answer the question.")
        value = answer.content.get(ANSWER)
        return text_result(", ".join(map(str, value)) if isinstance(value, list) else str(value))


def _schema(input: Mapping[str, object]) -> dict[str, object]:
    """Returns the schema of the answer: an object with one member, as forms have it."""
    written: dict[str, object] = {"type": "string", "minLength": 1, "maxLength": ANSWER_MAX}
    value, options = written, input.get("options")
    if options:
        chosen: dict[str, object] = {"type": "string", "enum": options}
        value = {"anyOf": [chosen, written]} if input.get("other") else chosen
        if input.get("multiple"):
            value = {"type": "array", "items": value, "minItems": 1, "maxItems": OPTIONS_MAX, "uniqueItems": True}
    return {"type": "object", "properties": {ANSWER: value}, "required": [ANSWER], "additionalProperties": False}
