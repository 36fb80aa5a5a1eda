"""Errors of erasing — requests to a container that is being erased."""

from agentvm.errors import Conflict, shorten


class ContainerErasing(Conflict):
    code = "container_erasing"

    def __init__(self, container_id: str) -> None:
        super().__init__(f"Container {shorten(container_id)} was deleted and is still being erased; try again in a moment")
