"""API — asks a running server over HTTP, for the commands about tenants. The one place where its errors become messages."""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Concatenate, ParamSpec
from urllib.parse import quote, urlsplit

import click
import httpx2
import msgspec

from agentvm.cli.exit_codes import DENIED, FAILED, NETWORK, NOT_FOUND, QUOTA
from agentvm.cli.options import (
    KEY_REMEDY,
    given_key,
    key_file_option,
    profile_option,
    server_address,
    server_remedy,
    url_option,
)
from agentvm.cli.progress import SILENT, Progress, at_terminal, read_blocks
from agentvm.cli.table import Item, Show, plain, when
from agentvm.errors import QuotaExceeded, Unauthenticated
from agentvm.model.address import is_loopback
from agentvm.model.secret import Secret
from agentvm.version import VERSION

TIMEOUT = 30.0
"""Seconds until a server that says nothing is given up."""
LONG = 600.0
"""The same for what is large."""
PAGE = 1000
"""Items asked for at once."""
_MAX_SHOWN = 500
_EXIT_CODES = {401: DENIED, 402: QUOTA, 403: DENIED, 404: NOT_FOUND, 429: QUOTA}
"""By the status of an answer; any other is `FAILED`."""

P = ParamSpec("P")
Query = dict[str, str | int | None]


