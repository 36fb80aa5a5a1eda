import pytest

from agentvm.drivers.data_url import split_data_url
from agentvm.model.message import ImagePart


@pytest.mark.parametrize(
    ("data", "given", "media_type", "content"),
    [
        ("data:image/png;base64,aGk=", "image/jpeg", "image/png", "aGk="),
        ("DATA:image/png;BASE64,aGk=", "image/jpeg", "image/png", "aGk="),
        ("data:;base64,aGk=", "image/jpeg", "image/jpeg", "aGk="),
        ("data:text/plain;charset=utf-8,h%69", "image/jpeg", "text/plain;charset=utf-8", "aGk="),
        ("aGk=", "image/jpeg", "image/jpeg", "aGk="),
        ("data:no comma", "image/jpeg", "image/jpeg", "data:no comma"),
    ],
)
def test_a_data_url_is_taken_apart(data: str, given: str, media_type: str, content: str) -> None:
    part = split_data_url(ImagePart(data=data, media_type=given, name="a"))
    assert part == ImagePart(data=content, media_type=media_type, name="a")
