"""Errors of the files of a session; part of the tree in `agentvm.errors`."""

from agentvm.errors import InvalidInput, NotFound, shorten


class FilePathInvalid(InvalidInput):
    """A path that no file of a session can have. The text says why."""

    code = "file_path_invalid"


class FileMissing(NotFound):
    code = "file_not_found"

    def __init__(self, path: str) -> None:
        super().__init__(f"The session has no file {shorten(path)}")
