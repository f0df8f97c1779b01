"""Machine code on disk: written by several at once, damaged, planted, on a full disk, in folders of others."""

import inspect
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from samebits.compiler import cache_folder
from samebits.compiler.cache_folder import MARK, TAG, cache_bases, drop_old, hold, own_folder, read_sealed, write_sealed
from samebits.compiler.compiled import Compiled
from samebits.compiler.kernel_cache import KERNELS, PACKAGE, CacheFile, kernel_sources, source_hash, sources
from samebits.families import discover
from tests.helpers import TIMEOUT
from tests.test_imports import imports_of

# Compiles two small kernels, or loads them; says how many had to be compiled, here or by a helper.
SMALL = """
from numba.core import event
from samebits.compiler import compile_workers as aside
compiled = []
class Count(event.Listener):
    def on_start(self, what): compiled.append(what)
    def on_end(self, what): pass
from samebits.arithmetic.elementary import cos_sin, log
with event.install_listener("numba:compile", Count()):
    assert abs(log(2.0) - 0.6931) < 1e-3
    assert abs(cos_sin(0.25)[0]) < 1e-3
print(len(compiled) + aside._here().done)
"""


def compile_some(cache: Path, before: str = "") -> tuple[int, str]:
    env = {**os.environ, "SAMEBITS_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", before + SMALL]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout), done.stderr


def test_two_versions_compiled_at_once_get_files_of_their_own(tmp_path, monkeypatch):
    files = [CacheFile(str(tmp_path), "kernel", "stamp") for _ in range(2)]
    second = threading.Thread(target=files[1].save, args=("second", "code of the second"))
    save_index = files[0]._save_index

    def slowly(overloads):
        second.start()
        second.join(0.3)  # it must wait for us
        save_index(overloads)

    monkeypatch.setattr(files[0], "_save_index", slowly)
    files[0].save("first", "code of the first")
    second.join(10)
    reader = CacheFile(str(tmp_path), "kernel", "stamp")
    assert [reader.load(key) for key in ("first", "second")] == ["code of the first", "code of the second"]


DAMAGE = {
    "emptied": lambda content: b"",
    "halved": lambda content: content[: len(content) // 2],
    "garbled": lambda content: content[:40] + bytes(255 - byte for byte in content[40:80]) + content[80:],
    "zeros": lambda content: bytes(len(content)),
    "longer": lambda content: content + b"\0",
}


def test_damaged_machine_code_is_compiled_anew(tmp_path):
    first, _ = compile_some(tmp_path / "cache")
    assert first > 1
    assert compile_some(tmp_path / "cache")[0] == 0
    files = sorted((tmp_path / "cache").rglob("*.nb?"))
    assert len(files) >= 4
    for number, path in enumerate(files):
        path.write_bytes(list(DAMAGE.values())[number % len(DAMAGE)](path.read_bytes()))
    assert compile_some(tmp_path / "cache") == (first, "")
    assert compile_some(tmp_path / "cache")[0] == 0


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_file_is_as_if_it_were_not_there(case, tmp_path):
    write_sealed(tmp_path / "file", b"content" * 100)
    (tmp_path / "file").write_bytes(DAMAGE[case]((tmp_path / "file").read_bytes()))
    assert read_sealed(tmp_path / "file") is None


def test_an_index_that_names_a_damaged_version_gets_a_new_one(tmp_path):
    file = CacheFile(str(tmp_path), "kernel", "stamp")
    file.save("key", "code")
    (data,) = tmp_path.glob("*.nbc")
    data.write_bytes(b"\x80\x04" + data.read_bytes()[2:])
    assert file.load("key") is None
    file.save("key", "code")
    assert file.load("key") == "code"
    assert CacheFile(str(tmp_path), "kernel", "another stamp").load("key") is None


@pytest.mark.parametrize("mode", [0o666, 0o620])
def test_a_file_that_others_can_write_is_not_believed(mode, tmp_path):
    write_sealed(tmp_path / "file", b"content")
    assert read_sealed(tmp_path / "file") == b"content"
    (tmp_path / "file").chmod(mode)
    assert read_sealed(tmp_path / "file") is None


def test_a_file_of_another_user_is_not_believed(tmp_path, monkeypatch):
    write_sealed(tmp_path / "file", b"content")
    monkeypatch.setattr(cache_folder.os, "getuid", lambda: os.geteuid() + 1)
    assert read_sealed(tmp_path / "file") is None
    assert own_folder(tmp_path, "kernels-0123456789abcdef") is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_to_is_not_used_though_it_was_asked_for(mode, tmp_path, monkeypatch):
    asked = tmp_path / "asked"
    asked.mkdir()
    asked.chmod(mode)
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(asked))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache_folder, "refused", [])
    assert cache_bases()[0] == tmp_path / "home/samebits"
    assert ["chmod go-w" in reason and str(asked) in reason for reason in cache_folder.refused] == [True]
    asked.chmod(0o700)
    assert cache_bases()[0] == asked


def test_folders_are_made_for_us_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        base = tmp_path / "base"
        base.mkdir(mode=0o700)
        folder = own_folder(base, "kernels-0123456789abcdef")
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_planted_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "kernels-0123456789abcdef").symlink_to(tmp_path / "elsewhere")
    assert own_folder(tmp_path, "kernels-0123456789abcdef") is None


def test_somebodys_folder_is_neither_used_nor_marked(tmp_path):
    theirs = tmp_path / "tokens"
    theirs.mkdir(mode=0o700)
    (theirs / "precious").write_text("mine")
    assert own_folder(tmp_path, "tokens") is None
    assert [path.name for path in theirs.iterdir()] == ["precious"]


