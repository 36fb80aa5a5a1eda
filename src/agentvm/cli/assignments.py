"""Assignments — the arguments of `avm config set`: one setting, or several that are changed together.

    KEY VALUE        KEY=VALUE ...        GROUP '{name: value, ...}'

A secret is never an argument: its value is absent or `-`, and is read from stdin or a prompt.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence

import click

from agentvm.cli.secret import read_value
from agentvm.cli.table import Item
from agentvm.config.catalogue import InvalidValue, convert, expects, find, is_group, plain, unknown
from agentvm.config.document import DocumentError, parse_value

STDIN = "-"


def read_assignments(words: Sequence[str]) -> Item:
    """The new values by key. `UsageError` for an invalid setting or value."""
    changes: Item = {}
    secrets: list[str] = []
    for key, value in _flat(_pairs(words)):
        setting = find(key)
        if setting is None:
            raise click.UsageError(f"{key}: {_unknown(key)}")
        if key in changes or key in secrets:
            raise click.UsageError(f"{key} is specified twice.")
        if setting.is_secret:
            if value not in (None, STDIN):
                raise click.UsageError(f"{key} is a secret, and other users can list arguments. Provide it on stdin.")
            secrets.append(key)
            continue
        if value is None:
            raise click.UsageError(f"{key} requires a value: {expects(setting)}. To undo a change: avm config unset {key}")
        try:
            changes[key] = plain(convert(setting, value, text=True))
        except InvalidValue as error:
            raise click.UsageError(f"{key}: {error}.") from None
    return changes | _read_secrets(secrets)


def _pairs(words: Sequence[str]) -> list[tuple[str, str | None]]:
    first, *others = words
    if "=" not in first and (not others or (len(others) == 1 and not _is_pair(others[0]))):
        return [(first, others[0] if others else None)]
    split = [word.partition("=") for word in words]
    if not all(sign or find(key) is not None for key, sign, _ in split):
        # The word is not printed: it may be a secret.
        raise click.UsageError("Several settings must be written as KEY=VALUE, separated by spaces.")
    return [(key, value if sign else None) for key, sign, value in split]


def _is_pair(word: str) -> bool:
    """Returns whether the word is a second setting rather than a value that contains `=`."""
    key, sign, _ = word.partition("=")
    return bool(sign) and (find(key) is not None or is_group(key))


def _flat(pairs: Sequence[tuple[str, str | None]]) -> Iterator[tuple[str, object]]:
    """The pairs, with the fields of an object in place of a group."""
    for key, text in pairs:
        if find(key) is not None or not is_group(key):
            yield key, text
            continue
        try:
            fields = parse_value(text or "")
        except DocumentError as error:
            raise click.UsageError(f"{key}: {error.text}") from None
        if not isinstance(fields, Mapping):
            raise click.UsageError(f"{key}: {_unknown(key)}")
        yield from _flat_fields(f"{key}.", fields)


def _flat_fields(prefix: str, fields: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in fields.items():
        key = prefix + name
        if find(key) is None and is_group(key) and isinstance(value, Mapping):
            yield from _flat_fields(f"{key}.", value)
        else:
            yield key, value


def _unknown(key: str) -> str:
    return "this is a group; use the key of a setting, or {name: value, ...}" if is_group(key) else unknown(key)


def _read_secrets(keys: Sequence[str]) -> Item:
    """Reads all of stdin for one secret, or a line for each of several, in their order."""
    if len(keys) < 2 or sys.stdin.isatty():
        return {key: read_value(key) for key in keys}
    lines = sys.stdin.read().splitlines()
    if len(lines) != len(keys) or not all(lines):
        raise click.UsageError(f"Provide {len(keys)} lines on stdin, one for each of: {', '.join(keys)}.")
    return dict(zip(keys, lines, strict=True))
