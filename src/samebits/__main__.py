"""The command `samebits`. What it needs takes a second to load; Ctrl-C in that second ends it without a word, too."""

import sys


def main() -> None:
    try:
        from samebits.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
