"""Errors of what is carried from one server to another; part of the tree that `agentvm.errors` draws."""

from agentvm.errors import Unprocessable


class BackupInvalid(Unprocessable):
    """It is no backup, or a damaged one: nothing was put in place."""

    code = "backup_invalid"


class ArchiveInvalid(Unprocessable):
    """It is no archive of sessions, or one that does not hold together: nothing was written. `details` say where."""

    code = "archive_invalid"


class ArchiveTooLarge(Unprocessable):
    code = "archive_too_large"
