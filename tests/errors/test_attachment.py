from agentvm.errors.attachment import AttachmentInUse, AttachmentNotFound, AttachmentTooLarge
from agentvm.server.errors import status_of


def test_what_is_not_there_is_named_with_the_remedy() -> None:
    text = str(AttachmentNotFound("attachment:sha256:00"))
    assert "attachment:sha256:00" in text
    assert "POST /v1/attachments" in text
    assert len(str(AttachmentNotFound("x" * 10_000))) < 400


def test_each_has_the_status_that_programs_expect() -> None:
    assert [status_of(error) for error in (AttachmentNotFound, AttachmentInUse, AttachmentTooLarge)] == [404, 409, 413]
