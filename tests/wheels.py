"""Packages that bring families, built and installed without a network."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from tests.helpers import TIMEOUT


def write_wheel(project: Path, out: Path) -> Path:
    """What a build backend would make of pyproject.toml and src/, without one."""
    head = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stem = f"{head['name'].replace('-', '_')}-{head['version']}"
    about = f"{stem}.dist-info"
    groups = head.get("entry-points", {})
    files = {
        path.relative_to(project / "src").as_posix(): path.read_text("utf-8") for path in project.glob("src/**/*.py")
    }
    files |= {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {head['name']}\nVersion: {head['version']}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "\n".join(
            line
            for group, names in groups.items()
            for line in (f"[{group}]", *(f"{k} = {v}" for k, v in names.items()))
        ),
    }
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    wheel = out / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


def install(project: Path, folder: Path) -> None:
    """Into a folder, to be named in PYTHONPATH: the environment that runs the tests stays as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", folder]
    done = subprocess.run(
        [sys.executable, *command, write_wheel(project, folder.parent)], capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr
