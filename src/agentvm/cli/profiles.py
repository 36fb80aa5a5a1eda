"""Profiles — the servers and keys that `avm login` has stored in the user's own directory, for nobody else to read."""

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
    """A server, and the key to ask it with; no key for a server that asks for none."""

    url: str
    key: Secret | None = None


class _Stored(Record):
    url: str
    key: str | None = None


class _File(Record):
    profiles: dict[str, _Stored]


def directory() -> Path:
    """Where this user's settings of programs are."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "agentvm"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "agentvm"


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise click.BadParameter(f"{name!r} is no name for a profile; use letters, digits, dots, hyphens and underscores.")
    return name


def load_all() -> dict[str, Profile]:
    """Every profile by its name. `ConfigInvalid` for a file that cannot be used."""
    path = directory() / FILE_NAME
    try:
        with path.open("rb") as file:
            if sys.platform != "win32" and os.fstat(file.fileno()).st_mode & 0o077:
                click.echo(f"Warning: others can read the keys in {path}. Keep them out: chmod 600 {path}", err=True)
            stored = msgspec.json.decode(file.read(_FILE_BYTES_MAX), type=_File)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigInvalid(f"Cannot read the profiles in {path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Not shown: it holds keys.
        raise ConfigInvalid(f"{path} is damaged. Remove it, and log in again: avm login") from None
    return {
        name: Profile(url=one.url, key=None if one.key is None else Secret(one.key)) for name, one in stored.profiles.items()
    }


def save(name: str, profile: Profile) -> Path:
    """Stores a profile in place of the one of that name; the file it is in."""
    return _write({**load_all(), name: profile})


def remove(name: str) -> bool:
    """Whether there was one."""
    found = load_all()
    if found.pop(name, None) is None:
        return False
    _write(found)
    return True


def _write(found: dict[str, Profile]) -> Path:
    """All at once, readable by the user alone from the first byte on."""
    path = directory() / FILE_NAME
    kept = {name: _Stored(url=one.url, key=None if one.key is None else one.key.reveal()) for name, one in found.items()}
    content = msgspec.json.format(msgspec.json.encode(_File(profiles=kept)), indent=2)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{FILE_NAME}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(aside, path)
        finally:
            Path(aside).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigInvalid(f"Cannot write the profiles to {path}: {error.strerror}") from None
    return path
