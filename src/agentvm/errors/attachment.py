"""Errors of attachments; part of the tree in `agentvm.errors`."""

from agentvm.errors import Conflict, NotFound, Unprocessable, shorten


class AttachmentNotFound(NotFound):
    """The container has no such attachment; attachments of other containers are not disclosed."""

    code = "attachment_not_found"

    def __init__(self, reference: str) -> None:
        super().__init__(f"Attachment not found in the container: {shorten(reference)}. Upload it with POST /v1/attachments")


class AttachmentInUse(Conflict):
    code = "attachment_in_use"


class AttachmentTooLarge(Unprocessable):
    code = "attachment_too_large"
