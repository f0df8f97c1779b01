"""The command `samebits`. What it needs takes a second to load; Ctrl-C in that second ends it without a word, too."""

import io
import os
import sys


def open_streams() -> None:
    """Standard streams that can be written to: closed ones lead nowhere, for else the next file that is opened, a
    checkpoint say, would be taken for one; and what a terminal's encoding lacks is spelt out."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdin, sys.stdout, sys.stderr = (
        stream or open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115  (for the rest of the process)
        for stream, mode in ((sys.stdin, "r"), (sys.stdout, "w"), (sys.stderr, "w"))
    )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    open_streams()
    try:
        from samebits.groups.orphans import end_with_launcher

        end_with_launcher()
        from samebits.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
