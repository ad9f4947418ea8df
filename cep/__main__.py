"""Where the command `cep` begins, and `python -m cep`: Ctrl-C ends it in silence, also while it is still loading."""

from __future__ import annotations

import sys


def main() -> None:
    """The command; the exit status is 130 after Ctrl-C."""
    try:
        from cep.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
