"""Accept — which form of an answer a request would rather have. Pure."""

from collections.abc import Iterator, Sequence


def preferred(accept: str, offered: Sequence[str]) -> str:
    """Of the media types that are `offered`, the one that `Accept` ranks highest; of equals the first.

    What is named counts before what a wildcard lets in, and 0 rules out. When nothing fits, the first: whoever asks that way
    can do more with it than with a refusal.
    """
    ranges = [*_ranges(accept)]
    best, wanted = offered[0], 0.0
    for one in offered:
        quality = _quality(one, ranges)
        if quality > wanted:
            best, wanted = one, quality
    return best


def _ranges(accept: str) -> Iterator[tuple[str, float]]:
    for part in accept.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((text[2:].strip() for text in parameters if text.startswith("q=")), "1")
        try:
            yield name, min(1.0, max(0.0, float(quality)))
        except ValueError:
            # Unreadable, so nothing is known of it.
            continue


def _quality(media_type: str, ranges: Sequence[tuple[str, float]]) -> float:
    """What is said of the very type goes before what is said of all of its kind, and of all."""
    for name in (media_type, f"{media_type.partition('/')[0]}/*", "*/*"):
        said = [quality for one, quality in ranges if one == name]
        if said:
            return max(said)
    return 0.0
