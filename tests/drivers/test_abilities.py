from pathlib import Path

from agentvm.drivers.abilities import ModelAbilities, abilities_of
from agentvm.drivers.base import DriverSettings
from agentvm.drivers.local import open_driver
from agentvm.drivers.scripted import ScriptedDriver


async def test_a_driver_that_declares_nothing_takes_everything() -> None:
    assert abilities_of(ScriptedDriver(), "any") == ModelAbilities(pictures=True, tools=True)


async def test_the_embedded_model_takes_text_alone_and_other_files_tell_themselves(tmp_path: Path) -> None:
    async with open_driver(DriverSettings(model_dir=tmp_path)) as driver:
        assert abilities_of(driver, driver.default_model) == ModelAbilities(pictures=False, tools=False, demo=True)
        assert abilities_of(driver, "/models/other.gguf") == ModelAbilities(pictures=False, tools=None)
