"""Errors of memories; part of the tree in `agentvm.errors`."""

from agentvm.errors import NotFound, Unprocessable, shorten


class MemoryNotFound(NotFound):
    code = "memory_not_found"

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"The container has no memory {shorten(memory_id)}")


class TooManyMemories(Unprocessable):
    code = "too_many_memories"

    def __init__(self, most: int) -> None:
        super().__init__(f"A container has at most {most} memories; delete one that is not needed any more")
