import pytest
from tests.operations.fixtures import open_desk

from agentvm.errors import QuotaExceeded
from agentvm.errors.resource import ResourceUriInvalid
from agentvm.model.ids import TenantId
from agentvm.model.resource import Resource, ResourceId
from agentvm.resources.kind import check_selector, versioned_uri
from agentvm.resources.registry import NewVersion
from agentvm.sessions.resources import ResourceLibrary

RESOURCE = Resource(
    resource_id=ResourceId("res_1"),
    tenant_id=TenantId("ten_acme"),
    owner="acme",
    type="prompts",
    name="hello",
    created_at=1,
    updated_at=1,
)


def test_a_selector_is_checked_as_in_a_uri() -> None:
    assert check_selector(RESOURCE, "Stable") == "stable"
    assert check_selector(RESOURCE, ">=1  <2") == ">=1 <2"
    for wrong in ("", "1.0.0#x", "a/b", "??"):
        with pytest.raises(ResourceUriInvalid):
            check_selector(RESOURCE, wrong)


def test_a_version_is_named_in_a_uri() -> None:
    assert str(versioned_uri(RESOURCE, "Stable")) == "resource://prompts/acme/hello@stable"
    assert str(versioned_uri(RESOURCE, None)) == "resource://prompts/acme/hello"


async def test_a_resource_is_registered_within_the_limits_and_found_again() -> None:
    async with open_desk() as desk:
        library = ResourceLibrary(desk.peer.workspace)
        draft = NewVersion(type="prompts", name="hello", content={"text": "Hi."})
        published, warned = await library.register(draft)
        assert warned == ()
        assert await library.find("resource://prompts/hello") == published.resource
        closure = await library.closure(published.resource, "1.0.0")
        assert closure.root.version.digest == published.version.digest
        await desk.limit("resources", 1)
        with pytest.raises(QuotaExceeded):
            await library.register(NewVersion(type="prompts", name="more", content={"text": "Hi."}))
