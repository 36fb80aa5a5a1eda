"""Descriptors — the maximum of files and sockets that the process may have open."""

import sys

from agentvm.log import get_logger

logger = get_logger(__name__)

USUAL_FILES_MAX = 1_024

if sys.platform == "win32":

    def open_files_limit() -> int:
        return USUAL_FILES_MAX

    def raise_open_files_limit() -> int:
        return USUAL_FILES_MAX

else:
    import resource

    def open_files_limit() -> int:
        """Returns the current limit."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return USUAL_FILES_MAX if soft == resource.RLIM_INFINITY else soft

    def raise_open_files_limit() -> int:
        """Raises the soft limit, which is meant for programs that wait with `select`, to the hard one; returns the result."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            # macOS says it has no limit and takes no number that large.
            logger.warning("open_files_limit_not_raised", soft=soft, hard=hard, error=str(error))
        return open_files_limit()
