"""API — HTTP requests to a running server, and the only place that turns its errors into messages."""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, ParamSpec
from urllib.parse import urlsplit

import click
import httpx2
import msgspec

from agentvm.cli.exit_codes import ExitCode
from agentvm.cli.options import (
    KEY_REMEDY,
    json_option,
    key_file_option,
    option_key,
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

if TYPE_CHECKING:
    from agentvm.operations.http_face import HttpFace

TIMEOUT_SECONDS = 30.0
LONG_TIMEOUT_SECONDS = 600.0
"""The timeout of model calls, uploads and downloads."""
_MESSAGE_CHARACTERS_MAX = 500
_EXIT_CODES = {401: ExitCode.DENIED, 402: ExitCode.QUOTA, 403: ExitCode.DENIED, 404: ExitCode.NOT_FOUND, 429: ExitCode.QUOTA}
"""Exit codes by HTTP status; any other is `FAILED`."""

P = ParamSpec("P")


class RequestFailed(click.ClickException):
    """The server refused the request or did not answer. `code` is its error code, if it sent one."""

    def __init__(self, message: str, code: str | None = None, *, exit_code: int = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it of the class, and reads it of the instance.


class Unreachable(RequestFailed):
    """No server answers at the address."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=ExitCode.NETWORK)


class Api:
    """The HTTP API of one server, open while a command runs. `tenant` is sent with every request."""

    def __init__(
        self,
        url: str,
        key: Secret | None,
        *,
        tenant: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
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
        # Proxies from the environment are not for a server on this machine.
        local = is_loopback(address.hostname or "")
        # Loading the certificate authorities takes longer than the rest of a command; plain HTTP needs none.
        verify = not (local and address.scheme == "http")
        self._client = httpx2.Client(base_url=url, headers=headers, timeout=timeout, trust_env=not local, verify=verify)

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *details: object) -> None:
        self._client.close()

    def call(self, operation: str, /, *path: str, **fields: Any) -> Item:
        """Requests an operation: the values of its path, in order, and fields of its request that are not None."""
        return _object(self._send(self._request(operation, path, fields)))

    def call_model(self, operation: str, /, *path: str, **fields: Any) -> Item:
        """Like `call`, for an operation that waits for a model."""
        return _object(self._send(self._request(operation, path, fields, LONG_TIMEOUT_SECONDS)))

    def call_bytes(self, operation: str, /, *path: str, **fields: Any) -> bytes:
        """Like `call`, for a response that is not JSON."""
        return self._send(self._request(operation, path, fields))

    def page(self, operation: str, /, *path: str, at_most: int | None = None, **fields: Any) -> Item:
        """The first page of a list, or the one at a `cursor`; as large as the operation allows, up to `at_most`."""
        page_max = _face(operation).page_max
        if page_max is not None:
            fields = {"limit": page_max if at_most is None else min(at_most, page_max), **fields}
        page = self.call(operation, *path, **fields)
        if not isinstance(page.get("items"), list):
            raise RequestFailed(f"{self.url} does not answer like AgentVM: its response holds no list.")
        return page

    def items(self, operation: str, /, *path: str, at_most: int | None = None, **fields: Any) -> Iterator[Item]:
        """Every item of a list, page by page, up to `at_most`."""
        return islice(self._items(operation, path, at_most, fields), at_most)

    def _items(self, operation: str, path: tuple[str, ...], at_most: int | None, fields: dict[str, Any]) -> Iterator[Item]:
        silent: set[str] = set()
        while True:
            page = self.page(operation, *path, at_most=at_most, **fields)
            for node in page.get("silentNodes") or ():
                problem = f"Node {plain(node.get('nodeId'))} ({plain(node.get('name'))}): {plain(node.get('error'))}"
                if problem not in silent:
                    click.echo(problem, err=True)
                silent.add(problem)
            yield from page["items"]
            fields["cursor"] = page.get("nextCursor")
            if fields["cursor"] is None:
                return

    def lines(self, operation: str, /, *path: str, **fields: Any) -> Iterator[Item]:
        """Each line of a streamed response as it arrives, without the empty lines that keep the connection open."""
        with self._streamed(operation, path, fields) as response:
            for line in response.iter_lines():
                if line.strip():
                    yield _object(line.encode())

    def download(self, target: BinaryIO, operation: str, /, *path: str, **fields: Any) -> int:
        """Writes a response to a file as it arrives; returns its size in bytes. A broken transfer is a failure."""
        size = 0
        # A progress line on the terminal that receives the data would be part of the data.
        progress = SILENT if target.isatty() else self._progress
        with self._streamed(operation, path, fields, LONG_TIMEOUT_SECONDS) as response:
            length = response.headers.get("content-length", "")
            total = int(length) if length.isdigit() and "content-encoding" not in response.headers else None
            for chunk in response.iter_bytes():
                target.write(chunk)
                size += len(chunk)
                progress("Receiving", size, total)
        progress.clear()
        return size

    def upload(
        self, source: BinaryIO | bytes, operation: str, /, *path: str, media_type: str | None = None, **fields: Any
    ) -> Item:
        """Sends a file, block by block."""
        content = source if isinstance(source, bytes) else read_blocks(source, self._progress)
        request = self._request(operation, path, fields, LONG_TIMEOUT_SECONDS, content)
        if media_type is not None:
            request.headers["Content-Type"] = media_type
        response = self._send(request)
        self._progress.clear()
        return _object(response)

    def _send(self, request: httpx2.Request) -> bytes:
        with self._explained():
            response = self._client.send(request)
        if response.is_success:
            return response.content
        raise _failure(response, self.url)

    def _request(
        self,
        operation: str,
        path: tuple[str, ...],
        fields: dict[str, Any],
        timeout_seconds: float | None = None,
        content: bytes | Iterator[bytes] | None = None,
    ) -> httpx2.Request:
        for part in path:
            if part in ("", ".", ".."):
                # In a path these would mean another resource.
                raise click.UsageError(f"{part!r} is not a valid name.")
        call = _face(operation).call(path, fields)
        params = call.query if self.tenant is None else {"tenant": self.tenant, **call.query}
        body = content if call.body is None else msgspec.json.encode(call.body)
        timeout = httpx2.USE_CLIENT_DEFAULT if timeout_seconds is None else timeout_seconds
        with self._explained():
            return self._client.build_request(call.method, call.path, params=params, content=body, timeout=timeout)

    @contextmanager
    def _streamed(
        self, operation: str, path: tuple[str, ...], fields: dict[str, Any], timeout_seconds: float | None = None
    ) -> Iterator[httpx2.Response]:
        request = self._request(operation, path, fields, timeout_seconds)
        with self._explained():
            response = self._client.send(request, stream=True)
            try:
                if not response.is_success:
                    response.read()
                    raise _failure(response, self.url)
                yield response
            finally:
                response.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except httpx2.TimeoutException:
            raise RequestFailed(
                f"{self.url} did not answer in time. Try again; if it persists, see the server's log.",
                exit_code=ExitCode.NETWORK,
            ) from None
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise Unreachable(f"Cannot connect to {self.url}: {error}\n{server_remedy(self.url)}".rstrip()) from None


def server_command(command: Callable[Concatenate[Api, Show, P], Any]) -> Callable[..., Any]:
    """Adds the options that select the server and the output format; the command gets both as objects."""

    @url_option
    @profile_option
    @key_file_option
    @json_option
    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> Any:
        url, key_file, as_json = (options.pop(name) for name in ("url", "key_file", "as_json"))
        tenant = options.pop("tenant", None)
        url = url if isinstance(url, str) else None
        address = server_address(url)
        key = option_key(key_file if isinstance(key_file, Path) else None, url)
        if key is not None:
            warn_of_open_network(address)
        tenant = tenant if isinstance(tenant, str) else None
        with Api(address, key, tenant=tenant, progress=at_terminal(quiet=bool(as_json))) as api:
            # Late: it needs what is above.
            from agentvm.cli.names import resolve_all

            resolve_all(api, options)
            return command(api, Show(bool(as_json)), *args, **options)

    return run


def tenant_command(command: Callable[Concatenate[Api, Show, P], Any]) -> Callable[..., Any]:
    """A `server_command` with the option --tenant."""
    return tenant_option(server_command(command))


def warn_of_open_network(address: str) -> None:
    """Warns before a key is sent to an address without TLS."""
    if address.startswith("http://") and not is_loopback(urlsplit(address).hostname or ""):
        click.echo("Warning: your key is sent over the network unencrypted; use https.", err=True)


tenant_option = click.option(
    "--tenant", envvar="AVM_TENANT", help="Tenant (id, slug or name). Operators only; default: your own (AVM_TENANT)."
)
yes_option = click.option("--yes", is_flag=True, help="Skip the confirmation.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, without changing anything.")


def confirm(question: str, *, yes: bool) -> None:
    """Ends the command unless the user or `--yes` confirms it."""
    if yes:
        return
    try:
        confirmed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise click.UsageError("Not a terminal, cannot confirm. Use --yes.") from None
    if not confirmed:
        raise click.ClickException("Cancelled; nothing was changed.")


def _face(operation: str) -> "HttpFace":
    # Late: the help of a command needs no operation.
    from agentvm.operations.modules import http_face

    return http_face(operation)


def _object(content: bytes) -> Item:
    if not content:
        return {}
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.DecodeError:
        raise RequestFailed("The server does not answer like AgentVM. Is it the right address?") from None


def _failure(response: httpx2.Response, url: str) -> RequestFailed:
    try:
        error = msgspec.json.decode(response.content, type=dict[str, dict[str, Any]])["error"]
    except (msgspec.DecodeError, KeyError):
        return RequestFailed(f"{url} responded with {response.status_code}, not like AgentVM. Is it the right address?")
    code = plain(error.get("code") or response.status_code)
    message = plain(error.get("message") or "refused")[:_MESSAGE_CHARACTERS_MAX]
    request = f", request {plain(error['requestId'])[:100]}" if error.get("requestId") else ""
    remedy = _remedy(code, error.get("details"))
    text = f"{message} ({code}{request})" + (f"\n{remedy}" if remedy else "")
    return RequestFailed(text, code, exit_code=_EXIT_CODES.get(response.status_code, ExitCode.FAILED))


def _remedy(code: str, details: object) -> str:
    """The next step for errors whose message does not name one."""
    if code == Unauthenticated.code:
        return KEY_REMEDY
    if code == "mcp_consent_required" and isinstance(details, dict):
        return f"Sign in there, then try again: {plain(str(details.get('url')))}"
    if code == QuotaExceeded.code and isinstance(details, dict) and isinstance(details.get("resetAt"), int):
        return f"The limit resets at {when(details['resetAt'])} UTC."
    return ""
