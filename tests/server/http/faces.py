"""Operations that only a test knows, as they are served over HTTP."""

from typing import Any

from agentvm.operations.http_face import HttpFace
from agentvm.operations.operation import Http, OperationGroup


def face(function: Any, http: Http, **options: Any) -> HttpFace:
    """The face of a function; its name in the documents is `tests_<function>`."""
    group = OperationGroup("tests")
    group("test.run", **{"needs": (), **options}, http=http)(function)
    return HttpFace(group.rows[0], http)
