import pytest

from agentvm.errors import Conflict, InvalidInput
from agentvm.model.ids import DEFAULT_TENANT, TenantId
from agentvm.tenants.slug import check_slug


@pytest.mark.parametrize("slug", ["a", "acme", "a-b", "0", "a" * 63])
def test_a_slug_has_small_letters_digits_and_hyphens(slug: str) -> None:
    assert check_slug(slug) == slug
    assert check_slug(slug, TenantId("ten_1")) == slug


@pytest.mark.parametrize(
    "slug", ["", "A", "a_b", "-a", "a-", "a" * 64, "create", "list", "default", "system", "ä", "a/b", "\n"]
)
def test_a_slug_that_could_be_mistaken_is_refused(slug: str) -> None:
    with pytest.raises(InvalidInput):
        check_slug(slug)


def test_the_operators_tenant_keeps_its_slug() -> None:
    with pytest.raises(Conflict):
        check_slug("other", DEFAULT_TENANT)
