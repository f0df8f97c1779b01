"""Opening and writing files: run folders of anybody, and results that replace older ones.

Below a run folder no symbolic link is followed, and only plain files are opened: a folder from a stranger cannot lead a
command to a file elsewhere, nor make it wait for a pipe. Links above the run folder are the user's own; they are
followed. `inside` is the folder below which no link is followed; without it, that is the file's own folder.

A file is written under another name in the same folder and renamed. A full disk leaves the old file whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from samebits.errors import SamebitsError

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
MODE = 0o666  # less the umask
A_FOLDER, A_FILE, A_LINK, OTHER = "folder", "file", "link", "other"
PARTIAL = ".partial"  # ends the name of a file that is being written


def open_file(path: Path, inside: Path | None = None) -> BinaryIO:
    """A plain file for reading.

    Raises:
        SamebitsError: where it is a link, a pipe, a device or a folder, or a link leads to its folder.
        OSError: where it is missing or cannot be read.
    """
    with _folder(path.parent, inside) as folder:
        return os.fdopen(_open(path, os.O_RDONLY, folder), "rb")


def read(path: Path, most: int, inside: Path | None = None) -> bytes:
    """The bytes of a plain file.

    Args:
        path: the file.
        most: the largest size, in bytes.
        inside: the folder below which no link is followed.

    Raises:
        SamebitsError, OSError: as `open_file`; also where the file is larger than `most`.
    """
    with open_file(path, inside) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise SamebitsError(f"{path} is larger than {most} bytes, the most that is read; put back what samebits wrote")
    return content


def write(path: Path, content: bytes, inside: Path | None = None, sync: bool = False) -> Path:
    """Write a file under another name, then rename it; a link of this name is replaced, not followed.

    Folders are made where they are missing. With `sync` the file is on the disk before it is renamed.

    Raises:
        SamebitsError: where the name is a pipe, a device or a folder, or a link leads to its folder.
        OSError: where it cannot be written; what was there is as it was.
    """
    with _folder(path.parent, inside, make=True) as folder:
        partial = _write_partial(path, content, folder, sync)
        try:
            os.replace(partial, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            _unlink(partial, folder)
            raise _naming(error, path) from None
        if sync:
            os.fsync(folder)
    return path


def create(path: Path, content: bytes, inside: Path | None = None) -> None:
    """Write a new file in a folder that is there, and wait until it is on the disk.

    Raises:
        OSError: where there is a file of this name, or it cannot be written; what was written of it stays.
    """
    with _folder(path.parent, inside) as folder:
        try:
            _fill(path.name, content, folder, sync=True)
        except OSError as error:
            raise _naming(error, path) from None


def write_partial(path: Path, content: bytes) -> Path:
    """Write the file under another name in the same folder. The caller renames it (`publish`) or removes it."""
    with _folder(path.parent, None, make=True) as folder:
        return path.with_name(_write_partial(path, content, folder, sync=False))


def publish(partial: Path, path: Path) -> None:
    """Give a partial file its name."""
    with _folder(path.parent, None) as folder:
        _refuse_special(path, folder)
        os.replace(partial.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def open_append(path: Path, inside: Path | None = None) -> BinaryIO:
    """A plain file for reading and appending, made where it is missing.

    A file with a second name (a hard link) is replaced by a copy first: the other name may lie outside the run folder.
    """
    flags = os.O_RDWR | os.O_APPEND
    with _folder(path.parent, inside) as folder:
        descriptor = _open(path, flags | os.O_CREAT, folder)
        if os.fstat(descriptor).st_nlink > 1:
            partial = _partial_name(path)
            with os.fdopen(descriptor, "rb") as shared, _created(partial, folder) as copy:
                shutil.copyfileobj(shared, copy)
            os.replace(partial, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            descriptor = _open(path, flags, folder)
        return os.fdopen(descriptor, "ab+")


def open_lock(path: Path, inside: Path | None = None) -> int:
    """The descriptor of a plain file to be locked, made where it is missing."""
    with _folder(path.parent, inside) as folder:
        return _open(path, os.O_RDWR | os.O_CREAT, folder)


def make_folder(path: Path, inside: Path | None = None, exist_ok: bool = True) -> None:
    """Make one folder; its parent must be there."""
    with _folder(path.parent, inside) as folder:
        try:
            os.mkdir(path.name, dir_fd=folder)
        except FileExistsError as error:
            if not exist_ok:
                raise _naming(error, path) from None
            os.close(_open_folder(path, path.name, folder))


def check_folder(path: Path, inside: Path) -> None:
    """Refuse a path below `inside` that leads through a link or a file; what is missing may be made."""
    with contextlib.suppress(FileNotFoundError), _folder(path, inside):
        pass


def listed(path: Path, inside: Path | None = None) -> dict[str, str]:
    """The names in a folder, in order, and what each of them is: A_FOLDER, A_FILE, A_LINK or OTHER. A folder that is
    missing has none."""
    try:
        with _folder(path, inside) as folder, os.scandir(folder) as entries:
            return {entry.name: _kind_of(entry) for entry in sorted(entries, key=lambda entry: entry.name)}
    except FileNotFoundError:
        return {}


def _kind_of(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return A_LINK
    if entry.is_dir(follow_symlinks=False):
        return A_FOLDER
    return A_FILE if entry.is_file(follow_symlinks=False) else OTHER


def rename(path: Path, name: str, inside: Path | None = None, sync: bool = False) -> None:
    """Give a file or a folder another name in its folder. A link is renamed itself."""
    with _folder(path.parent, inside) as folder:
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)
        if sync:
            os.fsync(folder)


def remove(path: Path, inside: Path | None = None) -> None:
    """Remove a file, or a folder with all that it holds; a link is removed, not what it leads to. Errors are ignored:
    what is left is in nobody's way."""
    with contextlib.suppress(OSError), _folder(path.parent, inside) as folder:
        try:
            os.unlink(path.name, dir_fd=folder)
        except (IsADirectoryError, PermissionError):  # POSIX allows either for a folder
            shutil.rmtree(path.name, ignore_errors=True, dir_fd=folder)


