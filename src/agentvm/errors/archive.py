"""Errors of what is carried from one server to another; part of the tree that `agentvm.errors` draws."""

from agentvm.errors import Unprocessable


class BackupInvalid(Unprocessable):
    """It is no backup, or a damaged one: nothing was put in place."""

    code = "backup_invalid"
