from agentvm.errors.file import FileMissing, FilePathInvalid
from agentvm.server.errors import status_of


def test_a_long_name_is_shortened() -> None:
    assert len(str(FileMissing("x" * 10_000))) < 400


def test_each_has_the_status_that_programs_expect() -> None:
    assert [status_of(error) for error in (FileMissing, FilePathInvalid)] == [404, 400]
