from agentvm.model.ids import TenantId
from agentvm.model.resource import Resource, ResourceId, ResourceVersion, VersionId
from agentvm.operations.resource_views import version_view

OWNER, OTHER = TenantId("ten_acme"), TenantId("ten_bolt")
RESOURCE = Resource(
    resource_id=ResourceId("res_1"), tenant_id=OWNER, owner="acme", type="prompts", name="hello", created_at=1, updated_at=1
)
VERSION = ResourceVersion(
    version_id=VersionId("rver_1"),
    resource_id=ResourceId("res_1"),
    version="1.0.0",
    digest="sha256:" + "0" * 64,
    size=1,
    created_by="usr_ann/key_1",
    created_at=1,
)


def test_the_publisher_is_shown_to_colleagues_only() -> None:
    assert version_view(VERSION, RESOURCE, OWNER).created_by == "usr_ann/key_1"
    assert version_view(VERSION, RESOURCE, OTHER).created_by is None
