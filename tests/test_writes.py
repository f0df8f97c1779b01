"""samebits/files.py is the one place that writes. Whoever writes by another way is named here, with the reason."""

import ast
from functools import cache
from pathlib import Path

import samebits

PACKAGE = Path(samebits.__file__).parent
WRITERS = {"write_text", "write_bytes", "savefig", "save", "savez", "savetxt", "tofile", "touch", "symlink_to"}
MOVERS = {"rename", "unlink", "rmtree", "copyfile", "copytree", "truncate", "NamedTemporaryFile"}
OPENERS = {"open", "fdopen"}
ALLOWED = {
    "files.py": "the place itself",
    "cli/terminal.py": "/dev/null, in place of a closed stream",
    "bench/records.py": "records of a checkout, appended under a lock",
    "bench/runner.py": "a copy of standard output",
    "compiler/cache_folder.py": "the kernel cache, which is the user's own folder and is checked there",
    "compiler/kernel_cache.py": "the kernel cache",
    "devices/cpu/rehearsal.py": "the kernel cache",
    "devices/gpu/problems.py": "a compiler's log, in the kernel cache or a temporary folder",
    "families/gpt/data.py": "tokens, in the kernel cache",
    "groups/shared_memory.py": "memory that processes share",
    "hardware/tools.py": "the log of a program, in a temporary folder",
    "report/pictures.py": "Pillow writes to memory",
    "report/plots.py": "matplotlib writes to memory",
    "runs/loop.py": "RunWriter.save",
    "runs/table.py": "a table that samebits.files opened is cut",
    "runs/writer.py": "checkpoint.save",
}


def writes(tree):
    """Calls that may write, rename or remove: (line, name)."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        owner = getattr(getattr(node.func, "value", None), "id", "")
        words = [
            word.value for word in (*node.args, *(key.value for key in node.keywords)) if isinstance(word, ast.Constant)
        ]
        modes = [
            word for word in words if isinstance(word, str) and set(word) <= set("rwaxbt+") and set(word) & set("wax+")
        ]
        moves = name in MOVERS and isinstance(node.func, ast.Attribute) and owner != "files"
        if (name in WRITERS and isinstance(node.func, ast.Attribute)) or moves or (name in OPENERS and modes):
            yield node.lineno, name


@cache
def found():
    return {
        path.relative_to(PACKAGE).as_posix(): calls
        for path in sorted(PACKAGE.rglob("*.py"))
        if (calls := list(writes(ast.parse(path.read_text(encoding="utf-8")))))
    }


def test_nobody_writes_by_another_way():
    assert {name: calls for name, calls in found().items() if name not in ALLOWED} == {}


def test_the_list_is_as_short_as_it_can_be():
    assert set(ALLOWED) - set(found()) == set()


def test_what_writes_is_seen():
    text = "open(x, 'w'); p.open(mode='ab'); p.write_text(''); image.save(b); os.rename(a, b); p.unlink(); open(x)"
    assert [name for _, name in writes(ast.parse(text))] == ["open", "open", "write_text", "save", "rename", "unlink"]
