from ipaddress import IPv4Address

import pytest
from tests.support.web import Replied, web

from agentvm.channels.calls import call_json, download, open_socket, read_object, text_of
from agentvm.errors.channel import PlatformFailed
from agentvm.model.address import IpAddress
from agentvm.model.public_address import AddressRules
from agentvm.tools.safe_http import SafeHttp


def test_only_objects_are_frames_and_only_texts_are_texts() -> None:
    frames = ('{"a":1}', "[]", "{", b"\xff", b'{"a":"\xff"}', '{"a":' + "[" * 100_000)
    assert [read_object(frame) for frame in frames] == [{"a": 1}, *[None] * 5]
    body = {"a": {"b": "c", "n": 3, "t": True}}
    assert [text_of(body, *path) for path in (("a", "b"), ("a", "n"), ("a", "t"), ("x", "y"), ("a",))] == ["c", "3", "", "", ""]


async def test_a_platform_is_reached_at_checked_addresses_only() -> None:
    async with web(lambda asked: Replied(500, b"oops")) as served, SafeHttp() as checked:
        for work in (
            call_json(checked, "POST", served.url("/x"), {}),
            download(checked, served.url("/x")),
            open_socket(checked, f"ws://127.0.0.1:{served.port}").__aenter__(),
            open_socket(checked, "https://example.org").__aenter__(),
            open_socket(checked, "wss://example.org:no").__aenter__(),
        ):
            with pytest.raises(PlatformFailed):
                await work
        assert served.asked == []
        async with SafeHttp(AddressRules.parse(["127.0.0.0/8"])) as http:
            with pytest.raises(PlatformFailed, match="without JSON"):
                await call_json(http, "POST", served.url("/x"), {})
            with pytest.raises(PlatformFailed, match="instead of a file"):
                await download(http, served.url("/x"))
            with pytest.raises(PlatformFailed, match="status 500"):
                async with open_socket(http, f"ws://127.0.0.1:{served.port}"):
                    pass


@pytest.mark.parametrize("address", ["https://platform.example:no", "https://platform.example:99999999"])
async def test_no_failure_repeats_a_token_that_is_in_an_address(address: str) -> None:
    async with SafeHttp() as http:
        for work in (call_json(http, "POST", f"{address}/botTOKEN/getMe", {}), download(http, f"{address}/botTOKEN/x")):
            with pytest.raises(PlatformFailed) as failed:
                await work
            assert "TOKEN" not in str(failed.value)


async def test_secrets_are_sent_with_tls_unless_the_operator_has_allowed_the_address() -> None:
    async def resolve(name: str, port: int) -> tuple[IpAddress, ...]:
        return (IPv4Address("93.184.215.14"),)

    async with SafeHttp(resolve=resolve) as http:
        for work in (
            call_json(http, "POST", "http://platform.example/x", {}),
            download(http, "http://platform.example/x", {"Authorization": "Bearer x"}),
            open_socket(http, "ws://platform.example/x").__aenter__(),
        ):
            with pytest.raises(PlatformFailed, match="only called over TLS"):
                await work