def kernels(number):
    return f"kernels-{number:016x}"


def test_only_what_we_marked_is_deleted_and_never_what_is_in_use(tmp_path):
    theirs = [tmp_path / kernels(i) for i in range(12)]
    theirs += [tmp_path / "kernels-of-mine", tmp_path / "kernels-backup"]
    for folder in theirs:
        folder.mkdir()
        (folder / "precious").write_text("mine")
    (theirs[-1] / TAG).write_text(MARK)  # ours by its mark, but not by its name
    ours = [own_folder(tmp_path, kernels(100 + i)) for i in range(6)]
    now = time.time()
    for age, folder in enumerate(ours):
        os.utime(folder, (now - 100 * age,) * 2)
    for folder in ours[:3]:
        os.utime(folder, (2**31 - 1,) * 2)  # 2037
    hold(ours[5])  # the oldest of all
    drop_old(tmp_path, KERNELS, 3)
    assert [folder.exists() for folder in ours] == [True, True, True, False, False, True]
    assert all((folder / "precious").exists() for folder in theirs)


def test_a_live_cache_is_not_deleted_by_another_version(tmp_path):
    """Three caches dated 2037 are newer than the one that was just made."""
    for i in range(3):
        folder = own_folder(tmp_path, kernels(i))
        os.utime(folder, (2**31 - 1,) * 2)
    assert compile_some(tmp_path)[0] > 0
    assert compile_some(tmp_path)[0] == 0


FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))\n"


def test_on_a_full_disk_kernels_are_compiled_and_that_is_said_once(tmp_path):
    count, told = compile_some(tmp_path / "cache", FULL)
    assert count > 1
    assert told.count("CacheWarning") == 1
    assert str(tmp_path / "cache") in told
    assert not any((tmp_path / "cache").rglob("tmp*"))  # no rests


def package_of(tmp_path, **modules):
    folder = tmp_path / "ours"
    for name, text in modules.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_machine_code_is_keyed_by_all_that_compiled_functions_can_be_made_from(tmp_path):
    """… by modules that have any, and what these import, in whatever way, at whatever distance."""
    folder = package_of(
        tmp_path,
        kernels="from ours.near import (\n    one,\n    two,\n)\n@kernel\ndef f(): pass\n",
        near="import ours.far\n",
        far="def g():\n    from ours.part import late\n",
        part__late="LATE = 1\n",
        emits="    @intrinsic\ndef h(): pass\n",
        prints="from ours import kernels\n",
    )
    (folder / "part/__init__.py").write_text("")
    names = {name for name, _ in kernel_sources(folder)}
    assert names == {"ours.kernels", "ours.near", "ours.far", "ours.part", "ours.part.late", "ours.emits"}


def test_what_imports_a_name_of_the_package_itself_may_be_made_from_anything(tmp_path):
    folder = package_of(tmp_path, kernels="from ours import constant\n@routine\ndef f(): pass\n", prints="")
    assert {name for name, _ in kernel_sources(folder)} == {"ours.kernels", "ours.prints"}


def test_every_module_with_a_compiled_function_is_in_the_key_and_what_trains_or_prints_is_not():
    discover()  # imports every family
    found = {path for _, path in kernel_sources()}
    compiled = {
        Path(inspect.getfile(thing.py_func))
        for name, module in list(sys.modules.items())
        if name.startswith("samebits.")
        for thing in vars(module).values()
        if isinstance(thing, Compiled)
    }
    assert len(compiled) > 15
    assert compiled <= found
    assert not {PACKAGE / name for name in ("api.py", "cli/train.py", "runs/runfolder.py")} & found


DECIDE = (
    "arithmetic/rng.py", "compiler/jit.py", "config.py", "devices/cpu/tree.py", "devices/gpu/tree.cl",
    "distance/trees.py", "families/gpt/gpt.cl", "families/gpt/tokens.py", "families/logic_ca/circuits/repair.py",
    "families/logic_ca/family.py", "groups/exchange.py", "runs/loop.py", "training/trainer.py",
)  # fmt: skip
DO_NOT_DECIDE = (
    "api.py", "bench/runner.py", "canaries.json", "cli/train.py", "families/gpt/hugging_face.py",
    "families/gpt/load_in_pytorch.py", "families/gpt/reference.py", "families/graph/peer_torch.py",
    "families/logic_ca/circuits/export.py", "families/logic_ca/measure_packed.py", "families/logic_ca/verbs.py",
    "hardware/cell.py", "progress.py", "report/plots.py", "verify/canary.py",
)  # fmt: skip


def test_the_source_hash_is_of_what_decides_a_bit_and_of_nothing_else(tmp_path):
    package = tmp_path / "samebits"
    before = source_hash(Path(shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "web"))))
    assert before == source_hash()
    for name in (*DECIDE, *DO_NOT_DECIDE):
        path = package / name
        content = path.read_bytes()
        path.write_bytes(content + b"\n")
        assert (source_hash(package) != before) == (name in DECIDE), name
        path.write_bytes(content)


def test_what_decides_a_bit_is_made_of_nothing_that_is_said_not_to():
    """But of words for errors, of opening and writing files, and of a model's card. Families and their models name what
    is done with them later."""
    inside = {name.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".") for name, _ in sources()}
    harmless = ("bits", "checks", "errors", "files", "metrics", "printing", "report.notebook")
    every = {path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".") for path in PACKAGE.rglob("*.py")}
    wrong = [
        (name, module)
        for name, path in sources()
        if path.suffix == ".py" and path.name not in ("family.py", "model.py")
        for module in (imported.removeprefix("samebits.") for imported in imports_of(path))
        if module in every - inside and module not in harmless
    ]
    assert wrong == []
