"""Connections that wait for no client longer than a bounded time."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS = 100
# Seconds that each phase of a request may keep the page waiting for the client: until its headers
# and its body have arrived, until it has taken the answer, and, once it has the answer, until the
# rest of a body has arrived that nobody asked for. The work of the page itself has no limit.
SECONDS = {"headers": 10.0, "body": 90.0, "answer": 60.0, "rest": 10.0}


class BoundedConnection(H11Protocol):
    """A connection that is cut off when its client keeps the page waiting, in any phase.

    uvicorn limits only the time between two requests. If all places are taken, a new connection
    gets the place of the one whose client has kept the page waiting longest, a client without
    complete headers first. Only where the page works for all of them is the new one refused.
    """

    _phase: str | None = None
    _began = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Takes a place, and starts the clock of the headers."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # writing is paused until all of it is taken
        waiting = [one for one in self.connections if one._phase is not None]
        if len(self.connections) > CONNECTIONS and waiting:
            min(waiting, key=lambda one: (one._phase != "headers", one._began))._cut_off()
        self._clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the clock."""
        super().connection_lost(exc)
        self._stop()

    def data_received(self, data: bytes) -> None:
        """Takes what a client has sent."""
        super().data_received(data)
        self._clock()

    def on_response_complete(self) -> None:
        """Goes on with the next request of the connection."""
        super().on_response_complete()
        self._clock()

    def pause_writing(self) -> None:
        """Waits for the client to take the answer."""
        super().pause_writing()
        self._clock()

    def resume_writing(self) -> None:
        """Continues after the client has taken the answer."""
        super().resume_writing()
        self._clock()

    def send_400_response(self, msg: str) -> None:
        """Refuses a malformed request, or ends the connection if an answer is under way."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _waits_for(self):
        """The phase in which the page waits for the client; `None` while the page works."""
        if self.flow.write_paused:
            return "answer"
        is_answered = self.cycle is None or self.cycle.response_complete
        if self.conn.their_state is h11.SEND_BODY:
            return "rest" if is_answered else "body"
        return "headers" if is_answered else None

    def _clock(self):
        """Starts the clock of the phase if it has just begun."""
        phase = self._waits_for()
        if phase == self._phase:
            return
        self._stop()
        self._phase, self._began = phase, self.loop.time()
        if phase is not None:
            self._timer = self.loop.call_later(SECONDS[phase], self._cut_off)

    def _stop(self):
        if self._timer is not None:
            self._timer.cancel()

    def _cut_off(self):
        """Ends the connection at once, whatever is still to be sent, and gives back its place."""
        self.connections.discard(self)
        self.transport.abort()
