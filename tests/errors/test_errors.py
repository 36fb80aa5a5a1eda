import pytest

import agentvm.errors.archive
import agentvm.errors.resource  # noqa: F401  # Its classes enter themselves.
from agentvm import errors
from agentvm.errors import (
    BY_CODE,
    AgentVMError,
    Conflict,
    ImageNotFound,
    InvalidInput,
    NotFound,
    ProviderError,
    ProviderRateLimited,
    QuotaExceeded,
    RemoteError,
    from_code,
    shorten,
    suggest,
)

KINDS = [kind for kind in BY_CODE.values() if kind.__module__.startswith("agentvm.")]


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [vars(kind).get("code") for kind in KINDS]
    assert None not in codes
    assert len(set(codes)) == len(codes)
    assert len(KINDS) > 60


def test_the_tree_on_the_page_names_every_error() -> None:
    page = errors.__doc__ or ""
    assert [kind.__name__ for kind in KINDS if kind.__name__ not in page] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ContainerNotFound", "Container not found: x1"),
        ("ImageNotFound", "Image not found: x1"),
        ("SessionNotFound", "Session not found: x1"),
        ("AgentNotFound", "Agent not found: x1"),
        ("DefinitionNotFound", "Definition not found: x1"),
    ],
)
def test_what_is_not_found_is_named_as_1x_names_it(name: str, text: str) -> None:
    error = vars(errors)[name]("x1")
    assert str(error) == text
    assert isinstance(error, NotFound)


def test_a_peer_cannot_make_an_error_long() -> None:
    assert len(str(ImageNotFound("x" * 1_000_000))) < 300
    assert shorten("a" * 200) == "a" * 200
    assert shorten("a" * 201) == "a" * 200 + "…"


@pytest.mark.parametrize("kind", KINDS)
def test_another_processs_error_comes_back_as_its_class_with_its_text(kind: type[AgentVMError]) -> None:
    error = from_code(kind.code, "what happened")
    assert type(error) is kind
    assert str(error) == "what happened"


@pytest.mark.parametrize("code", [None, "", "from_the_future"])
def test_an_unknown_code_becomes_a_remote_error_that_keeps_it(code: str | None) -> None:
    error = from_code(code, "what happened")
    assert isinstance(error, RemoteError)
    assert error.remote_code == code


def test_an_error_from_a_code_has_all_its_attributes() -> None:
    limited = from_code("provider_rate_limited", "slow down")
    assert isinstance(limited, ProviderRateLimited)
    assert limited.retry_after is None
    assert limited.retryable
    remote = from_code("remote_error", "x")
    assert isinstance(remote, RemoteError)
    assert remote.remote_code is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_has_details_of_its_own(kind: type[AgentVMError]) -> None:
    one, other = from_code(kind.code, "x"), from_code(kind.code, "x")
    assert one.details == {}
    one.details["a"] = 1
    assert other.details == {}


def test_an_error_may_be_given_details() -> None:
    error = Conflict("in use", details={"referrers": ["a"]})
    assert (str(error), error.details) == ("in use", {"referrers": ["a"]})
    assert QuotaExceeded("containers", limit=1, used=1).details == {"metric": "containers", "limit": 1, "used": 1}


def test_a_provider_error_says_when_to_come_back() -> None:
    assert ProviderRateLimited("slow down", retry_after=2.5).retry_after == 2.5
    assert not ProviderError("broken").retryable
    assert not issubclass(InvalidInput, ProviderError)


def test_what_is_near_is_suggested_and_else_all_there_is() -> None:
    assert suggest("TIMEOUTms", ["timeoutMs", "processes"]) == "did you mean timeoutMs?"
    assert suggest("zzz", ["b", "a"]) == "there are a, b"
