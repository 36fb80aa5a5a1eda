"""Where a sign-in at the identity provider ends; the way there is tested in `tests/operations/test_oidc.py`."""

import pytest

from agentvm.tenants.oidc_flow import own_page


@pytest.mark.parametrize(
    ("page", "own"),
    [
        ("/usage?by=user#x", "/usage?by=user#x"),
        ("/", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/x\r\nSet-Cookie: a=b", "/"),
        ("", "/"),
        ("/" + "x" * 2_000, "/"),
        ("/search?q=中#%41", "/search?q=%E4%B8%AD#%41"),
    ],
)
def test_a_sign_in_ends_on_a_page_of_this_server(page: str, own: str) -> None:
    assert own_page(page) == own
