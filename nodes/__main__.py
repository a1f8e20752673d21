"""``python -m nodes server.properties``: one broker, until SIGTERM or SIGINT.

Log lines go to stdout in Kafka's form. Exit status: 0 after a shutdown, 1 when the configuration is
refused or the start fails; the reason is one line on stderr. Linux only: edge-triggered epoll,
eventfd, posix_fallocate, and cores and priorities of single threads.
"""

from __future__ import annotations

import contextlib
import logging
import resource
import signal
import sys
import threading
from types import FrameType
from typing import Final

from nodes.config import LOG_LEVELS, BrokerConfig, ConfigError

_FORMAT: Final = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"

log = logging.getLogger("kafka.Kafka")


class _Interrupted(BaseException):
    """A signal that came before the broker was up."""


class _Signals:
    """SIGTERM and SIGINT: `interruptible` raises in the main thread; later they only set `stop`."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.interruptible = True
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        log.info("Terminating process due to signal %s", signal.Signals(number).name)
        self.stop.set()
        if self.interruptible:
            self.interruptible = False
            raise _Interrupted


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("USAGE: python -m nodes server.properties", file=sys.stderr)
        return 1
    if sys.platform != "linux":
        print(f"a broker runs on Linux only; this is {sys.platform}", file=sys.stderr)
        return 1
    logging.basicConfig(
        stream=sys.stdout, level=logging.INFO, format=_FORMAT, datefmt="%Y-%m-%d %H:%M:%S"
    )
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    _raise_file_limit()
    try:
        config = BrokerConfig.load(arguments[0])
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    for pair in config.biplane_log_levels:
        logger, _, level = pair.rpartition(":")
        logging.getLogger(logger).setLevel(LOG_LEVELS[level])
    for name in config.unknown:
        log.warning("The configuration '%s' was supplied but isn't a known config.", name)
    return _run(config, arguments[0])


def _raise_file_limit() -> None:
    """As many files as may be, as a JVM takes them: connections and segments need one each."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def _run(config: BrokerConfig, file: str) -> int:
    # The parts are imported once the configuration is known to be sound. kio looks for hypothesis
    # (strategies for its types), and where tests are written that is a third of what is imported.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from nodes.broker import STARTUP_ERRORS, KafkaServer

    signals = _Signals()
    server = KafkaServer(config)
    status = 0
    try:
        server.startup()
        signals.interruptible = False
        # In turns: a signal that comes just as the wait begins does not end it, and Python's
        # handler runs only when this thread does.
        while not signals.stop.wait(1.0):
            pass
    except _Interrupted:
        pass
    except ConfigError as error:
        status = 1
        print(error.in_file(file), file=sys.stderr)
    except STARTUP_ERRORS as error:
        status = 1
        print(f"{file}: broker {config.broker_id} cannot start: {error!r}", file=sys.stderr)
    except Exception:
        status = 1
        log.exception("Fatal error during KafkaServer startup. Prepare to shutdown")
    finally:
        signals.interruptible = False
        server.shutdown()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
