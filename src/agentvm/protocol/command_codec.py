"""Command codec — a request's data to its type, bounded before anything is built of it."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from agentvm.errors import InvalidInput
from agentvm.errors.validation import explain
from agentvm.protocol.bounds import Scan, check, check_length
from agentvm.protocol.ignored import note_ignored
from agentvm.protocol.requests import Request

_NOTHING = msgspec.Raw(b"null")


class CommandCodec:
    """Decodes the requests of a table of commands.

    AgentX 1.x ignores fields that it does not know, so its own commands do too; the `additive` ones refuse them: a misspelt
    `dryRun` must not be ignored.
    """

    def __init__(self, commands: Mapping[str, type[Request[Any]]], additive: Collection[str]) -> None:
        self.commands = commands
        self._decoders = {name: msgspec.json.Decoder(kind) for name, kind in commands.items()}
        self._strict = {name: _only(commands[name]) for name in additive}

    def check(self, name: str, data: msgspec.Raw, scan: Scan | None = None) -> None:
        """Raises `InputTooLarge` beyond the bound of the command. `scan` is the scan of its whole frame, if there was one."""
        bound, subject = self.commands[name].bound, f"The data of a {name}_request"
        check_length(len(data), bound, subject)
        if scan is None or not scan.fits(bound):
            check(bytes(data), bound, subject)

    def decode(self, name: str, data: msgspec.Raw) -> Request[Any]:
        """`data` was already parsed once as part of its frame, and bounded, so only its shape can be wrong."""
        try:
            if name in self._strict:
                self._strict[name].decode(data)
            return note_ignored(self._decoders[name].decode(data), data)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"Invalid {name}_request: {explain(error, self.commands[name])}") from None


def _only(kind: type[Request[Any]]) -> msgspec.json.Decoder[msgspec.Struct]:
    """Reads an object that has these fields and no others, and builds nothing of them."""
    names = [*(field.encode_name for field in msgspec.structs.fields(kind)), "requestId"]
    fields = [(f"member_{index}", msgspec.Raw, _NOTHING) for index in range(len(names))]
    rename = {field[0]: name for field, name in zip(fields, names, strict=True)}
    return msgspec.json.Decoder(msgspec.defstruct("Members", fields, rename=rename, forbid_unknown_fields=True))
