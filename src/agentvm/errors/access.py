"""Access — the error of requests that need authentication to be on."""

from agentvm.errors import AccessDenied


class AuthenticationOff(AccessDenied):
    code = "authentication_off"
