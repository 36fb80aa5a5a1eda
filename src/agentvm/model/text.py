"""Text — repairs text that JSON and a database cannot carry."""


def repair_text(text: str) -> str:
    """The same text, except that half of a surrogate pair, which neither can carry, becomes the replacement character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
