import pytest
from tests.support import answers
from tests.support.provider import Answer, open_provider

from agentvm.drivers.account_health import AccountHealth
from agentvm.drivers.base import DriverSettings
from agentvm.drivers.sdk import check_base_url, check_key, http_client, key_remedy, load_sdk
from agentvm.errors import ConfigInvalid
from agentvm.model.secret import Secret


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
async def test_the_tenants_other_calls_wait_as_long_as_the_provider_asks(answer: Answer, told: list[float]) -> None:
    health = AccountHealth("corp", lambda: 0).of(None)
    async with open_provider() as provider, http_client(DriverSettings()) as pool:
        provider.play(answer)
        health.begin().sent()
        await pool.get(provider.base_url)
    assert [health.wait] == [pytest.approx(seconds, abs=1) for seconds in told or [0]]


def test_a_refused_key_is_looked_for_where_the_operator_has_set_it() -> None:
    assert key_remedy(DriverSettings(name="vllm"), "openai", "check LLM_API_KEY") == "check llm.providers.vllm.apiKey"
    assert key_remedy(DriverSettings(name="openai"), "openai", "check LLM_API_KEY") == "check LLM_API_KEY"
    own = DriverSettings(name="vllm", key_place="the apiKey of the image img_1")
    assert key_remedy(own, "openai", "check LLM_API_KEY") == "check the apiKey of the image img_1"
