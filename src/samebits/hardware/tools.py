"""Programs of others that pip installs: yosys with ABC inside pyosys, nextpnr and the packers as YoWASP wheels."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from samebits import files
from samebits.errors import SamebitsError

YOSYS = "import sys; from pyosys import libyosys as ys; ys.run_pass(sys.argv[1], ys.Design())"
WHEEL = "import sys, {module} as tool; sys.exit(tool.{function}(sys.argv[1:]))"


def installed(module: str) -> bool:
    return find_spec(module) is not None


def require(module: str, package: str, extra: str) -> None:
    if not installed(module):
        raise SamebitsError(
            f"{package} is not installed, and it is needed here; install it: pip install 'samebits[{extra}]'"
        )


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def run(code: str, words: Sequence[str], folder: Path, log: str) -> tuple[int, str]:
    """Another Python with these arguments, in the folder: its exit code, and what it said, kept in `log` as well."""
    path = folder / log
    with path.open("wb") as out:
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False
        )
    return done.returncode, path.read_text(encoding="utf-8", errors="replace")


def yosys(script: str, folder: Path, log: str = "yosys.log") -> str:
    """Run a script of yosys commands."""
    require("pyosys", "pyosys", "hardware")
    code, said = run(YOSYS, [script], folder, log)
    if code != 0:
        raise failed("yosys", said)
    return said


def wheel(module: str, function: str, words: Sequence[str], folder: Path, log: str) -> tuple[int, str]:
    """Run a YoWASP program. The first time it is compiled, which takes a minute."""
    require(module, module.replace("_", "-"), "fpga")
    return run(WHEEL.format(module=module, function=function), words, folder, log)


def failed(what: str, said: str) -> SamebitsError:
    """The first line that says what went wrong, or else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith("ERROR")), lines[-1] if lines else "it said nothing")
    return SamebitsError(f"{what} ended with: {told}; look at the file above, or report it")


def luts(blif: bytes, inputs: int = 4) -> tuple[int, int] | None:
    """How many tables of so many inputs ABC needs, and how many lie on the longest way; None without pyosys."""
    if not installed("pyosys"):
        return None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files.write(folder / "cell.blif", blif)
        abc = str(Path(str(find_spec("pyosys").origin)).parent / "yosys-abc")  # type: ignore[union-attr]
        script = f"read_blif cell.blif; strash; dch; if -a -K {inputs}; mfs2 -a; ps"
        done = subprocess.run([abc, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    found = re.search(r"nd *= *([0-9]+).*lev *= *([0-9]+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else None
