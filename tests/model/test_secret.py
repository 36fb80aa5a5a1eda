from agentvm.config import LlmSettings, ServerConfig
from agentvm.drivers.base import DriverSettings
from agentvm.model.secret import Secret


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret("sk-123")
    assert secret.reveal() == "sk-123"
    assert "sk-123" not in f"{secret} {secret!r} {secret!s} {[secret]}"


def test_settings_that_hold_a_secret_can_be_printed() -> None:
    secret = Secret("sk-123")
    assert "sk-123" not in repr(ServerConfig(llm=LlmSettings(api_key=secret)))
    assert "sk-123" not in repr(DriverSettings(api_key=secret))


def test_two_secrets_are_the_same_when_what_they_hold_is() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert DriverSettings(api_key=Secret("a")) == DriverSettings(api_key=Secret("a"))
