"""Vectors — counts differing bits in SQLite itself, with the extension sqlite-vec of the extra `knowledge`.

The extension is loaded by the path of its file: importing its package takes a quarter of a second.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import apsw

from agentvm.log import get_logger

logger = get_logger(__name__)


def load_vectors(raw: apsw.Connection) -> bool:
    """Returns whether the connection has the functions of sqlite-vec from now on."""
    path = extension_path()
    if path is None:
        return False
    try:
        raw.enable_load_extension(True)
        try:
            raw.load_extension(path)
        finally:
            raw.enable_load_extension(False)
    except apsw.Error as error:
        # Built for another machine, or without extensions: searches go on in Python.
        logger.warning("sqlite_vec_not_loaded", path=path, error=str(error))
        return False
    return True


@cache
def extension_path() -> str | None:
    """Returns the path of the extension; None without the extra `knowledge`."""
    spec = find_spec("sqlite_vec")
    if spec is None or spec.origin is None:
        return None
    return str(Path(spec.origin).with_name("vec0"))
