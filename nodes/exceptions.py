"""Exceptions that the broker's own code meets, into the trace.

A broker survives most of what its code trips over: a handler answers UNKNOWN_SERVER_ERROR, a
background thread tries again. All that is left of it is a line in the log, which an operator reads
and a client does not. So whatever is logged with an exception (as ``exc_info``, or as an argument
of the line) is told as evidence as well, and so is what ends a thread: once for each type and place
in a boot, for what fails is tried for ever.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from nodes.trace import Trace

log = logging.getLogger("org.apache.kafka.common.utils.KafkaThread")

KIND: Final = "exception"
_LONGEST: Final = 200
"""Characters of what an exception says."""


class _Telling(logging.Handler):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace
        self._told: set[tuple[str, str]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "kafka.server.Trace":  # it tells of its own losses
            return
        named = record.args if isinstance(record.args, tuple) else ()
        for one in (*(record.exc_info or ()), *named):
            if isinstance(one, BaseException):
                self._tell(record.name, one)

    def _tell(self, logger: str, error: BaseException) -> None:
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        place = _place(error.__traceback__)
        if (kind, place) not in self._told:
            self._told.add((kind, place))
            says = str(error)[:_LONGEST]
            self._trace.event(KIND, error=kind, place=place, says=says, logger=logger)


def _place(traceback: TracebackType | None) -> str:
    """Where it was raised, as ``config_changes.py:118 _process``; "" of one that never was."""
    place = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        place = f"{Path(code.co_filename).name}:{traceback.tb_lineno} {code.co_name}"
        traceback = traceback.tb_next
    return place


def tell_exceptions(trace: Trace) -> Callable[[], None]:
    """Tell of them from now on, of this whole process; returns what ends it."""
    telling, before = _Telling(trace), threading.excepthook

    def ended(thread: threading.ExceptHookArgs) -> None:
        name = thread.thread.name if thread.thread else "?"
        if thread.exc_value is not None and not isinstance(thread.exc_value, SystemExit):
            log.error("Uncaught exception in thread '%s':", name, exc_info=thread.exc_value)

    def undo() -> None:
        logging.getLogger().removeHandler(telling)
        threading.excepthook = before

    logging.getLogger().addHandler(telling)
    threading.excepthook = ended
    return undo
