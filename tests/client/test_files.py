import pytest
from tests.client.test_verbs import FakeLink

from agentvm.client.files import AttachmentVerbs
from agentvm.model.ids import ContainerId
from agentvm.operations.attachment import AttachmentGetReply, AttachmentList, AttachmentListReply
from agentvm.protocol.records import AttachmentRecord

pytestmark = pytest.mark.anyio

RECORD = AttachmentRecord(
    attachment="attachment:sha256:0", digest="sha256:0", container_id=ContainerId("c"), size=1, media_type="a/b", created_at=1
)


async def test_files_are_listed_page_by_page_and_told_of() -> None:
    link = FakeLink(
        AttachmentListReply(records=(RECORD,), next_cursor="7"), AttachmentListReply(records=()),
        AttachmentGetReply(record=RECORD),
    )  # fmt: skip
    library = AttachmentVerbs(link)
    assert await library.list("c", limit=1) == ((RECORD,), "7")
    assert await library.list("c", cursor="7") == ((), None)
    assert await library.get("c", "attachment:sha256:0") == RECORD
    assert link.asked[1] == AttachmentList(container_id="c", cursor="7")
