"""What a client sees of each fault, in both runtimes: a table, made by looking.

``python -m harness.studies.client_view --write docs/docker.md`` starts a cluster a runtime, plays
every fault against the one broker that leads a partition, and notes what a plain socket sees:

- on a connection that was *open* before the fault, when it produces (acks=1) during it;
- on a *new* connection during it;
- on the open one again, *after* the fault was healed, if it still stood.

By two ways: past the proxy (the listener's own address) and through it. A connection is faithful
when a reset reads as a reset and a refusal as a refusal, whatever lies in between.
"""

from __future__ import annotations

import argparse
import random
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from faults.protocol import Entry, FaultFailed, Link
from faults.registry import FAULTS, build
from harness.cluster.ask import error_name
from harness.cluster.cluster import Cluster
from harness.interrupts import in_order
from harness.runtime.protocol import SetupError
from harness.runtime.select import get_runtime
from harness.sut.registry import get as get_sut
from harness.workload.produce_frames import VERSION, ProduceFrames
from nodes.wire.apis import ApiKey
from nodes.wire.codec import decode_response

RUNTIMES: Final = ("process", "docker")
BEGIN: Final = "<!-- client view: made by `python -m harness.studies.client_view`, not by hand -->"
END: Final = "<!-- end of client view -->"
TOPIC: Final = "seen"
NODE: Final = 1
_DISK_BYTES: Final = 96 << 20
_SEGMENT_BYTES: Final = 1 << 20
_VALUE_BYTES: Final = 64 * 1024
_SESSION_MS: Final = 4_000
_PATIENCE_S: Final = 1.5
LACKS: Final = "(lacks it)"

