"""A proxy that serves another server under a path prefix, which it removes from requests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def below(path: str, port: int) -> Iterator[str]:
    """The address at which the server of a port is then found, without a slash at its end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = listening.getsockname()[1]

        def accept() -> None:
            with suppress(OSError):  # it was closed
                while True:
                    client, _ = listening.accept()
                    threading.Thread(target=_asked, args=(client, path, port), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{here}{path}"
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


def _asked(client: socket.socket, path: str, port: int) -> None:
    """One request a connection, passed on to its end."""
    with client, suppress(OSError):
        head = b""
        while b"\r\n\r\n" not in head:
            if not (more := client.recv(1 << 16)):
                return
            head += more
        first, _, rest = head.partition(b"\r\n")
        method, asked, version = first.split(b" ")
        if not asked.startswith(path.encode() + b"/"):
            client.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        lines = [
            line for line in rest.split(b"\r\n\r\n")[0].split(b"\r\n") if not line.lower().startswith(b"connection:")
        ]
        body = head.partition(b"\r\n\r\n")[2]
        begin = b" ".join((method, asked.removeprefix(path.encode()), version))
        with socket.create_connection(("127.0.0.1", port)) as server:
            server.sendall(b"\r\n".join([begin, *lines, b"Connection: close", b"", b""]) + body)
            threading.Thread(target=_pass_on, args=(client, server), daemon=True).start()
            _pass_on(server, client)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):  # who still waits for more need not
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
