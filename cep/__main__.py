"""The entry point of the command `cep` and of `python -m cep`. Ctrl-C ends the command without a traceback, even during
start-up."""

from __future__ import annotations

import gc
import sys

from cep.core.signals import stops

stops.begin()
gc.set_threshold(250_000)  # most objects that are created at the start live as long as the process


def main() -> None:
    """Run the command. The exit status is 130 after Ctrl-C, and 143 after SIGTERM."""
    try:
        from cep.command import main as command

        command()
    except SystemExit as ended:
        stops.status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
    except KeyboardInterrupt:
        stops.status = stops.code
        sys.exit(stops.code)


if __name__ == "__main__":
    main()
