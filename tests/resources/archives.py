"""Archives — good ones, and every way to make one that is not, byte by byte."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentvm.model.resource import canonical, version_digest

Raw = dict[str, Any]


def hexed(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def blob(body: bytes) -> str:
    return f"blobs/sha256/{hexed(body)}"


def entry(
    name: str = "sales",
    content: object = None,
    *,
    kind: str = "prompts",
    version: str = "1.0.0",
    needs: Mapping[str, Raw] | None = None,
    **more: Any,
) -> tuple[Raw, bytes]:
    """An entry and the bytes of its content; `needs` are entries by the URI they are written as, aliased like includes."""
    body = canonical({"text": "Sell."} if content is None else content)
    needed = {f"includes.{index}": pair for index, pair in enumerate((needs or {}).items())}
    uris = {alias: uri for alias, (uri, _) in needed.items()}
    made = {
        "uri": f"resource://{kind}/{name}@{version}",
        "type": kind,
        "name": name,
        "version": version,
        "digest": version_digest(kind, json.loads(body), more.get("schema"), uris),  # type: ignore[arg-type]
        "content": f"sha256:{hexed(body)}",
        "dependencies": [
            {"alias": alias, "uri": uri, "resolved": target["uri"], "digest": target["digest"]}
            for alias, (uri, target) in needed.items()
        ],
    }
    return {**made, **more}, body


def manifest(entries: Iterable[Raw], **more: Any) -> Raw:
    entries = list(entries)
    return {"format": 1, "root": entries[-1]["uri"], "entries": entries, **more}


def pack(files: Iterable[tuple[str, bytes]], change: Callable[[tarfile.TarInfo], None] = lambda member: None) -> bytes:
    """The tar, not yet compressed, with `change` applied to every header but that of bundle.json."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, body in files:
            member = tarfile.TarInfo(name)
            member.size = len(body)
            if name != "bundle.json":
                change(member)
            tar.addfile(member, io.BytesIO(body))
    return out.getvalue()


def bundle(*entries: tuple[Raw, bytes], extra: Iterable[tuple[str, bytes]] = (), **more: Any) -> bytes:
    """A whole archive."""
    return gzip.compress(pack(files(*entries, extra=extra, **more)))


def files(*entries: tuple[Raw, bytes], extra: Iterable[tuple[str, bytes]] = (), **more: Any) -> list[tuple[str, bytes]]:
    said = json.dumps(manifest((raw for raw, _ in entries), **more)).encode()
    bodies = {blob(body): body for _, body in entries}
    return [("bundle.json", said), *bodies.items(), *extra]
