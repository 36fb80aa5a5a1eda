"""Wait prompt — asks the person in a chat about a call that waits: yes, no, another input, or why."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from agentvm.cli import program
from agentvm.cli.table import plain

APPROVAL = "Allow it? [y/n/edit/why] "
CONSENT = "Done? [y/n/why] "


def left_open(wait: Mapping[str, Any]) -> str:
    """Returns the line for a call that was not answered here: how it is answered elsewhere."""
    answer = "approve" if wait.get("kind") in ("approval", "consent") else "answer --result JSON"
    return plain(f"{wait['toolName']} waits: {program()} answer {wait['waitId']} {answer}")


class WaitPrompt:
    """Asks until there is an answer; `ask` returns None when the person leaves it open."""

    def __init__(self, show: Callable[[str], None], ask: Callable[[str, str], str | None]) -> None:
        self._show = show
        self._ask = ask

    def ask(self, wait: Mapping[str, Any]) -> dict[str, object] | None:
        """Returns the fields of the answer; None if there is none."""
        match wait.get("kind"):
            case "approval":
                self._show(plain(f"{wait['toolName']} {json.dumps(wait['input'], ensure_ascii=False)} needs your approval."))
                return self._decide(wait, APPROVAL)
            case "consent":
                self._show(plain(f"{wait['toolName']} needs your consent: open {wait.get('url')}"))
                return self._decide(wait, CONSENT)
            case "question" | "elicitation":
                return self._answer(wait)
            case _:
                return None

    def _decide(self, wait: Mapping[str, Any], prompt: str) -> dict[str, object] | None:
        while (line := self._ask(prompt, "")) is not None:
            word, _, rest = line.strip().partition(" ")
            match word.lower():
                case "y" | "yes":
                    return {"decision": "approve"}
                case "n" | "no":
                    return {"decision": "deny", "reason": rest.strip() or None}
                case "why":
                    self._show(plain(f"Why: {wait['why']}."))
                case "edit" if wait.get("kind") == "approval":
                    edited = self._edit(wait)
                    if edited is not None:
                        return {"decision": "edit", "input": edited}
                case _:
                    self._show("Answer y, n (with a reason, if you like), edit or why. Ctrl-D leaves it open.")
        return None

    def _edit(self, wait: Mapping[str, Any]) -> dict[str, object] | None:
        line = self._ask("New input: ", json.dumps(wait["input"], ensure_ascii=False))
        try:
            edited = json.loads(line or "")
        except ValueError:
            edited = None
        if not isinstance(edited, dict):
            self._show("The input must be a JSON object.")
            return None
        return edited

    def _answer(self, wait: Mapping[str, Any]) -> dict[str, object] | None:
        """Asks the questions one by one; a form with several fields is answered as JSON."""
        questions: Mapping[str, Any] = wait.get("questions") or {}
        answers: dict[str, object] = {}
        for key, question in questions.items():
            schema = question.get("schema") or {}
            options = [option for value in (schema.get("properties") or {}).values() for option in value.get("enum") or ()]
            shown = f" [{', '.join(map(str, options))}]" if options else ""
            line = self._ask(plain(f"{question['message']}{shown} "), "")
            if line is None:
                return None
            answers[key] = _value(line, schema)
        return {"decision": "answer", "result": answers}


def _value(line: str, schema: Mapping[str, Any]) -> object:
    """Returns the content of a form for a line: JSON where it is an object, else the value of the only field."""
    text = line.strip()
    if not text:
        return None
    if text.startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    fields = schema.get("properties") or {}
    if len(fields) != 1:
        return text
    ((name, about),) = fields.items()
    kind = about.get("type")
    if kind == "array":
        return {name: [part.strip() for part in text.split(",") if part.strip()]}
    if kind in ("integer", "number", "boolean"):
        try:
            return {name: json.loads(text.lower())}
        except ValueError:
            return {name: text}
    return {name: text}
