"""uvicorn, told to end what would never end by itself: pages that listen, and texts that are being written."""

from __future__ import annotations

import os
import socket
from types import FrameType

import uvicorn

from samebits.serve.guard import Guard

LINGER = 2  # seconds that answers may take to end


class Server(uvicorn.Server):  # type: ignore[misc]  # its types are not looked at
    def __init__(self, app: Guard) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="on",
                timeout_graceful_shutdown=LINGER,
            )
        )
        self.served = app.served

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ctrl-C or a signal: the first one ends what is being answered; the second ends the process at once, whatever
        its threads are waiting for."""
        if self.should_exit:
            os._exit(128 + sig)
        self.served.end()
        super().handle_exit(sig, frame)

    def end(self) -> None:
        """The same from another thread."""
        self.served.end()
        self.should_exit = True

    def serve_on(self, listening: socket.socket) -> None:
        """Answer until somebody ends it."""
        self.run(sockets=[listening])