def remove_partials(path: Path, inside: Path | None = None) -> None:
    """Remove what killed processes left of a file. The caller makes sure that nobody is writing it."""
    for name in listed(path.parent, inside):
        if is_partial(name, path.name):
            remove(path.with_name(name), inside)


def is_partial(name: str, of: str) -> bool:
    """Whether this is the name of a file that `write` had not finished."""
    return name.startswith(f".{of[:KEPT_NAME]}.") and name.endswith(PARTIAL)


def sync_folder(path: Path, inside: Path | None = None) -> None:
    """Make sure that a folder's names are on the disk."""
    with _folder(path, inside) as folder:
        os.fsync(folder)


def output_folder(run: Path, name: str, out: Path | None = None) -> Path:
    """The folder that a command writes to: `out`, or else the folder of this name in the run folder.

    Raises:
        SamebitsError: where it lies in the run folder and a link leads there.
    """
    target = Path(os.path.abspath(run / name if out is None else out))
    for home in (os.path.abspath(run), os.path.realpath(run)):
        if target.is_relative_to(home):
            found = run.joinpath(*target.relative_to(home).parts)
            check_folder(found, run)
            return found
    return run / name if out is None else out


def followed(path: Path) -> Path:
    """Where a path of the user's leads, if it is a link: the file there is replaced, and the link stays."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextlib.contextmanager
def _folder(path: Path, inside: Path | None, make: bool = False) -> Iterator[int]:
    """A descriptor of a folder, opened name by name from `inside` on; with `make`, what is missing is made."""
    home = path if inside is None else inside
    if make and inside is None:
        path.mkdir(parents=True, exist_ok=True)
    descriptor, so_far = os.open(home, FOLDER), home
    try:
        for name in path.relative_to(home).parts:
            so_far = so_far / name
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
            below = _open_folder(so_far, name, descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _open_folder(path: Path, name: str, parent: int) -> int:
    try:
        return os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise _naming(error, path) from None
        what = _kind(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        raise SamebitsError(
            f"{path} is {what}; it must be a folder, and inside a run folder no link is followed; put a folder there"
        ) from None


def _open(path: Path, flags: int, folder: int) -> int:
    """A descriptor of a plain file. Anything else is refused before it is opened: opening a device may do something."""
    try:
        _refuse_special(path, folder, links=True)
        descriptor = os.open(path.name, flags | PLAIN, MODE, dir_fd=folder)
    except OSError as error:
        raise _naming(error, path) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):  # put there between the two
        os.close(descriptor)
        raise _special(path, mode)
    return descriptor


def _refuse_special(path: Path, folder: int, links: bool = False) -> None:
    """Refuse a name that is taken by anything but a plain file; with `links` also by a link."""
    try:
        mode = os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode) and (links or not stat.S_ISLNK(mode)):
        raise _special(path, mode)


def _special(path: Path, mode: int) -> SamebitsError:
    return SamebitsError(f"{path} is {_kind(mode)}; it must be a plain file; put one there, or remove it")


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder", stat.S_IFREG: "a plain file",
        stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket",
    }  # fmt: skip
    return kinds.get(stat.S_IFMT(mode), "no plain file")


KEPT_NAME = 40  # characters of a file's name in that of its partial file: a name must not grow too long


def _partial_name(path: Path) -> str:
    return f".{path.name[:KEPT_NAME]}.{os.urandom(6).hex()}{PARTIAL}"


def _created(name: str, folder: int) -> BinaryIO:
    return os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, MODE, dir_fd=folder), "wb")


def _write_partial(path: Path, content: bytes, folder: int, sync: bool) -> str:
    """The name of the partial file; there is none where it could not be written."""
    _refuse_special(path, folder)
    partial = _partial_name(path)
    with contextlib.ExitStack() as undo:
        undo.callback(_unlink, partial, folder)
        try:
            _fill(partial, content, folder, sync)
        except OSError as error:
            raise _naming(error, path) from None
        undo.pop_all()
    return partial


def _fill(name: str, content: bytes, folder: int, sync: bool) -> None:
    with _created(name, folder) as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def _unlink(name: str, folder: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _naming(error: OSError, path: Path) -> OSError:
    """The same error with the whole path, for a message."""
    return OSError(error.errno, error.strerror, str(path))
