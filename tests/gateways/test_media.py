import pytest

from agentvm.errors import InvalidInput
from agentvm.gateways.media import check_base64, file, picture, read_address, read_data_url


def test_addresses_of_three_kinds_are_read() -> None:
    assert read_data_url("data:image/png;base64,aGk=") == ("image/png", "aGk=")
    assert read_address("https://example.com/x.png", "here") == (None, "https://example.com/x.png")
    reference = f"attachment:sha256:{'0' * 64}"
    assert picture(reference, "here").data == reference
    assert picture("https://example.com/x", "here").media_type == "image/*"
    assert file("data:;base64,aGk=", "here", name="x.bin").media_type == "application/octet-stream"


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "file:///etc/passwd", "ftp://x/", "gopher:x", "", "HTTPS://x/"])
def test_another_address_is_refused_and_its_part_is_named(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"content\[3\].image_url: "):
        picture(url, "content[3].image_url")


@pytest.mark.parametrize("url", ["data:image/png,plain", "data:image/png;base64,&&&", "data:"])
def test_a_data_url_has_base64(url: str) -> None:
    with pytest.raises(InvalidInput):
        read_data_url(url)
    for data in ("&", "ä", "aGk"):
        with pytest.raises(InvalidInput):
            check_base64(data)
