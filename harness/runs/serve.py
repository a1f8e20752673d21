"""The page over a store's runs on loopback, made anew at each look: `biplane serve STORE`; and the
run that is being watched now (`LIVE`).

Only for looking: GET and HEAD, files of the store and nothing beside it, no listings. A page that
somebody else's site sends a browser for under a name of its own (DNS rebinding) is refused.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flask import Flask, Response, abort, send_from_directory
from werkzeug.serving import WSGIRequestHandler, make_server

from checkers.history import HistoryError
from harness.runs import live_page
from harness.runs.index import refresh
from harness.runs.page import PAGE_FILE, render

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

LOOPBACK: Final = "127.0.0.1"
LIVE: Final = "/live"
"""The run that is being watched now."""
_NAMES: Final = [LOOPBACK, "localhost"]


class _Quiet(WSGIRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nobody reads it."""


def application(store: Path) -> Flask:
    """``store`` exists."""
    app = Flask("biplane", static_folder=None)
    app.config["TRUSTED_HOSTS"] = _NAMES
    store = store.resolve()

    @app.get("/")
    @app.get(f"/{PAGE_FILE}")
    def runs() -> str:
        return render(store, refresh(store, write=False).rows)

    @app.get(LIVE)
    def live() -> str:
        return live_page.render(store)

    @app.get("/<path:path>")
    def file(path: str) -> Response:
        if not inside(store / path, store):
            abort(404)
        return send_from_directory(store, path)

    @app.errorhandler(HistoryError)
    @app.errorhandler(OSError)
    def fails(error: Exception) -> Response:
        return Response(f"{error}\n", 500, mimetype="text/plain")

    @app.after_request
    def never_old(answer: Response) -> Response:
        answer.headers["Cache-Control"] = "no-cache"
        answer.headers["X-Content-Type-Options"] = "nosniff"
        return answer

    return app


def server(store: Path, port: int) -> BaseWSGIServer:
    """Bound, not serving yet. ``port`` 0: a free one. Raises `HistoryError` and OSError."""
    if not store.is_dir():
        raise HistoryError(f"{store}: no such folder; allowed: a store, such as --store names")
    app = application(store)
    with socket.create_server((LOOPBACK, port)) as bound:  # werkzeug would end the program
        return make_server(
            LOOPBACK, port, app, threaded=True, request_handler=_Quiet, fd=bound.fileno()
        )


def inside(place: Path, store: Path) -> bool:
    """Whether it lies in the store, wherever links lead."""
    return place.resolve().is_relative_to(store)
