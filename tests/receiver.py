"""A receiver of alerts for tests: `python -m tests.receiver PORT FILE SEED`.

It records each request body. Usually it answers with success; sometimes with an error, or not at all.
"""

from __future__ import annotations

import os
import random
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any


def receiver(port: int, file: Path, chance: random.Random, well: float = 0.5) -> HTTPServer:
    """What it is sent is a line of the file each: path, idempotency key, content type, body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            kind, key = self.headers["Content-Type"], self.headers.get("Idempotency-Key", "-")
            mood = chance.random()
            if mood < (1 + well) / 2:  # taken; in the second case the sender does not learn of it
                with file.open("a", encoding="utf-8") as out:
                    out.write(f"{self.path}\t{key}\t{kind}\t{body}\n")
                    out.flush()
                    os.fsync(out.fileno())
            if mood < well:
                self.send_response(204)
                self.end_headers()
            elif mood > (3 + well) / 4:
                self.send_error(503)
            else:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """In silence."""

    return HTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    server = receiver(int(sys.argv[1]), Path(sys.argv[2]), random.Random(sys.argv[3]), well=0.8)
    print("listens", flush=True)
    server.serve_forever()
