"""Access — errors of a server that asks nobody for credentials."""

from agentvm.errors import AccessDenied


class AuthenticationOff(AccessDenied):
    code = "authentication_off"
