from agentvm.errors.channel import PlatformFailed, PlatformRefused


def test_a_refusal_has_a_remedy_and_a_failure_may_say_when_to_try_again() -> None:
    refused, failed = PlatformRefused("no", "change it"), PlatformFailed("later", retry_seconds=3)
    assert (refused.remedy, refused.permanent, refused.code) == ("change it", False, "platform_refused")
    assert (failed.retry_seconds, failed.code) == (3, "platform_failed")
