import pytest

from agentvm.drivers.base import DriverSettings
from agentvm.drivers.sdk import check_base_url, check_key, http_client, load_sdk
from agentvm.errors import ConfigInvalid
from agentvm.model.secret import Secret
from agentvm.testing import answers
from agentvm.testing.provider import Answer, open_provider

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("url", ["localhost:11434/v1", "ftp://example.test", "http://", "/v1", "http://[::1"])
def test_an_address_that_cannot_be_used_is_refused_at_start_up(url: str) -> None:
    with pytest.raises(ConfigInvalid, match="its baseUrl begins with https://"):
        check_base_url("openai", url)


@pytest.mark.parametrize("url", [None, "http://localhost:11434/v1", "https://example.test"])
def test_an_address_that_can_be_used_is_not(url: str | None) -> None:
    check_base_url("openai", url)


@pytest.mark.parametrize("key", ["ключ", "key\n", " k9z", "a\x00b"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        check_key("openai", Secret(key))
    assert key not in str(caught.value)


@pytest.mark.parametrize("name", ["anthropic", "openai"])
async def test_both_sdks_have_what_is_used_of_them(name: str) -> None:
    sdk = await load_sdk(name)
    assert issubclass(sdk.module.APIStatusError, sdk.module.APIError)
    assert issubclass(sdk.module.APITimeoutError, sdk.module.APIConnectionError)


async def test_redirects_are_not_followed() -> None:
    async with http_client(DriverSettings()) as pool:
        assert not pool.follow_redirects


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (answers.failure(429, headers={"retry-after": "7"}), [7.0]),
        (answers.failure(529, headers={"retry-after-ms": "1500"}), [1.5]),
        (answers.failure(429), []),
        (answers.failure(429, headers={"retry-after": "-1"}), []),
        (answers.failure(400, headers={"retry-after": "7"}), []),
    ],
)
async def test_who_shares_the_account_hears_when_the_provider_wants_to_be_asked(answer: Answer, told: list[float]) -> None:
    heard: list[float] = []
    async with open_provider() as provider, http_client(DriverSettings(limited=heard.append)) as pool:
        provider.play(answer)
        await pool.get(provider.base_url)
    assert heard == told
