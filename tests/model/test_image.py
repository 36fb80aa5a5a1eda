from agentvm.model.image import ImageConfig


def test_a_config_does_not_print_its_key() -> None:
    config = ImageConfig(name="Seller", api_key="sk-secret")
    assert repr(config) == str(config) == "ImageConfig('Seller', …)"
