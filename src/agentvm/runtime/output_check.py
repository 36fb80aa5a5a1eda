"""Output check — validates the answer of a turn against its schema, and writes the request to repair it."""

from collections.abc import Sequence

import msgspec

from agentvm.errors.bounds import OutputMisfit
from agentvm.errors.resource import ResourceInvalid
from agentvm.events.turn import TurnStop
from agentvm.model.ids import TurnId
from agentvm.model.message import AssistantMessage, Message
from agentvm.model.turn import OutputFormat
from agentvm.resources.schema import SchemaCheck
from agentvm.runtime.turn_state import Unchecked

REPAIRS_MAX = 2
"""Model calls that repair an answer, each of which is billed."""

_FENCE = "```"
_CUT_SHORT: dict[TurnStop, str] = {
    "max_tokens": "it was cut off at the maximum length of an answer (maxTokens)",
    "refusal": "the model refused to answer",
}


class OutputCheck:
    """Compares the answers of one turn with a schema."""

    def __init__(self, form: OutputFormat) -> None:
        self.form = form
        self._check = SchemaCheck("output", form.schema)
        self._misfits = 0
        self._faults: list[str] = []

    def read(self, answer: Unchecked) -> tuple[object] | None:
        """Returns the value in a tuple; None if the model is to repair its answer. `OutputMisfit` if it is not asked again."""
        try:
            value = msgspec.json.decode(_without_fence(answer.text))
        except (msgspec.DecodeError, RecursionError):
            self._faults = ["it is not JSON" if answer.text.strip() else "it is empty"]
        else:
            self._faults = self._faults_of(value)
            if not self._faults:
                return (value,)
        self._misfits += 1
        why = _CUT_SHORT.get(answer.stop)
        if why is None and self._misfits <= REPAIRS_MAX:
            return None
        why = why or f"{'; '.join(self._faults)} (after {REPAIRS_MAX} repairs)"
        raise OutputMisfit(f"The answer does not fit the schema of {self.form.name}: {why}")

    def _faults_of(self, value: object) -> list[str]:
        try:
            return [str(misfit) for misfit in self._check.misfits(value)]
        except ResourceInvalid as error:
            # No schema is compared with a value that is too deep, or has numbers of more than 64 bits.
            return [str(error)]

    def go_on(self, misfits: int) -> None:
        """Continues after a restart, before which this many answers did not fit."""
        self._misfits = misfits

    @property
    def instruction(self) -> str | None:
        """The words that ask the model to repair its last answer; None if that is not needed."""
        if not self._faults:
            return None
        faults = "\n".join(f"- {fault}" for fault in self._faults)
        return (
            f"Your last answer does not fit the JSON Schema of {self.form.name}:\n{faults}\n"
            "Answer again with the whole corrected JSON value and nothing else."
        )


def answers_of(messages: Sequence[Message], turn_id: TurnId) -> list[str]:
    """Returns the texts of the answers at the end of a turn, after its last tool call."""
    texts: list[str] = []
    for message in reversed(messages):
        if not isinstance(message, AssistantMessage) or message.turn_id != turn_id:
            break
        texts.append(message.text)
    return texts[::-1]


def _without_fence(text: str) -> str:
    """Models often put JSON into a code fence despite instructions."""
    text = text.strip()
    if not (text.startswith(_FENCE) and text.endswith(_FENCE) and len(text) > 2 * len(_FENCE)):
        return text
    _, _, body = text.removesuffix(_FENCE).partition("\n")
    return body
