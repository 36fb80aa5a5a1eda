from agentvm.server.cors import cors_headers, preflight_headers

PAGE = [(b"origin", b"https://app.example")]


def test_only_pages_of_allowed_origins_are_answered() -> None:
    assert cors_headers(PAGE, ()) == {}
    assert cors_headers([], ("*",)) == {}
    assert cors_headers(PAGE, ("https://other.example",)) == {}
    for allowed in ("https://app.example/", "*"):
        assert cors_headers(PAGE, (allowed,))["Access-Control-Allow-Origin"] == "https://app.example"


def test_a_preflight_names_the_methods_and_the_headers_of_the_official_clients() -> None:
    asked = (b"access-control-request-headers", b"authorization, x-stainless-os, x-evil")
    headers = preflight_headers([*PAGE, asked], "GET, OPTIONS")
    assert headers["Access-Control-Allow-Methods"] == "GET, OPTIONS"
    allowed = headers["Access-Control-Allow-Headers"].split(", ")
    assert {"authorization", "x-stainless-os", "last-event-id"} <= set(allowed)
    assert "x-evil" not in allowed
