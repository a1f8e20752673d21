"""The page over a store's runs on loopback, made anew at each look: `biplane serve STORE`; and the
run that is being watched now (`LIVE`).

Only for looking: GET and HEAD, files of the store and nothing beside it, no listings. A page that
somebody else's site sends a browser for under a name of its own (DNS rebinding) is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from checkers.history import HistoryError
from harness.runs import live_page
from harness.runs.index import refresh
from harness.runs.page import PAGE_FILE, render

LOOPBACK: Final = "127.0.0.1"
LIVE: Final = "/live"
"""The run that is being watched now."""
_NAMES: Final = frozenset({"localhost"})


class _Handler(SimpleHTTPRequestHandler):
    """Files of one store. ``directory`` is given by `server`."""

    server_version = "biplane"
    sys_version = ""

    def send_head(self) -> Any:
        if not is_local(self.headers.get("Host", "")):
            self.send_error(HTTPStatus.FORBIDDEN, "Only by a name of this machine's loopback")
            return None
        asked = self.path.split("?")[0].split("#")[0]
        if asked in ("/", f"/{PAGE_FILE}"):
            return self._made(lambda store: render(store, refresh(store, write=False).rows))
        if asked == LIVE:
            return self._made(live_page.render)
        place = Path(self.translate_path(self.path))
        if not place.is_file() or not inside(place, Path(self.directory)):
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def _made(self, make: Callable[[Path], str]) -> Any:
        import io

        try:
            page = make(Path(self.directory))
        except (HistoryError, OSError) as error:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=str(error))
            return None
        body = page.encode("utf-8", "xmlcharrefreplace")
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return io.BytesIO(body)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


def server(store: Path, port: int) -> ThreadingHTTPServer:
    """Bound, not serving yet. ``port`` 0: a free one. Raises `HistoryError` and OSError."""
    if not store.is_dir():
        raise HistoryError(f"{store}: no such folder; allowed: a store, such as --store names")
    handler = partial(_Handler, directory=str(store.resolve()))
    return ThreadingHTTPServer((LOOPBACK, port), handler)


def is_local(host: str) -> bool:
    """Whether a Host header names this machine by its loopback."""
    name = host.rsplit(":", 1)[0] if host.count(":") == 1 or "]" in host else host
    name = name.strip("[]").lower()
    try:
        return name in _NAMES or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def inside(place: Path, store: Path) -> bool:
    """Whether it lies in the store, wherever links lead."""
    return place.resolve().is_relative_to(store.resolve())
