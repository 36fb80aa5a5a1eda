"""Sandboxes — the environment of tools: limits, files, packages and network. One can extend another.

Here a sandbox is only described; nothing is started.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid
from agentvm.model.base import Record
from agentvm.model.resource import ResourceType
from agentvm.model.session_file import NAME_MAX_BYTES, folders_of
from agentvm.resources.kind import (
    Binary,
    Content,
    ContentType,
    JsonObject,
    RenderContext,
    check_reference,
    check_rendered,
    refuse_fragment,
)  # fmt: skip

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
RuntimeName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._:/-]{0,127}$")]
Package = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
FileText = Annotated[str, msgspec.Meta(max_length=1024 * 1024)]
ENTRIES_MAX = 1_000
PATH_MAX = 1_024
PATH_DEPTH_MAX = 32
ENV_VALUE_MAX = 32 * 1024

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*", re.IGNORECASE)
_IPV6 = re.compile(r"\[[0-9a-fA-F:.]{2,45}\]")
_PORT = re.compile(r"[1-9][0-9]{0,4}")


class SandboxLimits(Record, forbid_unknown_fields=True):
    """Limits of a sandbox. The server chooses an absent one."""

    timeout_ms: Positive | None = None
    memory_bytes: Positive | None = None
    cpu_seconds: Positive | None = None
    processes: Positive | None = None
    file_bytes: Positive | None = None
    output_bytes: Positive | None = None


class SandboxNetwork(Record, forbid_unknown_fields=True):
    """`allow` holds hosts, with or without a port; `*.example.org` is every host below."""

    mode: Literal["none", "allowlist"] | None = None
    allow: Annotated[tuple[str, ...], msgspec.Meta(max_length=ENTRIES_MAX)] | None = None


class SandboxContent(Content):
    """A sandbox. Unset is not the same as empty: an unset field comes from the sandbox that this one extends."""

    extends: Annotated[str, msgspec.Meta(max_length=512)] | None = None
    runtime: RuntimeName | None = None
    """The runtime: `python`, `node`, `shell`, or an image of that kind. Required unless it extends another."""
    isolator: RuntimeName | None = None
    """The isolation: `process`, `docker`, `remote`. Never replaced by a weaker one."""
    limits: SandboxLimits | None = None
    network: SandboxNetwork | None = None
    env: dict[str, str] | None = None
    files: dict[str, FileText | Binary] | None = None
    packages: Annotated[tuple[Package, ...], msgspec.Meta(max_length=ENTRIES_MAX)] | None = None
    persistent: bool | None = None


class Sandboxes:
    type: ResourceType = "sandboxes"
    content: ContentType = SandboxContent

    def check(self, content: SandboxContent) -> None:
        if content.extends is not None:
            check_reference("extends", content.extends, "sandboxes")
        elif content.runtime is None:
            raise ResourceInvalid("runtime is missing; only a sandbox that extends another may leave it out")
        _check_env(content.env or {})
        check_paths(list(content.files or {}))
        if content.network is not None:
            _check_network(content.network, is_complete=content.extends is None)
        packages = content.packages or ()
        if len(set(packages)) < len(packages):
            raise ResourceInvalid("packages lists an entry twice")
        if odd := next((package for package in packages if not package.isprintable() or package != package.strip()), None):
            raise ResourceInvalid(f"packages: {shorten(odd)!r} is not the name of a package")

    def references(self, content: SandboxContent) -> Mapping[str, str]:
        return {} if content.extends is None else {"extends": content.extends}

    def text(self, content: SandboxContent) -> str:
        return "\n".join(filter(None, [content.runtime, content.isolator, *(content.packages or ())]))

    def render(self, context: RenderContext) -> JsonObject:
        """Returns all fields, merged with those of the sandboxes it extends, nearest first."""
        refuse_fragment(context)
        content: SandboxContent = context.content
        spec = context.stored_content
        spec.pop("extends", None)
        if content.extends is not None:
            base = context.follow(content.extends).render()
            assert isinstance(base, dict)
            spec = merge(base, spec)
            # Each may be right and both together wrong: a file here, a folder of the same name there.
            check_paths(list(spec.get("files", ())))
        check_rendered(context.uri, len(msgspec.json.encode(spec)))
        return spec


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` wins member by member; variables and files are joined by name, packages one after the other without doubles."""
    merged = {**base, **over}
    for member in ("limits", "network", "env", "files"):
        if member in base and member in over:
            merged[member] = {**base[member], **over[member]}
    if "packages" in base and "packages" in over:
        merged["packages"] = list(dict.fromkeys([*base["packages"], *over["packages"]]))
    network = merged.get("network")
    if network is not None and network.get("mode") == "none":
        # Closing the network also closes it for the hosts that the extended sandbox allowed.
        merged["network"] = {"mode": "none"}
    return merged


def _check_env(env: Mapping[str, str]) -> None:
    if len(env) > ENTRIES_MAX:
        raise ResourceInvalid(f"env has {len(env)} variables, and may have {ENTRIES_MAX}")
    for name, value in env.items():
        if _ENV_NAME.fullmatch(name) is None:
            raise ResourceInvalid(
                f"env: {shorten(name)!r} is not the name of a variable: letters, digits and _, no digit first"
            )
        if "\0" in value or len(value) > ENV_VALUE_MAX:
            raise ResourceInvalid(f"env.{name} must have at most {ENV_VALUE_MAX} characters, and no NUL")


def check_paths(paths: list[str]) -> None:
    """Refuses paths that are not relative and plain, and files that are also folders."""
    if len(paths) > ENTRIES_MAX:
        raise ResourceInvalid(f"files has {len(paths)} files, and may have {ENTRIES_MAX}")
    existing = set(paths)
    for path in paths:
        parts = path.split("/")
        if (
            not 0 < len(path.encode()) <= PATH_MAX
            or not {"", ".", ".."}.isdisjoint(parts)
            or _is_odd(path)
            or len(parts) > PATH_DEPTH_MAX
            or any(len(part.encode()) > NAME_MAX_BYTES for part in parts)
        ):
            raise ResourceInvalid(
                f"files: {shorten(path)!r} is not a valid path: it must be relative, such as data/words.txt, without . and .., "
                f"backslashes and control characters, with names of up to {NAME_MAX_BYTES} bytes"
            )
        above = next((folder for folder in folders_of(path) if folder in existing), None)
        if above is not None:
            raise ResourceInvalid(f"files: {shorten(above)!r} cannot be a file and the folder of {shorten(path)!r}")


def _is_odd(path: str) -> bool:
    return any(letter < " " or letter in "\\\x7f" for letter in path)


def _check_network(network: SandboxNetwork, *, is_complete: bool) -> None:
    if network.allow and (network.mode == "none" or (network.mode is None and is_complete)):
        raise ResourceInvalid('network.allow is given, but network.mode is none; write "mode": "allowlist"')
    for index, entry in enumerate(network.allow or ()):
        if not is_host_entry(entry):
            raise ResourceInvalid(
                f"network.allow.{index}: {shorten(entry)!r} must be a host or host:port, such as api.example.org:443, without "
                "a scheme and a path"
            )


def is_host_entry(entry: str) -> bool:
    """Whether an entry of a list of hosts is well formed: `api.example.org`, `*.example.org:8443`."""
    if len(entry) > 260:
        return False
    host, colon, port = entry.rpartition(":")
    if not colon or entry.endswith("]"):
        host, port = entry, "1"
    is_port = _PORT.fullmatch(port) is not None and int(port) < 65_536
    return is_port and (_HOST.fullmatch(host) is not None or _IPV6.fullmatch(host) is not None)
