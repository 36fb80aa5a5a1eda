"""Data URL — splits parts of messages whose data is `data:<type>;base64,<data>`, for every reader of prompts."""

import base64
from urllib.parse import unquote_to_bytes

import msgspec

from agentvm.model.message import TextPart, UserPart


def split_data_url(part: UserPart) -> UserPart:
    """The part with bare base64, and the type that it says itself, if its `data` is a `data:` URL."""
    if isinstance(part, TextPart) or not part.data[:5].lower() == "data:":
        return part
    about, comma, data = part.data[5:].partition(",")
    if not comma:
        return part
    *kinds, last = about.split(";")
    encoded = last.strip().lower() == "base64"
    media_type = ";".join(kinds if encoded else [*kinds, last]).strip()
    if not encoded:
        data = base64.b64encode(unquote_to_bytes(data)).decode()
    return msgspec.structs.replace(part, data=data, media_type=media_type or part.media_type)
