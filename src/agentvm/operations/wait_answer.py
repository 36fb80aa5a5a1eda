"""Wait answers — whether an answer fits the call that waits, and who may give it."""

from collections.abc import Mapping

import msgspec

from agentvm.errors import InvalidInput
from agentvm.errors.resource import ResourceInvalid
from agentvm.errors.tool import WaitForbidden
from agentvm.model.ids import KeyId, UserId
from agentvm.model.policy import Approval
from agentvm.model.principal import Principal
from agentvm.model.wait import AnswerDecision, Question, QuestionAnswer, ToolWait
from agentvm.resources.schema import misfits


def check_decision(wait: ToolWait, fingerprint: str, decision: AnswerDecision) -> None:
    """Refuses a decision about another call than the one that waits, or of a kind that it does not take."""
    if fingerprint != wait.fingerprint:
        raise InvalidInput("fingerprint is not that of this wait: look at the call again, it is another than the one you saw")
    if decision not in wait.decisions:
        raise InvalidInput(f"decision must be one of {', '.join(wait.decisions)} for a wait of the kind {wait.kind}")


def answers_of(wait: ToolWait, result: object) -> object:
    """Returns the answers to the questions of a tool, by their keys; a client's result as it is.

    `result` holds the content for each question, null where the user declines. For a single question the content itself will
    do, and for a form with one field its value.
    """
    questions = wait.questions
    if wait.kind == "timer":
        # Only that it continues now is said.
        return {}
    if questions is None:
        return result
    members = result if isinstance(result, Mapping) else None
    if len(questions) == 1 and (members is None or not set(members) <= set(questions) or _is_content(members, questions)):
        members = dict.fromkeys(questions, result)
    if members is None or not set(members) <= set(questions):
        raise InvalidInput(f"result must hold an answer for each of {', '.join(questions)}")
    answers = {key: _answer(key, question, members.get(key)) for key, question in questions.items()}
    return msgspec.to_builtins(answers)


def _is_content(content: Mapping[str, object], questions: Mapping[str, Question]) -> bool:
    """Returns whether a mapping is the content of the only question, whose field has the question's own key."""
    ((key, question),) = questions.items()
    return key in _fields(question) and not isinstance(content.get(key), Mapping)


def _fields(question: Question) -> Mapping[str, object]:
    fields = (question.schema or {}).get("properties")
    return fields if isinstance(fields, Mapping) else {}


def _defaults(fields: Mapping[str, object]) -> dict[str, object]:
    """Returns the default values of a form's fields."""
    return {name: about["default"] for name, about in fields.items() if isinstance(about, Mapping) and "default" in about}


def _answer(key: str, question: Question, value: object) -> QuestionAnswer:
    if value is None:
        return QuestionAnswer(action="decline")
    if question.mode == "url":
        # The page itself has the answer.
        return QuestionAnswer(action="accept")
    fields = _fields(question)
    content = value if isinstance(value, Mapping) or len(fields) != 1 else {next(iter(fields)): value}
    if isinstance(content, Mapping):
        content = _defaults(fields) | dict(content)
    try:
        faults = misfits(f"result.{key}", question.schema or {"type": "object"}, content)
    except ResourceInvalid as error:
        raise InvalidInput(f"result.{key} cannot be checked: {error}") from None
    if faults:
        raise InvalidInput(f"result.{key} does not fit the question: {'; '.join(map(str, faults))}")
    try:
        return msgspec.convert({"action": "accept", "content": content}, QuestionAnswer)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"result.{key} does not fit the question: {error}") from None


def check_audience(principal: Principal, wait: ToolWait) -> None:
    """Refuses a caller who may not answer. A principal without a user is a key of the tenant itself."""
    approval = Approval(audience=wait.audience, not_sender=wait.not_sender)
    if why := why_not_answer(principal, approval, wait.sender, wait.sender_key):
        raise WaitForbidden(wait.wait_id, why)


def why_not_answer(principal: Principal, approval: Approval, sender: UserId | None, sender_key: KeyId | None) -> str | None:
    """Returns why a principal may not answer for this approval; None if it may."""
    # A key without a user is its own sender; without authentication everybody is.
    is_sender = principal.user_id == sender and (sender is not None or principal.key_id == sender_key)
    if approval.not_sender and is_sender:
        return "somebody other than the sender of the message has to answer"
    is_key, may_administer = principal.user_id is None, principal.may("tenants:admin")
    match approval.audience.partition(":"):
        case ("owner", _, _) if not (is_key and may_administer) and principal.role != "owner":
            return "an owner of the tenant has to answer"
        case ("admins", _, _) if not may_administer:
            return "an administrator of the tenant has to answer"
        case ("user", _, user_id) if principal.user_id != user_id:
            return "another user has to answer"
        case ("sender", _, _) if sender is not None and principal.user_id not in (sender, None):
            return "the sender of the message has to answer"
        case _:
            return None
