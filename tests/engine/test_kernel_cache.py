"""Machine code on disk: what several processes write at once must not be mixed up."""

import threading

from samebits.engine.kernel_cache import CacheFile


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
