"""Models — which driver answers for which model name. `<driver>/<model>`, `<driver>` alone, or nothing for the default."""

from collections.abc import Mapping
from typing import NamedTuple

from agentvm.drivers.base import Driver
from agentvm.errors import DriverNotFound


class Chosen(NamedTuple):
    """Who answers; `own_key` when the tenant pays the provider itself."""

    driver: Driver
    model: str
    own_key: bool = False


class Models:
    """The drivers of this process. `default` is one of them."""

    def __init__(self, drivers: Mapping[str, Driver], default: str) -> None:
        self._drivers = dict(drivers)
        self._default = default

    def parse(self, name: str | None) -> tuple[str, str]:
        """The driver's name, and the provider's own for the model, which may be empty."""
        driver_name, _, model = (name or self._default).partition("/")
        return driver_name, model

    def choose(self, name: str | None) -> Chosen:
        """The driver and the provider's own name for the model."""
        driver_name, model = self.parse(name)
        driver = self._drivers.get(driver_name)
        if driver is None:
            known = ", ".join(sorted(self._drivers))
            raise DriverNotFound(f"No driver named {driver_name!r} is configured for model {name!r}; configured: {known}")
        return Chosen(driver, model or driver.default_model)
