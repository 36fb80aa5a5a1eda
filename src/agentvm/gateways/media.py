"""Media — pictures and files in messages of other protocols, by the addresses that these have. Pure."""

import base64

from agentvm.errors import InvalidInput, shorten
from agentvm.model.attachment import SCHEME
from agentvm.model.message import FilePart, ImagePart

NO_DATA_URL = "A file in a message is a data URL with base64"
NO_BASE64 = "The data of a file in a message is base64"
ANY_PICTURE, ANY_FILE = "image/*", "application/octet-stream"


def read_data_url(url: str) -> tuple[str, str]:
    """Returns the media type and the base64 of a data URL; `InvalidInput` for another address."""
    head, _, data = url.partition(",")
    media_type, *rest = head.removeprefix("data:").split(";")
    if not url.startswith("data:") or "base64" not in rest:
        raise InvalidInput(NO_DATA_URL)
    return media_type or ANY_FILE, check_base64(data)


def check_base64(data: str) -> str:
    """Returns the text again; `InvalidInput` for one that is not base64."""
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        raise InvalidInput(NO_BASE64) from None
    return data


def read_address(url: str, where: str) -> tuple[str | None, str]:
    """Returns the media type, if the address tells it, and the `data` of a part.

    A data URL, `https`, or `attachment:` for an uploaded file; `InvalidInput` that names `where` for any other. Nothing is
    fetched here: the provider of the model does that.
    """
    if url.startswith("data:"):
        return read_data_url(url)
    if url.startswith(("https://", SCHEME)):
        return None, url
    raise InvalidInput(f"{where}: {shorten(url)!r} is not a data URL, an https URL or an attachment")


def picture(url: str, where: str, media_type: str | None = None) -> ImagePart:
    declared, data = read_address(url, where)
    return ImagePart(data=data, media_type=declared or media_type or ANY_PICTURE)


def file(url: str, where: str, media_type: str | None = None, name: str | None = None) -> FilePart:
    declared, data = read_address(url, where)
    return FilePart(data=data, media_type=declared or media_type or ANY_FILE, filename=name)
