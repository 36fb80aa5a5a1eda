import ast
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.cli.desk import avm
from tests.cli.fake_server import Asked, answering, refusing

from agentvm.cli import api as api_module
from agentvm.cli.api import Api, RequestFailed
from agentvm.model.secret import Secret
from agentvm.operations.http_face import NULL
from agentvm.operations.modules import http_face

KEY = "avm_secret_key"
CLI = Path(api_module.__file__).parent
METHODS = {"call", "page", "call_model", "call_bytes", "items", "lines", "download", "upload"}


def test_the_key_goes_in_the_header_and_the_names_into_the_path_each_as_one_part() -> None:
    with answering(lambda asked: (200, {})) as (url, asked), Api(url, Secret(KEY), tenant="acme") as api:
        api.call("session.history", "a/b?c=d ü", around=None, limit=5)
        api.call("quota.put", metric="tokens_per_day", hard=1)
        api.call("tenant.update", "acme", description=NULL, plan=None)
        api.call("user.delete", "...", dry_run=True)
    assert asked == [
        Asked("GET", "/v1/sessions/a%2Fb%3Fc%3Dd%20%C3%BC/messages?tenant=acme&limit=5", f"Bearer {KEY}", ""),
        Asked("PUT", "/v1/quotas?tenant=acme", f"Bearer {KEY}", '{"metric":"tokens_per_day","hard":1}'),
        Asked("PUT", "/v1/tenants/acme?tenant=acme", f"Bearer {KEY}", '{"description":null}'),
        Asked("DELETE", "/v1/users/...?tenant=acme&dryRun=true", f"Bearer {KEY}", ""),
    ]


