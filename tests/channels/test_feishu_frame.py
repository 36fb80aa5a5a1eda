from hypothesis import given, settings
from hypothesis import strategies as st

from agentvm.channels.feishu_frame import FeishuFrame, decode_frame, encode_frame

NUMBERS = st.integers(0, 2**64 - 1)
RECORDED = bytes.fromhex("080010001821200" + "02a0c0a0474797065120470696e67")
"""A ping, as the official client writes it: SeqID 0, LogID 0, service 33, method 0, the header type=ping."""
ANSWERED = bytes.fromhex(
    "080710808080808020180320012a0d0a047479706512056576656e742a140a0a6d6573736167655f696412066672616d65312a080a0373756d1201"
    "312a080a037365711201302a0d0a0874726163655f69641201742a0b0a0662697a5f7274120130420d7b22636f6465223a203230307d"
)
"""Its answer to an event."""


def test_a_frame_is_written_as_the_official_client_writes_it() -> None:
    ping = FeishuFrame(service=33, headers={"type": "ping"})
    about = {"type": "event", "message_id": "frame1", "sum": "1", "seq": "0", "trace_id": "t", "biz_rt": "0"}
    answer = FeishuFrame(seq_id=7, log_id=2**40, service=3, method=1, headers=about, payload=b'{"code": 200}')
    for frame, recorded in ((ping, RECORDED), (answer, ANSWERED)):
        assert encode_frame(frame) == recorded
        assert decode_frame(recorded) == frame


@settings(max_examples=30)
@given(
    NUMBERS,
    NUMBERS,
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=4),
    st.binary(max_size=300),
    st.text(max_size=9),
)
def test_a_frame_that_was_written_is_read(seq: int, log: int, headers: dict[str, str], payload: bytes, text: str) -> None:
    frame = FeishuFrame(seq, log, 5, 1, headers, payload, text, text, text)
    assert decode_frame(encode_frame(frame)) == frame


@settings(max_examples=30)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_frame_or_none(data: bytes) -> None:
    frame = decode_frame(data)
    assert frame is None or isinstance(frame, FeishuFrame)


def test_cut_and_endless_fields_are_refused_and_unknown_ones_skipped() -> None:
    assert [decode_frame(data) for data in (b"\x42\x05ab", b"\x08" + b"\xff" * 11, b"\x08", b"\x0b", b"\x2a\x02\x08\x01")] == [
        None
    ] * 5
    assert decode_frame(b"\x08\x03\x7d1234\x79abcdefgh\x50\x01") == FeishuFrame(seq_id=3)