_LINKED: Final[Mapping[str, Any]] = {"target": str(NODE), "link": "client"}
SHOWN: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "none": ("", {}),
    "kill (-9)": ("kill", {"target": str(NODE)}),
    "stop (controlled)": ("stop", {"target": str(NODE)}),
    "pause": ("pause", {"target": str(NODE)}),
    "link-down": ("link-down", _LINKED),
    "toxic timeout": ("toxic", {**_LINKED, "kind": "timeout"}),
    "toxic reset_peer": ("toxic", {**_LINKED, "kind": "reset_peer"}),
    "disconnect": ("disconnect", {"target": str(NODE)}),
    "packet-cut": ("packet-cut", {"target": str(NODE)}),
    "cpu-limit": ("cpu-limit", {"target": str(NODE), "cpus": 0.01}),
    "memory-limit": ("memory-limit", {"target": str(NODE)}),
    "disk-full": ("disk-full", {"target": str(NODE)}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Words for what happened: acknowledged, a Kafka error, silence, closed, reset, refused..."""

    open: str
    new: str
    healed: str


class Client:
    """Produces single records over one plain connection. Not thread-safe."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._frames = ProduceFrames(
            TOPIC, 0, acks=1, timeout_ms=1000, value_bytes=_VALUE_BYTES, client_id="client-view"
        )
        self._socket: socket.socket | None = None
        self._value = 0

    def connect(self) -> str:
        """Empty when it stands, else the word for why not."""
        try:
            self._socket = socket.create_connection(self._address, _PATIENCE_S)
        except OSError as e:
            return _word(e, connecting=True)
        return ""

    def produce(self) -> str:
        if self._socket is None:
            return "closed"
        self._value += 1
        try:
            self._socket.settimeout(_PATIENCE_S)
            self._socket.sendall(self._frames.frame(self._value, int(time.time() * 1000)))
            size = int.from_bytes(self._receive(4), "big")
            _, answer = decode_response(ApiKey.PRODUCE, VERSION, self._receive(size))
        except OSError as e:
            return self._gone(_word(e, connecting=False))
        except EOFError:
            return self._gone("closed")
        code = int(answer.responses[0].partition_responses[0].error_code)
        return error_name(code) if code else "acknowledged"

    def close(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()

    def _gone(self, word: str) -> str:
        if word != "silence":
            self.close()
            self._socket = None
        return word

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data


def look(runtime_name: str, folder: Path, names: Sequence[str]) -> dict[tuple[str, str], Seen]:
    """(fault, way) -> what was seen, on one cluster of that runtime."""
    cluster = Cluster(
        get_runtime(runtime_name),
        get_sut("dualplane"),
        "dual",
        dir=folder / runtime_name,
        record=_unrecorded,
        rng=random.Random(1),
        session_timeout_ms=_SESSION_MS,
        disk_bytes=_DISK_BYTES,
    )
    found: dict[tuple[str, str], Seen] = {}
    with cluster:
        cluster.admin.create_topic(TOPIC, {0: [NODE]}, {"segment.bytes": str(_SEGMENT_BYTES)})
        for name in names:
            print(f"{runtime_name}: {name}", file=sys.stderr, flush=True)
            for way, seen in _look_at(cluster, folder, name).items():
                found[name, way] = seen
    return found


def _unrecorded(_kind: str, /, **_fields: Any) -> None:
    """Nothing is judged here."""


def _look_at(cluster: Cluster, folder: Path, name: str) -> dict[str, Seen]:
    fault_name, params = SHOWN[name]
    ways = {"direct": True, "proxy": False}
    if fault_name and FAULTS[fault_name].needs - cluster.capabilities:
        lacking = Seen(open=LACKS, new=LACKS, healed=LACKS)
        return dict.fromkeys(ways, lacking)
    clients = {
        way: Client(cluster.address(NODE, Link.CLIENT, direct=direct))
        for way, direct in ways.items()
    }
    for way, client in clients.items():
        refused = client.connect() or _settled(client)
        if refused:
            raise FaultFailed(f"before {name}: {way}: {refused}")
    entry = Entry(id=name, fault=fault_name, at_ms=0, duration_ms=0, params=params)
    fault = build(entry) if fault_name else None
    context = cluster.context(
        store=folder / "faults", stopping=threading.Event().is_set, rng=random.Random(1)
    )
    opened, new = {}, {}
    try:
        if fault is not None:
            fault.inject(context)
        for way, client in clients.items():
            opened[way] = _insist(client) if fault_name == "disk-full" else client.produce()
            fresh = Client(cluster.address(NODE, Link.CLIENT, direct=ways[way]))
            new[way] = fresh.connect() or fresh.produce()
            fresh.close()
    finally:
        if fault is not None:
            fault.heal(context)
    if not cluster.wait_full_isr([TOPIC], 30.0):
        raise FaultFailed(f"after {name}: node {NODE} did not come back")
    seen = {}
    for way, client in clients.items():
        after = _after(client) if opened[way] in ("silence", "acknowledged") else "-"
        seen[way] = Seen(open=opened[way], new=new[way], healed=after)
        client.close()
    return seen


def _insist(client: Client) -> str:
    """A full disk is met when the space that the segment has reserved is used up."""
    for _ in range(2 * _SEGMENT_BYTES // _VALUE_BYTES):
        word = client.produce()
        if word != "acknowledged":
            break
    return word


def _settled(client: Client) -> str:
    """Empty once produces are acknowledged (a broker that came back may not lead yet)."""
    for _ in range(50):
        word = client.produce()
        if word == "acknowledged":
            return ""
        if word in ("closed", "reset"):
            return word
        time.sleep(0.1)
    return word


def _after(client: Client) -> str:
    """What became of a connection that stood: the answer that was owed, or its end."""
    words = [client.produce() for _ in range(3)]
    return next((word for word in reversed(words) if word != "silence"), "silence")


def _word(error: OSError, *, connecting: bool) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "reset"
    if isinstance(error, TimeoutError):
        return "no connection" if connecting else "silence"
    return (error.strerror or str(error)).lower()


def table(found: Mapping[str, Mapping[tuple[str, str], Seen]]) -> list[str]:
    """Markdown; a cell names the runtimes only where they differ."""
    lines = ["| fault | way | open connection | new connection | open one, after healing |"]
    lines += ["|---|---|---|---|---|"]
    for name in SHOWN:
        for way in ("direct", "proxy"):
            seen = [found[runtime].get((name, way)) for runtime in found]
            if any(seen):
                cells = [
                    _cell({r: getattr(s, field, None) for r, s in zip(found, seen, strict=True)})
                    for field in ("open", "new", "healed")
                ]
                can = [r for r, s in zip(found, seen, strict=True) if s and s.open != LACKS]
                only = "" if len(can) == len(found) else f" ({', '.join(can)} only)"
                lines.append(f"| {name}{only} | {way} | " + " | ".join(cells) + " |")
    return lines


def _cell(words: Mapping[str, str | None]) -> str:
    known = {runtime: word for runtime, word in words.items() if word and word != LACKS}
    if len(set(known.values())) == 1:
        return next(iter(known.values()))
    return "; ".join(f"{runtime}: {word}" for runtime, word in known.items())


def read_table(text: str, runtimes: Sequence[str] = RUNTIMES) -> dict[tuple[str, str, str], Seen]:
    """What `table` wrote: (fault, way, runtime) -> what was seen."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = re.sub(r" \([a-z]+ only\)$", "", cells[0])
        if len(cells) != 5 or name not in SHOWN:
            continue
        for runtime in runtimes:
            words = [_word_of(cell, runtime) for cell in cells[2:]]
            found[name, cells[1], runtime] = Seen(open=words[0], new=words[1], healed=words[2])
    return found


def _word_of(cell: str, runtime: str) -> str:
    """One runtime's word in what `_cell` made."""
    said = re.search(rf"(?:^|; ){runtime}: ([^;]*)", cell)
    return said[1] if said else cell


def write_into(page: Path, lines: Sequence[str]) -> None:
    """Replace what stands between the markers of ``page``."""
    text = page.read_text()
    if BEGIN not in text or END not in text:
        raise SetupError(f"{page} has no markers; put these lines into it: {BEGIN} {END}")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description="What a client sees of each fault.")
    parser.add_argument("faults", nargs="*", help=f"default: all of {', '.join(SHOWN)}")
    parser.add_argument("--runtimes", default=",".join(RUNTIMES))
    parser.add_argument("--write", type=Path, default=None, help="a page with markers")
    given = parser.parse_args()
    names = given.faults or list(SHOWN)
    if strange := [name for name in names if name not in SHOWN]:
        parser.error(f"{strange[0]!r}; allowed: {', '.join(SHOWN)}")
    if given.write is not None and not given.write.is_file():
        parser.error(f"--write {given.write}: no such page; allowed: one with markers")
    found = {}
    try:
        with tempfile.TemporaryDirectory(prefix="biplane-view-") as scratch:
            folder = Path(scratch)
            folder.chmod(0o755)
            for runtime in given.runtimes.split(","):
                found[runtime] = look(runtime, folder, names)
        lines = table(found)
        print("\n".join(lines))
        if given.write is not None:
            write_into(given.write, lines)
    except SetupError as e:
        print(f"client view: {e}", file=sys.stderr)
        return 254
    return 0


if __name__ == "__main__":
    sys.exit(in_order(main))
