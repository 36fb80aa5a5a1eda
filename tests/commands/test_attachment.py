from io import BytesIO

import pytest
from tests.commands.fixtures import open_desk

from agentvm.model.ids import ContainerId
from agentvm.storage.attachments import Upload

pytestmark = pytest.mark.anyio


async def test_files_are_listed_and_told_of_and_only_to_those_who_have_them() -> None:
    async with open_desk() as desk:
        for name in ("c1", "c2"):
            await desk.ask("container_create", containerId=name)
        files = desk.vm.tenancy.store.tenant(desk.peer.tenant_id).container(ContainerId("c1")).attachments
        added = [(await files.add(BytesIO(body), Upload(media_type="text/plain", name="n"), 7))[0] for body in (b"a", b"b")]
        page = await desk.ask("attachment_list", containerId="c1", limit=1)
        assert [item["digest"] for item in page["records"]] == [added[1].digest]
        rest = await desk.ask("attachment_list", containerId="c1", cursor=page["nextCursor"])
        assert rest == {"records": [
            {"attachment": added[0].reference, "digest": added[0].digest, "containerId": "c1", "size": 1,
             "mediaType": "text/plain", "createdAt": 7, "name": "n"},
        ]}  # fmt: skip
        for named in (added[0].reference, added[0].digest):
            assert (await desk.ask("attachment_get", containerId="c1", attachment=named))["record"] == rest["records"][0]
        for asker, container in ((desk, "c2"), (desk.another("other"), "c1")):
            refused = await asker.ask("attachment_get", containerId=container, attachment=added[0].reference)
            assert refused["errorCode"] == "attachment_not_found"
            assert (await asker.ask("attachment_list", containerId=container))["records"] == []
        assert (await desk.ask("attachment_list", containerId="c1", cursor="?"))["errorCode"] == "invalid_input"
        assert (await desk.ask("attachment_get", containerId="c1", attachment="?"))["errorCode"] == "attachment_not_found"
