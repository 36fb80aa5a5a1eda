import pytest

from agentvm.errors.resource import ResourceUriInvalid
from agentvm.model.ids import TenantId
from agentvm.model.resource import Resource, ResourceId, ResourceVersion, VersionId
from agentvm.server.http.resource_views import selector_of, version_shown

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


def test_who_published_it_is_told_to_colleagues_only() -> None:
    assert version_shown(VERSION, RESOURCE, OWNER).created_by == "usr_ann/key_1"
    assert version_shown(VERSION, RESOURCE, OTHER).created_by is None


def test_a_selector_is_checked_as_in_a_uri() -> None:
    assert selector_of(RESOURCE, "Stable") == "stable"
    assert selector_of(RESOURCE, ">=1  <2") == ">=1 <2"
    for wrong in ("", "1.0.0#x", "a/b", "??"):
        with pytest.raises(ResourceUriInvalid):
            selector_of(RESOURCE, wrong)
