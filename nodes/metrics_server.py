"""Metrics over HTTP, for people and for Prometheus.

    /metrics   Prometheus' text format
    /mbeans    one JSON object: MBean name -> attribute -> value, as JMX would show it; NaN is null.
               ?name=<part> leaves only the MBeans whose name contains it

Every broker serves them, by default on loopback at a port that the system chooses, so that any
number of brokers fit on one machine. Where: a line of the log, and the file ``metrics.url`` in the
first log directory that works, which is there as long as the server is.

Exported names are sanitised as the JMX exporter does by default:
``kafka_controller_kafkacontroller_activecontrollercount``, other key properties become labels.
"""

from __future__ import annotations

import json
import logging
import math
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Final
from urllib.parse import parse_qs, urlsplit

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from nodes.metrics import TICK_NS, Metrics

log = logging.getLogger("kafka.metrics")

URL_FILE: Final = "metrics.url"
_READ_TIMEOUT_S: Final = 30.0
_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9_]")
_PROPERTY: Final = re.compile(r'(?P<key>[^=,]+)=(?:"(?P<quoted>(?:\\.|[^"\\])*)"|(?P<plain>[^,]*))')
_ESCAPE: Final = re.compile(r"\\(.)")


def sanitise(mbean: str, attribute: str = "Value") -> tuple[str, dict[str, str]]:
    """The exported name and labels of an MBean's attribute."""
    domain, _, rest = mbean.partition(":")
    properties = {
        found["key"]: found["plain"] or _ESCAPE.sub(r"\1", found["quoted"] or "")
        for found in _PROPERTY.finditer(rest)
    }
    parts = [domain, properties.pop("type", ""), properties.pop("name", "")]
    if attribute != "Value":
        parts.append(attribute)
    name = _UNSAFE.sub("_", "_".join(part for part in parts if part)).lower()
    return name, {_UNSAFE.sub("_", key): value for key, value in properties.items()}


class _Export:
    """Reads the registry once per scrape."""

    def __init__(self, registry: Metrics) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for mbean, attribute, value in self._registry.read():
            name, labels = sanitise(mbean, attribute)
            counts = attribute == "Count"
            family = families.get(name)
            if family is None:
                kind = "counter" if counts else "gauge"
                family = families[name] = Metric(name, mbean, kind)
            # MBeans of one name may differ in their key properties: one family all the same.
            family.add_sample(f"{name}_total" if counts else name, labels, value)
        yield from families.values()


def mbeans_page(registry: Metrics, part: str = "") -> bytes:
    """The JSON page. Finite numbers only: what is NaN in JMX is null here."""
    page = {
        mbean: {
            attribute: value if math.isfinite(value) else None
            for attribute, value in attributes.items()
        }
        for mbean, attributes in sorted(registry.by_mbean().items())
        if part in mbean
    }
    return json.dumps(page, indent=1).encode() + b"\n"


class _Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    block_on_close = False
    timeout = TICK_NS / 1e9

    def server_bind(self) -> None:
        # Without HTTPServer's look-up of the host's name, which may take as long as a DNS server.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("a reader of metrics went away", exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


class MetricsServer:
    """Serves until closed; on loopback, unless ``biplane.metrics.host`` says else. Its thread also
    keeps the one-minute rates moving. OSError when the address is taken."""

    def __init__(
        self,
        registry: Metrics,
        port: int,
        host: str = "127.0.0.1",
        *,
        url_file: Path | None = None,
    ) -> None:
        collectors = CollectorRegistry(auto_describe=False)
        collectors.register(_Export(registry))

        class Handler(BaseHTTPRequestHandler):
            timeout = _READ_TIMEOUT_S

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                if url.path in ("/", "/metrics"):
                    self._send(CONTENT_TYPE_LATEST, generate_latest(collectors))
                elif url.path == "/mbeans":
                    part = parse_qs(url.query).get("name", [""])[0]
                    self._send("application/json", mbeans_page(registry, part))
                else:
                    self.send_error(HTTPStatus.NOT_FOUND, "there are /metrics and /mbeans")

            def _send(self, content_type: str, page: bytes) -> None:
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, format: str, *args: object) -> None:
                log.debug(format, *args)

        self._registry = registry
        self._server = (_Server6 if ":" in host else _Server)((host, port), Handler)
        self.port: int = self._server.server_port
        self._host = host
        self._stopping = False
        self._url_file = url_file
        at = f"[{host}]" if ":" in host else host
        self.url = f"http://{at}:{self.port}"
        if url_file is not None:
            url_file.write_text(f"{self.url}\n", encoding="utf-8")
        log.info("Metrics at %s/metrics (Prometheus) and %s/mbeans (JSON)", self.url, self.url)
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping = True
        # The thread waits for a connection, for a few seconds at most; this is one.
        with suppress(OSError), socket.create_connection((self._host, self.port), 1):
            pass
        self._thread.join(TICK_NS / 1e9 + 1)
        self._server.server_close()
        if self._url_file is not None:
            self._url_file.unlink(missing_ok=True)

    def _serve(self) -> None:
        while not self._stopping:
            self._server.handle_request()
            self._registry.tick()
