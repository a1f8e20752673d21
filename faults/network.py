"""Network faults, made with toxiproxy on chosen links of chosen brokers.

``toxic``: one toxic (latency, bandwidth, slow_close, timeout, reset_peer, slicer, limit_data).
``link-down``: the proxy refuses connections and drops those it has.
``isolate``: all named links of a broker down. Proxies stand before listeners, so this cuts what
comes *to* the broker (and its own way to ZooKeeper); what it dials itself goes through the peers'
proxies and lives on: an asymmetric partition, which is what KIP-291's planes make interesting.

Where the effect can be seen from outside it is looked at with one ApiVersions exchange through the
proxy before and after; toxics that act only on volume (bandwidth, slicer) or on closing
(slow_close) leave ``took_hold`` null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.probe import Probe, probe
from faults.protocol import Capability, Context, Entry, Link
from faults.targets import aim, read_targets

_LINKS: Final = tuple(str(link) for link in Link)
_PROBE_S: Final = 2.0
_SEEN_MS: Final = 5_000

TOXICS: Final[Mapping[str, Mapping[str, int]]] = {
    # kind -> its attributes with toxiproxy's defaults (ms, KB/s, bytes, us)
    "latency": {"latency": 0, "jitter": 0},
    "bandwidth": {"rate": 0},
    "slow_close": {"delay": 0},
    "timeout": {"timeout": 0},
    "reset_peer": {"timeout": 0},
    "slicer": {"average_size": 0, "size_variation": 0, "delay": 0},
    "limit_data": {"bytes": 0},
}


class _OnLinks(BaseFault):
    """Parameters: target; link: one or several of client, inter-broker, control, zookeeper."""

    needs = frozenset({Capability.LINKS})
    default_links: tuple[str, ...] = ()

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        chosen = params.choices("link", _LINKS, list(self.default_links) or "client")
        self.links = [Link(name) for name in chosen]
        self.read(params)
        params.done()
        self._placed: list[tuple[int, Link]] = []

    def read(self, params: Params) -> None:
        """A fault's own parameters."""

    def place(self, ctx: Context, node: int, link: Link) -> None:
        raise NotImplementedError

    def lift(self, ctx: Context, node: int, link: Link) -> None:
        raise NotImplementedError

    def effect(self) -> Callable[[Probe, Probe], bool] | None:
        """Whether (before, after) show it; None when one exchange cannot show it."""
        return None

    def apply(self, ctx: Context) -> None:
        self.nodes = aim(ctx, self.targets)
        self.detail |= {"targets": self.targets, "links": [str(link) for link in self.links]}
        shown = self.effect()
        before: dict[tuple[int, Link], Probe] = {}
        places = self._places(ctx)
        if shown is not None:
            before = {place: _look(ctx, *place) for place in places}
        for place in places:
            self._placed.append(place)
            self.place(ctx, *place)
        if shown is None:
            return
        probes: dict[str, Any] = {}
        for node, link in places:
            if before[node, link].failure is not None:
                continue  # it was broken already, by another fault: nothing can be seen here
            seen: list[Probe] = []

            def visible(node: int = node, link: Link = link, seen: list[Probe] = seen) -> bool:
                seen.append(_look(ctx, node, link))
                return shown(before[node, link], seen[-1])

            wait_for(
                ctx,
                visible,
                timeout_ms=_SEEN_MS,
                what=f"{self.name} {self.id} can be seen on the {link} link of broker {node}",
            )
            probes[f"{node}:{link}"] = {
                "before_ns": before[node, link].took_ns,
                "after_ns": seen[-1].took_ns,
                "failure": seen[-1].failure,
            }
        self.detail["probes"] = probes
        self.took_hold = True if probes else None

    def _places(self, ctx: Context) -> list[tuple[int, Link]]:
        """Each proxy once: without a control listener the control link is the inter-broker one."""
        places: list[tuple[int, Link]] = []
        for node in self.nodes:
            known = set()
            for link in self.links:
                address = ctx.links.address(node, link)
                if address not in known:
                    known.add(address)
                    places.append((node, link))
        return places

    def undo(self, ctx: Context) -> None:
        while self._placed:
            self.lift(ctx, *self._placed[-1])
            self._placed.pop()


def _look(ctx: Context, node: int, link: Link) -> Probe:
    return probe(
        ctx.links.address(node, link), timeout_s=_PROBE_S, zookeeper=link is Link.ZOOKEEPER
    )


class Toxic(_OnLinks):
    """Parameters beyond target and link: kind; attributes (toxiproxy's); stream ("downstream",
    "upstream"); toxicity (0..1, the share of connections)."""

    name = "toxic"

    def read(self, params: Params) -> None:
        self.kind = params.choice("kind", TOXICS)
        self.stream = params.choice("stream", ("downstream", "upstream"), "downstream")
        self.toxicity = params.number("toxicity", 1.0, low=0.0, high=1.0)
        self.attributes = params.table("attributes", {})
        for name, value in self.attributes.items():
            if name not in TOXICS[self.kind] or value < 0:
                raise params.error(
                    "attributes",
                    f"{name}={value} is not allowed for {self.kind}; allowed (not negative): "
                    f"{', '.join(TOXICS[self.kind])}",
                )

    @property
    def toxic_name(self) -> str:
        return f"{self.id}-{self.kind}-{self.stream}"

    def place(self, ctx: Context, node: int, link: Link) -> None:
        ctx.links.add_toxic(
            node,
            link,
            name=self.toxic_name,
            kind=self.kind,
            stream=self.stream,
            toxicity=self.toxicity,
            attributes=dict(TOXICS[self.kind]) | self.attributes,
        )

    def lift(self, ctx: Context, node: int, link: Link) -> None:
        ctx.links.remove_toxic(node, link, name=self.toxic_name)

    def effect(self) -> Callable[[Probe, Probe], bool] | None:
        if self.toxicity < 1.0:
            return None
        if self.kind == "latency":
            least_ms = self.attributes.get("latency", 0) - self.attributes.get("jitter", 0)
            if least_ms <= 0:
                return None
            # A timed-out exchange is slow enough, too.
            return lambda _before, after: after.took_ns >= min(least_ms / 1000, _PROBE_S) * 1e9
        if self.kind in ("timeout", "reset_peer"):
            return lambda _before, after: after.failure is not None
        if self.kind == "limit_data":
            limit = self.attributes.get("bytes", 0)
            return lambda before, after: after.failure is not None or before.answer_bytes <= limit
        return None


class LinkDown(_OnLinks):
    """The proxy is off from inject to heal."""

    name = "link-down"

    def place(self, ctx: Context, node: int, link: Link) -> None:
        ctx.links.disable(node, link)

    def lift(self, ctx: Context, node: int, link: Link) -> None:
        ctx.links.enable(node, link)

    def effect(self) -> Callable[[Probe, Probe], bool] | None:
        return lambda _before, after: after.failure in ("refused", "reset", "closed")


class Isolate(LinkDown):
    """`link-down` for every link of the target."""

    name = "isolate"
    default_links = _LINKS
