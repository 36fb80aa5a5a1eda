"""Remote server — the requests of the tier `remote` to another AgentVM, over the checked transport.

The operator's own address may be private, as the only one; without TLS it must be.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentvm.model.public_address import AddressRules
from agentvm.model.tier_settings import RemoteSettings
from agentvm.tiers.base import RemoteRequest
from agentvm.tools.safe_http import Outgoing, SafeHttp, parse_url

REPLY_MAX_BYTES = 128 * 1024 * 1024


@asynccontextmanager
async def open_remote_server(settings: RemoteSettings) -> AsyncIterator[RemoteRequest]:
    """Yields the function that asks the server of `tools.remote`."""
    assert settings.url is not None
    base = parse_url(settings.url)
    port = base.port or (443 if base.scheme == "https" else 80)
    host = f"[{base.host}]" if ":" in base.host else base.host
    key = "" if settings.key is None else settings.key.reveal()
    async with SafeHttp(AddressRules.parse([f"{host}:{port}"])) as http:

        async def ask(method: str, path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
            request = Outgoing(
                method=method,
                url=base.copy_with(path=f"{base.path.rstrip('/')}{path}"),
                headers=(("Content-Type", "application/json"),),
                has_secrets=True,
                secret_headers=(("Authorization", f"Bearer {key}"),),
                content=body,
            )
            fetched = await http.send(request, timeout_seconds=seconds, max_bytes=REPLY_MAX_BYTES)
            return fetched.status, fetched.body

        yield ask
