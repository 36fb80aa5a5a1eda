"""Models — which driver answers for which model name. `<driver>/<model>`, `<driver>` alone, or nothing for the default."""

from collections.abc import Mapping

from agentvm.drivers.base import Driver
from agentvm.errors import DriverNotFound


class Models:
    """The drivers of this process. `default` is one of them."""

    def __init__(self, drivers: Mapping[str, Driver], default: str) -> None:
        self._drivers = dict(drivers)
        self._default = default

    def choose(self, name: str | None) -> tuple[Driver, str]:
        """The driver and the provider's own name for the model."""
        driver_name, _, model = (name or self._default).partition("/")
        driver = self._drivers.get(driver_name)
        if driver is None:
            known = ", ".join(sorted(self._drivers))
            raise DriverNotFound(f"No driver named {driver_name!r} is configured for model {name!r}; configured: {known}")
        return driver, model or driver.default_model
