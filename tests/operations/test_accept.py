import pytest

from agentvm.operations.accept import preferred

JSON, TEXT, OPEN = "application/json", "text/plain", "application/openmetrics-text"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("garbage", JSON),
        ("application/xml", JSON),
        ("text/plainfoo", JSON),
        ("text/plain", TEXT),
        ("TEXT/Plain ; Version=0.0.4", TEXT),
        ("text/*", TEXT),
        ("text/*, */*;q=0.1", TEXT),
        # What axios and Angular send with everything.
        ("application/json, text/plain, */*", JSON),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", JSON),
        ("application/json;q=0.1, text/plain;q=0.9", TEXT),
        ("text/plain;q=0, application/json;q=0.1", JSON),
        ("text/plain;q=0, */*;q=0.5, application/json;q=0", OPEN),
        ("text/plain;q=x, application/json", JSON),
        ("text/plain;q=nan, application/json;q=0.5", JSON),
        ("text/plain;q=9, application/openmetrics-text;q=1", TEXT),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1", OPEN),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
            "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            OPEN,
        ),
        ("text/plain;version=0.0.4;q=1,*/*;q=0.1", TEXT),
        (",;,;q=;/,,", JSON),
    ],
)
def test_the_form_that_is_ranked_highest_is_given(accept: str, form: str) -> None:
    assert preferred(accept, (JSON, TEXT, OPEN)) == form
