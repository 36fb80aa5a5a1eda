"""Accept — the media type that a request prefers. Pure."""

from collections.abc import Iterator, Sequence


def preferred(accept: str, offered: Sequence[str]) -> str:
    """Returns the offered media type that `Accept` ranks highest; of equals the first.

    An exact name takes precedence over a wildcard, and a quality of 0 excludes. If none fits, the first is more useful than a
    refusal.
    """
    ranges = [*_ranges(accept)]
    best, best_quality = offered[0], 0.0
    for media_type in offered:
        quality = _quality(media_type, ranges)
        if quality > best_quality:
            best, best_quality = media_type, quality
    return best


def _ranges(accept: str) -> Iterator[tuple[str, float]]:
    for part in accept.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((text[2:].strip() for text in parameters if text.startswith("q=")), "1")
        try:
            yield name, min(1.0, max(0.0, float(quality)))
        except ValueError:
            continue


def _quality(media_type: str, ranges: Sequence[tuple[str, float]]) -> float:
    """Returns the quality of the exact type, else of its kind, else of all types."""
    for name in (media_type, f"{media_type.partition('/')[0]}/*", "*/*"):
        qualities = [quality for range_name, quality in ranges if range_name == name]
        if qualities:
            return max(qualities)
    return 0.0
