"""uvicorn, told to end what would never end by itself: pages that listen, and texts that are being written."""

from __future__ import annotations

import asyncio
import os
import socket
from types import FrameType

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from samebits.serve.guard import Guard

LINGER = 2  # seconds that answers may take to end
REQUEST_SECONDS = 30.0  # in which a request must arrive, body included


class TimedProtocol(H11Protocol):  # type: ignore[misc]  # its types are not looked at
    """HTTP that closes a connection whose request is not complete in time, however often a byte of it arrives.

    Half-sent requests would otherwise stay open for ever, and use up the file descriptors of the process.
    """

    deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        """Start the clock where a request is awaited and it does not run yet; stop it where the request is complete."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._forget_deadline()
        elif self.deadline is None:
            self.deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _forget_deadline(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None


class Server(uvicorn.Server):  # type: ignore[misc]  # its types are not looked at
    def __init__(self, app: Guard) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="on",
                http=TimedProtocol,
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
