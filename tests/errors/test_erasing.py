from agentvm.errors.erasing import ContainerErasing
from agentvm.server.errors import status_of


def test_a_container_that_is_being_erased_is_named_with_the_remedy() -> None:
    text = str(ContainerErasing("user-alice"))
    assert "user-alice" in text
    assert "try again" in text
    assert len(str(ContainerErasing("x" * 10_000))) < 400
    assert status_of(ContainerErasing) == 409
