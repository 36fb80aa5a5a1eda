"""Secret — a string that does not print itself."""


class Secret:
    """Holds a credential; `reveal()` is the only way to read it, so that logs, errors and reprs never can."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    @property
    def is_sendable(self) -> bool:
        """Whether the header of a request can carry it."""
        return self._value.isascii() and self._value.isprintable() and " " not in self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__