class RequestFailed(click.ClickException):
    """The server refused, or could not be asked. `code` is its stable code, where it gave one."""

    def __init__(self, message: str, code: str | None = None, *, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it of the class, and reads it of the instance.


class Unreachable(RequestFailed):
    """Nobody answers there."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=NETWORK)


class Api:
    """A server, for as long as a command runs. `tenant` is the one an operator asks about."""

    def __init__(
        self,
        url: str,
        key: Secret | None,
        *,
        tenant: str | None = None,
        timeout: float = TIMEOUT,
        progress: Progress = SILENT,
    ) -> None:
        self.url = url
        self._progress = progress
        self.key = key
        self.tenant = tenant
        headers = {"User-Agent": f"avm/{VERSION}", "Accept": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key.reveal()}"
        address = urlsplit(url)
        # A proxy from the environment is for the world, not for a server on this machine.
        local = is_loopback(address.hostname or "")
        # Every certificate authority is loaded for TLS, which takes longer than all the rest of a command. Here is none.
        verify = not (local and address.scheme == "http")
        self._client = httpx2.Client(base_url=url, headers=headers, timeout=timeout, trust_env=not local, verify=verify)

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *details: object) -> None:
        self._client.close()

    def get(self, *path: str, **query: str | int | None) -> Item:
        return _object(self.ask("GET", path, query))

    def get_bytes(self, *path: str, **query: str | int | None) -> bytes:
        """What is no JSON."""
        return self.ask("GET", path, query)

    def pages(self, *path: str, cursor: str = "after", following: str = "next", **query: str | int | None) -> Iterator[Item]:
        """Every item of a list, page by page; `cursor` is the parameter that takes what the member `following` says."""
        query = {"limit": PAGE, **query}
        while True:
            page = self.get(*path, **query)
            items, next_page = page.get("items"), page.get(following)
            if not isinstance(items, list):
                raise RequestFailed(f"{self.url} answers unlike AgentVM: there is no list in its answer.")
            yield from items
            if next_page is None:
                return
            query[cursor] = next_page

    def lines(self, *path: str, **query: str | int | None) -> Iterator[Item]:
        """Each line of an answer that goes on, as it comes; those that are empty only show that it lives."""
        with self._explained(), self._client.stream("GET", _place(path), params=self._wanted(query)) as answer:
            if not answer.is_success:
                answer.read()
                raise _failure(answer, self.url)
            for line in answer.iter_lines():
                if line.strip():
                    yield _object(line.encode())

    def post(self, *path: str, body: Item | bytes, **query: str | int | None) -> Item:
        return _object(self.ask("POST", path, query, body))

    def post_patiently(self, *path: str, body: Item) -> Item:
        """For what takes as long as a model does."""
        return _object(self.ask("POST", path, {}, body, timeout=LONG))

    def put(self, *path: str, body: Item) -> Item:
        return _object(self.ask("PUT", path, {}, body))

    def delete(self, *path: str, **query: str | int | None) -> None:
        self.ask("DELETE", path, query)

    def delete_dryly(self, *path: str) -> Item:
        """Counts all that a deletion would erase."""
        return _object(self.ask("DELETE", path, {"dryRun": "true"}))

    def ask(
        self,
        method: str,
        path: tuple[str, ...],
        query: Query,
        body: Item | bytes | None = None,
        *,
        timeout: float | None = None,
    ) -> bytes:
        """The body of a good answer; `RequestFailed` for any other. Bytes go as they are, anything else as JSON."""
        content = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        with self._explained():
            patience = httpx2.USE_CLIENT_DEFAULT if timeout is None else timeout
            where, wanted = _place(path), self._wanted(query)
            answer = self._client.request(method, where, params=wanted, content=content, timeout=patience)
        if answer.is_success:
            return answer.content
        raise _failure(answer, self.url)

    def download(self, target: BinaryIO, *path: str, **query: str | int | None) -> int:
        """What is too large to hold goes into the file as it comes; how many bytes. A transfer that breaks off is a failure."""
        size = 0
        # On the same terminal it would stand in the middle of what is printed.
        progress = SILENT if target.isatty() else self._progress
        with self._explained(), self._client.stream("GET", _place(path), params=self._wanted(query), timeout=LONG) as answer:
            if not answer.is_success:
                answer.read()
                raise _failure(answer, self.url)
            length = answer.headers.get("content-length", "")
            whole = int(length) if length.isdigit() and "content-encoding" not in answer.headers else None
            for chunk in answer.iter_bytes():
                target.write(chunk)
                size += len(chunk)
                progress("Receiving", size, whole)
        progress.clear()
        return size

    def upload(self, source: BinaryIO, *path: str, media_type: str | None = None, **query: str | int | None) -> Item:
        """Sends a file as it is read."""
        headers = {} if media_type is None else {"Content-Type": media_type}
        wanted = self._wanted(query)
        blocks = read_blocks(source, self._progress)
        with self._explained():
            answer = self._client.post(_place(path), params=wanted, content=blocks, headers=headers, timeout=LONG)
        self._progress.clear()
        if not answer.is_success:
            raise _failure(answer, self.url)
        return _object(answer.content)

    def _wanted(self, query: Query) -> dict[str, str | int]:
        return {name: value for name, value in {"tenant": self.tenant, **query}.items() if value is not None}

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except httpx2.TimeoutException:
            raise RequestFailed(
                f"{self.url} did not answer in time. Try again; if it stays so, look at the server's log.", exit_code=NETWORK
            ) from None
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise Unreachable(f"Cannot connect to {self.url}: {error}\n{server_remedy(self.url)}".rstrip()) from None


def asks_server(command: Callable[Concatenate[Api, Show, P], Any]) -> Callable[..., Any]:
    """Gives a command its server and its way to answer, and the options that say which: all of them have the same."""

    @url_option
    @profile_option
    @key_file_option
    @click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
    @functools.wraps(command)
    def run(*args: P.args, **given: P.kwargs) -> Any:
        url, key_file, as_json = (given.pop(name) for name in ("url", "key_file", "as_json"))
        tenant = given.pop("tenant", None)
        wanted = url if isinstance(url, str) else None
        address = server_address(wanted)
        key = given_key(key_file if isinstance(key_file, Path) else None, wanted)
        if key is not None:
            warn_of_open_network(address)
        named = tenant if isinstance(tenant, str) else None
        with Api(address, key, tenant=named, progress=at_terminal(quiet=bool(as_json))) as api:
            # Late: it needs what is above.
            from agentvm.cli.names import resolve_all

            resolve_all(api, given)
            return command(api, Show(bool(as_json)), *args, **given)

    return run


def warn_of_open_network(address: str) -> None:
    """To be called before a key is sent there."""
    if address.startswith("http://") and not is_loopback(urlsplit(address).hostname or ""):
        click.echo("Warning: your key goes over the network unencrypted; use https.", err=True)


tenant_option = click.option(
    "--tenant",
    envvar="AVM_TENANT",
    help="Id, slug or name of the tenant, for the operator, who is not asking about their own (AVM_TENANT).",
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def confirm(question: str, *, yes: bool) -> None:
    """Ends the command unless a person, or `--yes`, says so."""
    if yes:
        return
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise click.UsageError("There is nobody to ask. If you are sure, give --yes.") from None
    if not agreed:
        raise click.ClickException("Nothing was done.")


def _place(path: tuple[str, ...]) -> str:
    for part in path:
        if part in ("", ".", ".."):
            # In a path they would mean something else.
            raise click.UsageError(f"{part!r} is the name of nothing.")
    return "/v1/" + "/".join(quote(part, safe="") for part in path)


def _object(content: bytes) -> Item:
    if not content:
        return {}
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.DecodeError:
        raise RequestFailed("The server answers unlike AgentVM: is something else at that address?") from None


def _failure(answer: httpx2.Response, url: str) -> RequestFailed:
    try:
        error = msgspec.json.decode(answer.content, type=dict[str, dict[str, Any]])["error"]
    except (msgspec.DecodeError, KeyError):
        return RequestFailed(f"{url} answered {answer.status_code} and is unlike AgentVM. Is it the right address?")
    code, message = plain(error.get("code") or answer.status_code), plain(error.get("message") or "refused")[:_MAX_SHOWN]
    request = f", request {plain(error['requestId'])[:100]}" if error.get("requestId") else ""
    remedy = _remedy(code, error.get("details"))
    text = f"{message} ({code}{request})" + (f"\n{remedy}" if remedy else "")
    return RequestFailed(text, code, exit_code=_EXIT_CODES.get(answer.status_code, FAILED))


def _remedy(code: str, details: object) -> str:
    """What to do, where the message itself does not say it."""
    if code == Unauthenticated.code:
        return KEY_REMEDY
    if code == QuotaExceeded.code and isinstance(details, dict) and isinstance(details.get("resetAt"), int):
        return f"It is renewed at {when(details['resetAt'])} UTC."
    return ""
