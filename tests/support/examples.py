"""Examples — how many a property is tried with: enough for every day, or as many as a night allows."""

from hypothesis import settings

THOROUGH = "thorough"


def examples(every_day: int, thorough: int) -> int:
    """The second with `--hypothesis-profile thorough`."""
    return thorough if settings.get_current_profile_name() == THOROUGH else every_day
