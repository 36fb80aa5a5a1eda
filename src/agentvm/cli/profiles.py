"""Profiles — servers and API keys stored by `avm login`, in a file that only the user can read."""

import os
import re
import sys
import tempfile
from pathlib import Path

import click
import msgspec

from agentvm.errors import ConfigInvalid
from agentvm.model.base import Record
from agentvm.model.secret import Secret

DEFAULT = "default"
FILE_NAME = "profiles.json"
_FILE_BYTES_MAX = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Profile(Record):
    """A server and its API key; no key for a server without authentication."""

    url: str
    key: Secret | None = None


class _Stored(Record):
    url: str
    key: str | None = None


class _File(Record):
    profiles: dict[str, _Stored]


def directory() -> Path:
    """The configuration directory of the user."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "agentvm"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "agentvm"


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise click.BadParameter(f"{name!r} is not a valid profile name; use letters, digits, dots, hyphens and underscores.")
    return name


def load_all() -> dict[str, Profile]:
    """All profiles by name. `ConfigInvalid` for an unreadable file."""
    path = directory() / FILE_NAME
    try:
        with path.open("rb") as file:
            if sys.platform != "win32" and os.fstat(file.fileno()).st_mode & 0o077:
                click.echo(f"Warning: other users can read the keys in {path}. Run: chmod 600 {path}", err=True)
            stored = msgspec.json.decode(file.read(_FILE_BYTES_MAX), type=_File)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigInvalid(f"Cannot read the profiles in {path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The content is not printed: it contains keys.
        raise ConfigInvalid(f"{path} is damaged. Remove it and log in again: avm login") from None
    return {
        name: Profile(url=profile.url, key=None if profile.key is None else Secret(profile.key))
        for name, profile in stored.profiles.items()
    }


def save(name: str, profile: Profile) -> Path:
    """Stores a profile under its name and returns the path of the file."""
    return _write({**load_all(), name: profile})


def remove(name: str) -> bool:
    """Removes a profile; False if it does not exist."""
    profiles = load_all()
    if profiles.pop(name, None) is None:
        return False
    _write(profiles)
    return True


def _write(profiles: dict[str, Profile]) -> Path:
    """Replaces the file atomically; only the user can read it at any time."""
    path = directory() / FILE_NAME
    stored = {
        name: _Stored(url=profile.url, key=None if profile.key is None else profile.key.reveal())
        for name, profile in profiles.items()
    }
    content = msgspec.json.format(msgspec.json.encode(_File(profiles=stored)), indent=2)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{FILE_NAME}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigInvalid(f"Cannot write the profiles to {path}: {error.strerror}") from None
    return path
