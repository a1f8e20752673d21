"""Looking at a store on loopback: what is in it, as it is now, and nothing beside it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkers.history import HistoryError
from harness.runs.serve import server
from tests.harness.runs.conftest import a_run


@pytest.fixture
def get(store: Path) -> Iterator[Any]:
    looking = server(store, 0)
    thread = threading.Thread(target=looking.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()

    def get(path: str, host: str | None = None, method: str = "GET") -> tuple[int, str]:
        client = http.client.HTTPConnection(*looking.server_address[:2], timeout=30)
        client.putrequest(method, path, skip_host=host is not None)
        if host is not None:
            client.putheader("Host", host)
        client.endheaders()
        answer = client.getresponse()
        text = answer.read().decode("utf-8", "replace")
        client.close()
        return answer.status, text

    yield get
    looking.shutdown()
    thread.join()
    looking.server_close()


def test_the_page_is_of_now(store: Path, get: Any) -> None:
    a_run(store, 1)
    assert "<h1>1 run</h1>" in get("/")[1]
    a_run(store, 2)
    assert "<h1>2 runs</h1>" in get("/index.html")[1]
    assert not (store / "runs.parquet").exists(), "looking writes no table"


def test_a_run_that_is_watched_is_shown(store: Path, get: Any) -> None:
    assert "nothing was watched yet" in get("/live")[1]
    run = a_run(store, 1)
    lines = [
        {"what": "began", "t": 1, "cpu_s": 6.0},
        {"what": "finding", "promise": "fencing", "rule": "stale", "arm": "a", "trial": 0, "t": 1,
         "says": "node 1 <obeyed>", "lag_ms": 2400},
        {"what": "figures", "t": 2, "looks": 3, "took_s": 0.2, "cpu_s": 7.0, "rows": 10,
         "arms": {"a": {"control": {"count": 5, "p50_ms": 1.0, "p99_ms": 8.0, "max_ms": 9.0}}}},
    ]  # fmt: skip
    written = "".join(json.dumps(line) + "\n" for line in lines)
    (run / "live.jsonl").write_text(written + '{"what": "fin')  # being written
    status, page = get("/live")
    assert status == 200
    for part in (
        "1 rule broken",
        "node 1 &lt;obeyed&gt;",
        "2.4",
        "It goes on.",
        'data-again-ms="2000"',
    ):
        assert part in page
    ended = {"what": "ended", "looks": 3, "cpu_s": 7.0, "left_out": {}}
    (run / "live.jsonl").write_text(written + json.dumps(ended) + "\n")
    assert "Nobody is watching now." in get("/live")[1]
    assert get("/live", host="evil.example")[0] == 400


def test_files_of_the_store_are_there(store: Path, get: Any) -> None:
    run = a_run(store, 1)
    status, text = get(f"/request-flood/{run.name}/report.html")
    assert (status, "a report" in text) == (200, True)


@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/%2e%2e/secret",
        "/request-flood/../../secret",
        "//secret",
        "/link",
        "/folder/",
        "/folder/secret",
        "/request-flood/",
        "/request-flood",
        "/nothing",
    ],
)
def test_nothing_beside_it_is(store: Path, get: Any, path: str) -> None:
    a_run(store, 1)
    secret = store.parent / "secret"
    secret.write_text("a secret")
    (store / "link").symlink_to(secret)
    (store / "folder").symlink_to(store.parent)
    status, text = get(path)
    assert status == 404
    assert "a secret" not in text
    assert "Directory listing" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_it_is_for_looking(get: Any, method: str) -> None:
    assert get("/", method=method)[0] == 405
    assert get("/index.html", method=method)[0] == 405
    assert get("/report.html", method=method)[0] == 405


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("127.0.0.1", 200), ("127.0.0.1:80", 200), ("localhost:8291", 200),
        ("", 400), ("127.0.0.1.example", 400), ("10.0.0.1:80", 400), ("localhost.e", 400),
        ("evil.example:8291", 400),
    ],
)  # fmt: skip
def test_a_strangers_name_is_refused(store: Path, get: Any, host: str, answer: int) -> None:
    a_run(store, 1)
    assert get("/", host=host)[0] == answer


def test_what_cannot_be_served_is_said(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no such folder"):
        server(tmp_path / "nowhere", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        server(tmp_path, taken.getsockname()[1])
