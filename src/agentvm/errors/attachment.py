"""Errors of attachments; part of the tree that `agentvm.errors` draws."""

from agentvm.errors import Conflict, NotFound, Unprocessable, shorten


class AttachmentNotFound(NotFound):
    """The container has no such attachment; whether another has it is nobody's business."""

    code = "attachment_not_found"

    def __init__(self, reference: str) -> None:
        super().__init__(f"The container has no attachment {shorten(reference)}: upload it with POST /v1/attachments first")


class AttachmentInUse(Conflict):
    code = "attachment_in_use"


class AttachmentTooLarge(Unprocessable):
    code = "attachment_too_large"
