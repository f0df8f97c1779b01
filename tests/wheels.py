"""Packages that bring families, built and installed without a network, and kernels they need not compile again."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from numba.core.caching import _CacheLocator

from samebits.compiler.kernel_cache import KEPT_IN, PACKAGE
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


def unpack(project: Path, folder: Path) -> None:
    """The same without pip, which takes a second: the files of a wheel of Python sources lie as they are installed."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(write_wheel(project, folder.parent)) as archive:
        archive.extractall(folder)


def copy_kernels(package: Path, cache: Path) -> None:
    """Copy what this process and others have compiled of the shared kernels into the kernel caches in a folder.

    The key of a kernel cache covers the sources of every family, so a package that adds one begins with an empty cache.
    `package` has the same files as ours, with their times, which Numba compares: the machine code is the same. A cache
    that has its own already, or a kernel that is not compiled yet, is left as it is.
    """
    assert KEPT_IN is not None
    for folder in cache.glob("kernels-*"):
        for name in ("arithmetic", "devices", "devices/cpu"):
            ours, theirs = (_CacheLocator.get_suitable_cache_subpath(str(at / name / "x")) for at in (PACKAGE, package))
            if (KEPT_IN / ours).is_dir() and not any((folder / theirs).glob("*.nbi")):
                unfinished = shutil.ignore_patterns("tmp*", "*.lock")
                shutil.copytree(KEPT_IN / ours, folder / theirs, ignore=unfinished, dirs_exist_ok=True)
