"""Errors of backups and archives; part of the tree in `agentvm.errors`."""

from agentvm.errors import Unprocessable


class BackupInvalid(Unprocessable):
    """The file is not a backup or is damaged; nothing was restored."""

    code = "backup_invalid"


class ArchiveInvalid(Unprocessable):
    """The file is not a valid archive of sessions; nothing was imported. `details` name the place."""

    code = "archive_invalid"


class ArchiveTooLarge(Unprocessable):
    code = "archive_too_large"
