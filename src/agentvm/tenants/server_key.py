"""Server key — the server's own secret, from which the others are derived.

The key is created at the first start in the data directory, or configured by the operator (AVM_SERVER_KEY), so that a stolen
copy of the data opens nothing. Without it no API key can be verified and no sealed secret opened: back it up.
"""

import base64
import binascii
import hmac
import os
import re
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from agentvm.errors import ConfigInvalid
from agentvm.log import get_logger

logger = get_logger(__name__)

FILE_NAME = "server.key"

_BYTES = 32
_HEX = re.compile(r"[0-9a-fA-F]{64}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{43}=?")
_MAKE = "Create one with: openssl rand -hex 32"


class ServerKey:
    """The root secret. A key derived for one purpose tells nothing about a key for another."""

    __slots__ = ("_root",)

    def __init__(self, root: bytes) -> None:
        if len(root) != _BYTES:
            raise ConfigInvalid(f"A server key has {_BYTES} bytes, not {len(root)}. {_MAKE}")
        self._root = root

    @property
    def pepper(self) -> bytes:
        """The key for the digests of API keys."""
        return self._derive(b"agentvm 1 pepper")

    @property
    def vault(self) -> bytes:
        """The key for sealing the secrets of tenants."""
        return self._derive(b"agentvm 1 vault")

    @property
    def backups(self) -> bytes:
        """The key for sealing backups, so that a modified one is recognised."""
        return self._derive(b"agentvm 1 backups")

    @property
    def bus(self) -> bytes:
        """The key for the codes of messages between nodes."""
        return self._derive(b"agentvm 1 bus")

    @property
    def check_value(self) -> bytes:
        """Tells this key from others, and nothing about it."""
        return self._derive(b"agentvm 1 check")

    def same_as(self, other: "ServerKey") -> bool:
        return hmac.compare_digest(self._root, other._root)

    def _derive(self, label: bytes) -> bytes:
        return HKDF(algorithm=SHA256(), length=_BYTES, salt=None, info=label).derive(self._root)

    def __repr__(self) -> str:
        return "ServerKey('***')"


def load_server_key(
    data_dir: Path | None, configured: str | None = None, *, random_bytes: Callable[[int], bytes] = secrets.token_bytes
) -> ServerKey:
    """Returns the configured key, else the one in the directory, which is created if needed; without a directory a key for this
    run.

    `ConfigInvalid` when it cannot be read or written, or when both exist and differ: the wrong one would lock all users out.
    """
    path = None if data_dir is None else data_dir / FILE_NAME
    stored = None if path is None else _read(path)
    if configured is not None:
        key = _parse(configured, "AVM_SERVER_KEY")
        if stored is not None and not key.same_as(stored):
            raise ConfigInvalid(
                f"AVM_SERVER_KEY differs from {path}, with which the keys in this data directory were created. Configure the "
                "same one, or remove the file if it has never been used"
            )
        return key
    if stored is not None:
        return stored
    fresh = random_bytes(_BYTES)
    return ServerKey(fresh) if path is None else _keep(path, fresh)


def find_server_key(data_dir: Path, configured: str | None = None) -> ServerKey | None:
    """The operator's, else the one in the directory; None when there is neither. Nothing is made."""
    if configured is None and not has_server_key(data_dir):
        return None
    return load_server_key(data_dir, configured)


def has_server_key(data_dir: Path) -> bool:
    return (data_dir / FILE_NAME).exists()


def is_server_key(text: str) -> bool:
    """Whether the text has the format of a server key."""
    return _HEX.fullmatch(text.strip()) is not None or _BASE64.fullmatch(text.strip()) is not None


def _parse(text: str, source: str) -> ServerKey:
    text = text.strip()
    try:
        if _HEX.fullmatch(text):
            return ServerKey(bytes.fromhex(text))
        if _BASE64.fullmatch(text):
            return ServerKey(base64.urlsafe_b64decode(text.rstrip("=").replace("+", "-").replace("/", "_") + "="))
    except binascii.Error:
        pass
    raise ConfigInvalid(f"{source} is not a server key: it takes 64 hexadecimal digits, or 32 bytes as base64. {_MAKE}")


def _read(path: Path) -> ServerKey | None:
    try:
        text = path.read_text(encoding="ascii")
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"The server key {path} cannot be read: {error}. Restore it from a backup") from error
    if os.name == "posix" and mode & 0o077:
        logger.warning("server_key_readable_by_others", path=str(path), remedy=f"chmod 600 {path}")
    return _parse(text, str(path))


def _keep(path: Path, fresh: bytes) -> ServerKey:
    """Written aside and linked to its name, so that there is never half a key, and the first of two wins."""
    try:
        descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{FILE_NAME}.")  # Mode 0600.
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{fresh.hex()}\n")
                file.flush()
                os.fsync(file.fileno())
            os.link(aside, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(aside)
        _sync(path.parent)
    except OSError as error:
        raise ConfigInvalid(
            f"The server key {path} cannot be written: {error.strerror}. Make the directory writable, or set AVM_SERVER_KEY"
        ) from error
    return _read(path) or ServerKey(fresh)


def _sync(directory: Path) -> None:
    """Syncs a directory: a crash must not undo a name under which keys were already created."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