def calls_of_operations() -> Iterator[tuple[str, ast.Call]]:
    """Every call like `api.call("session.get", session_id, device=None)` in the CLI."""
    for path in sorted(CLI.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
                names = [argument for argument in node.args if isinstance(argument, ast.Constant)]
                if names and "." in str(names[0].value):
                    yield str(names[0].value), node


def test_every_request_of_the_cli_is_one_that_its_operation_declares() -> None:
    requests = list(calls_of_operations())
    assert len(requests) > 70
    for name, call in requests:
        face = http_face(name)
        keywords = {keyword.arg for keyword in call.keywords if keyword.arg} - {"at_most", "media_type"}
        fields = {field.name for part in (face.query, face.body) for field in msgspec.structs.fields(part)}
        assert keywords <= fields, name
        before = 1 if isinstance(call.func, ast.Attribute) and call.func.attr not in ("download", "upload") else 2
        assert len(call.args) - before == len(face.path_names), name


def test_no_file_of_the_cli_writes_a_path_of_the_api() -> None:
    assert [path.name for path in CLI.glob("*.py") if "v1/" in path.read_text(encoding="utf-8")] == []


def test_a_field_that_an_operation_does_not_have_is_a_bug() -> None:
    with Api("http://127.0.0.1:1", None) as api, pytest.raises(TypeError, match="has no field colour"):
        api.call("wallet.get", colour="red")


def test_a_list_is_read_to_its_end_page_by_page() -> None:
    pages: dict[str, object] = {
        "/v1/tenants?limit=1000": {"items": [{"slug": "a"}, {"slug": "b"}], "nextCursor": "b"},
        "/v1/tenants?limit=1000&cursor=b": {"items": [{"slug": "c"}]},
    }
    with answering(lambda asked: (200, pages[asked.path])) as (url, _), Api(url, None) as api:
        assert [item["slug"] for item in api.items("tenant.list")] == ["a", "b", "c"]


def test_an_error_names_its_code_and_its_request() -> None:
    with answering(refusing(409, "conflict", "The slug acme is taken")) as (url, _):
        done = avm("tenant", "create", "acme", url=url, key=KEY)
    assert (done.code, done.out) == (1, "")
    assert done.err == "Error: The slug acme is taken (conflict, request req_1)\n"


@pytest.mark.parametrize("key", [None, KEY])
def test_who_is_not_let_in_is_told_how_to_give_a_key(key: str | None) -> None:
    with answering(refusing(401, "unauthenticated", "Authentication is needed")) as (url, asked):
        done = avm("whoami", url=url, key=key)
    assert done.code == 4
    assert "AVM_KEY=<key>" in done.err
    assert "--key-file" in done.err
    assert KEY not in done.err
    assert asked[0].key == (None if key is None else f"Bearer {KEY}")


def test_a_quota_that_is_used_up_says_when_it_is_renewed() -> None:
    with answering(refusing(429, "quota_exceeded", "The quota is used up", resetAt=1794787200000)) as (url, _):
        assert "The limit resets at 2026-11-16 00:00 UTC." in avm("whoami", url=url).err


def test_nobody_there_says_to_start_a_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = avm("whoami", url=f"http://127.0.0.1:{port}", key=KEY)
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(f"Error: Cannot connect to http://127.0.0.1:{port}: ")
    assert f"avm serve --port {port}" in done.err
    assert KEY not in done.err


def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Api(url, None, timeout=0.1) as api, pytest.raises(RequestFailed, match="did not answer in time"):
            api.call("wallet.get")


def test_a_server_that_hangs_up_is_explained() -> None:
    with socket.create_server(("127.0.0.1", 0)) as rude:
        thread = threading.Thread(target=lambda: rude.accept()[0].close())
        thread.start()
        done = avm("whoami", url=f"http://127.0.0.1:{rude.getsockname()[1]}")
        thread.join()
    assert done.code == 3
    assert "Cannot connect" in done.err


@pytest.mark.parametrize(
    ("status", "content"), [(502, "<html>Bad gateway"), (200, "hello"), (200, [1]), (404, {"detail": "no"}), (302, "")]
)
def test_what_is_no_agentvm_is_said_to_be_none(status: int, content: object) -> None:
    with answering(lambda asked: (status, content)) as (url, _):
        done = avm("whoami", url=url, key=KEY)
    assert done.code == 1
    assert "like AgentVM" in done.err


def test_a_list_that_is_none_is_seen() -> None:
    with answering(lambda asked: (200, {"items": 5})) as (url, _):
        done = avm("tenant", "list", url=url)
    assert (done.code, "holds no list" in done.err) == (1, True)


def test_what_an_error_says_cannot_play_with_the_terminal() -> None:
    with answering(refusing(400, "invalid_input", "\x1b[2Jgone\nError: fake")) as (url, _):
        assert avm("whoami", url=url).err == "Error: \\x1b[2Jgone\\x0aError: fake (invalid_input, request req_1)\n"


def test_an_address_that_is_none_is_wrong_and_a_key_in_it_is_not_repeated() -> None:
    for url in (f"http://{KEY}@127.0.0.1:1", f"http://127.0.0.1:1/?token={KEY}", "ftp://h", "http://", "http://h:port"):
        done = avm("whoami", url=url)
        assert (done.code, done.out) == (1, "")
        assert "like http://127.0.0.1:8080" in done.err
        assert KEY not in done.err


def test_the_sockets_address_is_understood_too() -> None:
    with answering(lambda asked: (200, {"tenant": "acme"})) as (url, asked):
        for address in (url.replace("http", "ws") + "/ws", url.removeprefix("http://"), f"{url}/"):
            said = f"Server      {url}\nTenant      acme\nContainers  all of the tenant\n"
            assert avm("whoami", url=address).out == said
    assert {one.path for one in asked} == {"/v1/auth/whoami"}


def test_a_key_over_an_open_network_is_warned_of() -> None:
    done = avm("whoami", url="http://unknown.invalid", key=KEY)
    assert done.code == 3
    assert done.err.startswith("Warning: your key is sent over the network unencrypted")


def test_a_deletion_without_anybody_to_ask_is_wrong_usage_and_does_nothing() -> None:
    with answering(lambda asked: (200, {"slug": "acme", "keyId": "k1"})) as (url, asked):
        assert avm("key", "revoke", "k1", url=url).code == 2
        declined = avm("key", "revoke", "k1", url=url, given="n\n")
        assert (declined.code, "Cancelled; nothing was changed." in declined.err) == (1, True)
        assert {one.method for one in asked} == {"GET"}
        asked.clear()
        assert avm("key", "revoke", "k1", url=url, given="y\n").code == 0
        assert avm("tenant", "delete", "acme", "--yes", url=url).code == 0
    assert [one.method for one in asked] == ["GET", "DELETE", "GET", "DELETE"]


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_a_path_gives_another_meaning_is_never_sent(name: str) -> None:
    with answering(lambda asked: (200, {})) as (url, asked):
        assert avm("key", "revoke", name, "--yes", url=url).code == 2
        assert avm("user", "delete", name, "--yes", url=url).code == 2
    assert asked == []
