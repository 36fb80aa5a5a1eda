import pytest

from agentvm.drivers.models import Chosen, Models
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import DriverNotFound

ONE, TWO = ScriptedDriver(), ScriptedDriver()
MODELS = Models({"one": ONE, "two": TWO}, "two/fast")


@pytest.mark.parametrize(
    ("name", "driver", "model"),
    [
        (None, TWO, "fast"),
        ("", TWO, "fast"),
        ("one", ONE, "scripted"),
        ("one/", ONE, "scripted"),
        ("one/big", ONE, "big"),
        ("one/org/big", ONE, "org/big"),
        ("two", TWO, "scripted"),
    ],
)
def test_a_name_chooses_its_driver_and_model(name: str | None, driver: ScriptedDriver, model: str) -> None:
    assert MODELS.choose(name) == Chosen(driver, model)


@pytest.mark.parametrize("name", ["three/big", "three", "/one", "ONE/big"])
def test_a_driver_nobody_configured_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(DriverNotFound) as refused:
        MODELS.choose(name)
    assert "one, two" in str(refused.value)
