"""A server on this machine that must not be contacted."""

from __future__ import annotations

import socket
import threading


class Listener:
    """An endpoint elsewhere; it hangs up on all who come, and counts them."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self.come = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                one, _ = self._socket.accept()
            except OSError:
                return
            self.come += 1
            one.close()

    def close(self) -> None:
        self._socket.close()
