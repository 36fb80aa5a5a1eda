"""Preferences — how a user likes the console, the same on every device."""

from typing import Literal

from agentvm.model.account import Preferences
from agentvm.model.base import record_from
from agentvm.operations.operation import Context, Empty, Http, OperationGroup
from agentvm.protocol.requests import Request

operation = OperationGroup("preferences")

_PATH = "/v1/auth/preferences"


@operation("preferences.get", needs=(), across=False, http=Http("GET", _PATH))
async def get(context: Context, request: Empty) -> Preferences:
    """Show your preferences for the console.

    They are the same on every device. A key without a user has its own.
    """
    principal = context.principal
    return await context.accounts.preferences.get(principal.user_id, principal.key_id)


class PreferencesPut(Request[Preferences]):
    """The choice of an absent field is left to the browser."""

    language: Literal["en", "zh"] | None = None
    theme: Literal["light", "dark"] | None = None
    send_key: Literal["enter", "modifier"] | None = None
    density: Literal["regular", "dense"] | None = None
    shortcuts: Literal["on", "off"] | None = None


@operation("preferences.put", needs=(), across=False, http=Http("PUT", _PATH, names=("PreferencesChange", None)))
async def put(context: Context, request: PreferencesPut) -> Preferences:
    """Replace your preferences for the console."""
    principal, preferences = context.principal, record_from(Preferences, request)
    await context.accounts.preferences.put(principal.user_id, principal.key_id, preferences)
    return preferences
