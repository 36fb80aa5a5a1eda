"""The dictionary of chunks is part of the format of every data directory."""

import zlib

import pytest

from agentvm.runtime.chunk import close_chunk, open_chunk
from agentvm.runtime.chunk_dictionary import DICTIONARY

BODY = b'\x99\xadmessage_start\x00\x00\xc4{"messageId":"msg_1"}' * 3


def test_the_dictionary_never_changes() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (2473, 2951919231)


def test_a_chunk_is_read_with_the_dictionary_and_an_older_one_without() -> None:
    assert open_chunk(close_chunk(BODY)) == BODY
    assert open_chunk(zlib.compress(BODY)) == BODY
    assert len(close_chunk(BODY)) < len(zlib.compress(BODY))


@pytest.mark.parametrize("damaged", [b"", b"x", close_chunk(BODY)[:-1], zlib.compress(BODY)[:-3]])
def test_a_chunk_that_is_damaged_is_an_error(damaged: bytes) -> None:
    with pytest.raises(zlib.error):
        open_chunk(damaged)
