"""What an archive must be; whoever sends another is told why, and nothing of it is looked at further."""

import gzip
import io
import json
import tarfile
import zlib
from collections.abc import Callable, Iterator
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.resources.archives import blob, bundle, entry, files, hexed, pack
from tests.support.examples import examples

from agentvm.errors import InvalidInput
from agentvm.errors.resource import ResourceInvalid, ResourceTooLarge
from agentvm.model.resource import canonical, digest_of
from agentvm.resources import archive
from agentvm.resources.archive import FILE_MAX_BYTES, UNPACKED_MAX_BYTES, Bundle, read_archive, write_archive

GOOD = entry()
GOOD_TAR = pack(files(GOOD))
DEPENDENCY = ("alias", "uri", "resolved", "digest")
END = sum(512 + len(body) + -len(body) % 512 for _, body in files(GOOD))


def with_member(name: str, body: bytes = b"", **members: object) -> bytes:
    """A good archive with one member more."""

    def change(member: tarfile.TarInfo) -> None:
        if member.name == name:
            for key, value in members.items():
                setattr(member, key, value)

    return gzip.compress(pack([*files(GOOD), (name, body)], change))


def with_pax() -> bytes:
    """An extended header that would give the next member another name."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, body in files(GOOD):
            member = tarfile.TarInfo(name)
            member.size = len(body)
            if name != "bundle.json":
                member.pax_headers = {"path": "../../escaped"}
            tar.addfile(member, io.BytesIO(body))
    return gzip.compress(out.getvalue())


def with_long_name() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("x" * 300))
    return gzip.compress(out.getvalue())


def with_content(body: bytes) -> bytes:
    raw, _ = entry()
    return bundle(({**raw, "content": f"sha256:{hexed(body)}"}, body))


def with_manifest(body: bytes) -> bytes:
    return gzip.compress(pack([("bundle.json", body), *files(GOOD)[1:]]))


BOMB = gzip.compress(bytes(UNPACKED_MAX_BYTES + 1024))
UNREADABLE: dict[str, tuple[Callable[[], bytes], str]] = {
    "traversal": (lambda: with_member("../../etc/passwd"), "'../../etc/passwd' does not belong"),
    "traversal below a good name": (lambda: with_member("blobs/sha256/../../x"), "does not belong"),
    "absolute": (lambda: with_member("/etc/passwd"), "does not belong"),
    "another file": (lambda: with_member("notes.txt", b"hello"), "only bundle.json and blobs/sha256/"),
    "capital digest": (lambda: with_member("blobs/sha256/" + "A" * 64), "does not belong"),
    "symlink": (lambda: with_member(blob(b"x"), type=tarfile.SYMTYPE, linkname="/etc/passwd"), "is a link; only plain files"),
    "hard link": (lambda: with_member(blob(b"x"), type=tarfile.LNKTYPE, linkname="bundle.json"), "is a hard link"),
    "device": (lambda: with_member(blob(b"x"), type=tarfile.CHRTYPE), "is a device"),
    "pipe": (lambda: with_member(blob(b"x"), type=tarfile.FIFOTYPE), "is a pipe"),
    "folder": (lambda: with_member("blobs", type=tarfile.DIRTYPE), "is a folder"),
    "file with a link's target": (lambda: with_member(blob(b""), linkname="/etc/passwd"), "does not belong"),
    "extended header": (with_pax, "an extended header"),
    "long name": (with_long_name, "an extended header"),
    "bomb": (lambda: BOMB, "holds more than"),
    "ratio": (lambda: gzip.compress(GOOD_TAR + bytes(20 * 1024 * 1024)), "200 times its own size"),
    "too many bytes": (lambda: bytes(archive.BUNDLE_MAX_BYTES + 1), "and may have"),
    "too large a file": (lambda: with_member(blob(b"x"), Random(1).randbytes(FILE_MAX_BYTES + 1)), "and may have"),
    "duplicate": (lambda: gzip.compress(pack([*files(GOOD), files(GOOD)[1]])), "twice"),
    "wrong bytes": (lambda: gzip.compress(pack([files(GOOD)[0], (blob(GOOD[1]), b"other")])), "have another digest"),
    "wrong digest": (lambda: bundle(({**GOOD[0], "digest": digest_of(b"")}, GOOD[1])), "does not have the digest it states"),
    "wrong dependency": (lambda: bundle(({**GOOD[0], "schema": {}}, GOOD[1])), "does not have the digest it states"),
    "truncated gzip": (lambda: gzip.compress(GOOD_TAR)[:-9], "cut off"),
    "truncated tar": (lambda: gzip.compress(GOOD_TAR[:600]), "cut off"),
    "tar without an end": (lambda: gzip.compress(GOOD_TAR[:END]), "its end is missing"),
    "tar with half an end": (lambda: gzip.compress(GOOD_TAR[: END + 512]), "its end is missing"),
    "size that lies": (lambda: gzip.compress(size_changed(GOOD_TAR, b"%011o\0" % 1_000_000)), "is not all there"),
    "size that is too large": (lambda: gzip.compress(size_changed(GOOD_TAR, b"%011o\0" % (8**11 - 1))), "and may have"),
    "size below nothing": (lambda: gzip.compress(size_changed(GOOD_TAR, b"\xff" * 12)), "an invalid size"),
    "checksum": (lambda: gzip.compress(b"X" + GOOD_TAR[1:]), "no tar in it"),
    "wrong gzip checksum": (lambda: gzip.compress(GOOD_TAR)[:-8] + bytes(8), "damaged"),
    "bytes after the gzip": (lambda: gzip.compress(GOOD_TAR) + b"more", "there is data after its end"),
    "two gzips": (lambda: gzip.compress(GOOD_TAR) * 2, "there is data after its end"),
    "bytes after the tar": (lambda: gzip.compress(GOOD_TAR + b"more".ljust(512, b"\0")), "there is data after it"),
    "not gzip": (lambda: b"PK\x03\x04 a zip file", "is not gzip"),
    "zlib": (lambda: zlib.compress(GOOD_TAR), "is not gzip"),
    "not a tar": (lambda: gzip.compress(b"hello " * 1000), "no tar in it"),
    "nothing": (lambda: b"", "cut off"),
    "an empty gzip": (lambda: gzip.compress(b""), "damaged"),
    "an empty tar": (lambda: gzip.compress(pack([])), "There is no bundle.json"),
    "no bundle.json": (lambda: gzip.compress(pack(files(GOOD)[1:])), "There is no bundle.json"),
    "giant bundle.json": (lambda: with_manifest(json.dumps([*range(10**6)]).encode()), "and may have"),
    "deep JSON": (lambda: with_manifest(b'{"format":1,"root":' + b"[" * 100_000), "is not valid JSON"),
    "deep content": (lambda: with_content(b"[" * 100_000), "is not valid JSON"),
    "JSON that is none": (lambda: with_manifest(b"{"), "is not valid JSON"),
    "JSON that is not UTF-8": (lambda: with_manifest(b'"\xff"'), "is not valid JSON"),
    "unknown format": (lambda: bundle(GOOD, format=3), "The format of the archive is 3"),
    "no format": (lambda: with_manifest(b"{}"), "The format of the archive is None"),
    "a list": (lambda: with_manifest(b"[]"), "bundle.json does not fit"),
    "unknown member": (lambda: bundle(GOOD, comment="hello"), "does not fit"),
    "unknown type": (lambda: bundle(({**GOOD[0], "type": "viruses"}, GOOD[1])), "does not fit"),
    "no entries": (lambda: with_manifest(b'{"format":1,"root":"x","entries":[]}'), "1 to 256"),
    "too many entries": (lambda: bundle(*(entry(f"p{index}") for index in range(257))), "1 to 256"),
    "entry twice": (lambda: bundle(GOOD, GOOD), "names a version twice"),
    "root elsewhere": (lambda: bundle(GOOD, root="resource://prompts/other@1.0.0"), "which is not in it"),
    "entry without blob": (lambda: gzip.compress(pack(files(GOOD)[:1])), "has no blob"),
    "part without blob": (lambda: bundle(({**GOOD[0], "blobs": [digest_of(b"theirs")]}, GOOD[1])), "has no blob"),
    "blob without entry": (lambda: bundle(GOOD, extra=[(blob(b"stray"), b"stray")]), "belongs to nothing"),
    "dependency twice": (
        lambda: bundle(({**GOOD[0], "dependencies": 2 * [dict.fromkeys(DEPENDENCY, "x")]}, GOOD[1])),
        "names a dependency twice",
    ),
}  # fmt: skip


def size_changed(tar: bytes, size: bytes) -> bytes:
    head = bytearray(tar[:512])
    head[124:136] = size
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + tar[512:]


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_archive_is_refused_with_a_reason(name: str) -> None:
    make, said = UNREADABLE[name]
    with pytest.raises((ResourceInvalid, ResourceTooLarge)) as refused:
        read_archive(make())
    assert said in str(refused.value)
    assert len(str(refused.value)) < 1_000


def test_what_is_good_is_read() -> None:
    found = read_archive(bundle(GOOD))
    assert (found.root, [one.name for one in found.entries]) == ("resource://prompts/sales@1.0.0", ["sales"])
    assert found.blobs == {digest_of(GOOD[1]): GOOD[1]}


def test_a_bomb_is_not_unpacked_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[int] = []

    class Counting:
        def __init__(self, bits: int) -> None:
            self._inner = zlib.decompressobj(bits)

        def decompress(self, data: bytes, most: int) -> bytes:
            found = self._inner.decompress(data, most)
            unpacked.append(len(found))
            return found

    class Zlib:
        error = zlib.error
        decompressobj = Counting

    bomb = gzip.compress(bytes(300 * 1024 * 1024))
    monkeypatch.setattr(archive, "zlib", Zlib)
    with pytest.raises(ResourceTooLarge):
        read_archive(bomb)
    assert sum(unpacked) <= UNPACKED_MAX_BYTES + 1


def bundles(texts: list[str]) -> Bundle:
    made = [entry(f"p{index}", {"text": text}) for index, text in enumerate(texts)]
    return read_archive(bundle(*made))


@given(st.lists(st.text(max_size=50), min_size=1, max_size=5))
@settings(max_examples=examples(25, 500), deadline=None)
def test_what_was_written_is_read_and_the_same_has_the_same_bytes(texts: list[str]) -> None:
    one = bundles(texts)
    written = write_archive(one)
    again = read_archive(written)
    assert (again.root, set(again.entries), again.blobs) == (one.root, set(one.entries), one.blobs)
    other_way_round = Bundle(one.root, one.entries[::-1], dict(reversed(list(one.blobs.items()))))
    assert write_archive(other_way_round) == written


def test_nothing_of_the_machine_or_the_day_is_in_it() -> None:
    written = write_archive(bundles(["a", "b"]))
    assert written[:10] == b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"
    with tarfile.open(fileobj=io.BytesIO(written)) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(one.mtime, one.uid, one.gid, one.uname, one.gname, one.mode) for one in members} == {(0, 0, 0, "", "", 0o644)}


def big() -> Iterator[tuple[dict[str, object], bytes]]:
    """Texts that are nearly nothing when they are compressed."""
    for letter in "abcdef":
        yield entry(letter, {"text": letter * 1024 * 1024})


def test_what_is_written_can_be_read_however_well_it_compresses() -> None:
    made = list(big())
    one = Bundle(
        str(made[0][0]["uri"]),
        msgspec.convert([raw for raw, _ in made], type=tuple[archive.BundleEntry, ...]),
        {digest_of(body): body for _, body in made},
    )
    assert read_archive(write_archive(one)).blobs == one.blobs


def test_what_could_not_be_read_is_not_written() -> None:
    one = bundles(["a"])
    with pytest.raises(ResourceTooLarge, match="without deps"):
        write_archive(Bundle(one.root, one.entries, {digest_of(b"x"): bytes(FILE_MAX_BYTES + 1)}))
    many = {digest_of(canonical(index)): bytes(FILE_MAX_BYTES) for index in range(9)}
    with pytest.raises(ResourceTooLarge, match="without deps"):
        write_archive(Bundle(one.root, one.entries, many))


@given(st.binary(max_size=200), st.integers(0, 3000))
@settings(max_examples=examples(50, 3000), deadline=None)
def test_no_bytes_do_anything_but_be_refused_or_read(noise: bytes, at: int) -> None:
    damaged = GOOD_TAR[:at] + noise + GOOD_TAR[at + len(noise) :]
    for data in (noise, gzip.compress(noise), gzip.compress(damaged)):
        try:
            read_archive(data)
        except InvalidInput:
            continue
