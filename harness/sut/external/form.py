"""What a file about a cluster that runs already may say: its fields, what is allowed in each, and
why.

``adapters/cluster-schema.json`` is made from it (``biplane adapter schema --of=cluster``), and
``docs/adapters.md`` teaches it. Commands are lists of words, run without a shell; they may hold
placeholders, ``{{host}}``: `names_of` has them all.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from harness.runtime.protocol import Address
from harness.sut.description import FetchVersion, FinalReadAs, Name, Part, PlaneName, Scalar, Word
from harness.sut.description_file import Wrong, content_of, parse_form
from harness.sut.templates import UnknownPlaceholder, address_names, fill

_ADDRESS: Final = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d+)")
_REMOTE_CLOCKS_MS: Final = 500
Command = Annotated[list[Scalar], Field(min_length=1)]


def _address(text: str) -> str:
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 65_536:
        raise ValueError(f"{text!r}; allowed: host:port")
    return text


def _connect(text: str) -> str:
    hosts = text.partition("/")[0]
    if not hosts or any(_ADDRESS.fullmatch(one) is None for one in hosts.split(",")):
        raise ValueError(f"{text!r}; allowed: host:port,host:port/chroot, as zookeeper.connect")
    if text.endswith("/") or "//" in text:
        raise ValueError(f"{text!r}; allowed: a chroot without a slash at its end")
    return text


def _by_text(given: Any) -> Any:
    """YAML makes numbers of ids."""
    return {str(key): value for key, value in given.items()} if isinstance(given, dict) else given


def _broker_id(text: str) -> str:
    if not re.fullmatch(r"0|[1-9]\d{0,8}", text):
        raise ValueError(f"{text!r}; allowed: a broker's id, such as 1")
    return text


HostPort = Annotated[str, AfterValidator(_address)]
BrokerId = Annotated[str, AfterValidator(_broker_id)]


class Broker(Part):
    """One broker. What is not listed is not touched."""

    client: HostPort = Field(description="host:port of a PLAINTEXT listener, reached from here")
    host: Word | None = Field(
        default=None, description="The machine's name in commands (default: the client listener's)"
    )
    logs: Word | None = Field(
        default=None,
        description="Where its partition folders can be read from here; none: they cannot",
    )
    words: dict[Name, Scalar] = Field(
        default_factory=dict, description="Placeholders of its own for commands, such as its unit"
    )


class Ways(Part):
    """How a broker is handled: commands, run without a shell, ended after ``within_s``. Each is
    given for all brokers; {{node}}, {{host}} and a broker's own words make it that broker's.
    What has no command is not done, and the faults that need it are skipped by name."""

    start: Command | None = Field(
        default=None,
        description="Starts it, or waits until its supervisor has; no harm if it runs",
    )
    stop: Command | None = Field(default=None, description="Asks it to end in order")
    kill: Command | None = Field(default=None, description="Ends it without a word (SIGKILL)")
    pause: Command | None = Field(default=None, description="Halts it (SIGSTOP)")
    resume: Command | None = Field(default=None, description="Lets it go on (SIGCONT)")
    env: dict[Word, Scalar] = Field(
        default_factory=dict, description="Environment variables on top of the caller's"
    )
    within_s: Annotated[float, Field(gt=0, le=600)] = Field(
        default=60.0, description="Seconds that a command, and what it is to bring about, may take"
    )

    @model_validator(mode="after")
    def _undone(self) -> Self:
        for name, undo in (("stop", "start"), ("kill", "start"), ("pause", "resume")):
            if getattr(self, name) is not None and getattr(self, undo) is None:
                raise ValueError(f"{name!r} is allowed with {undo!r}: what is done is undone")
        return self


COMMANDS: Final = ("start", "stop", "kill", "pause", "resume")


class ClusterForm(Part):
    """A cluster that runs already: ``--sut=external:cluster.yaml`` and ``biplane probe``."""

    cluster: Literal[1] = Field(description="Version of this format: 1")
    name: Name = Field(description="What arms and reports call it")
    says: str = Field(default="", description="One line about it, for people")
    version: Scalar = Field(default="as found", description="Which release it is, for reports")
    brokers: Annotated[
        dict[BrokerId, Broker], BeforeValidator(_by_text), Field(min_length=1, max_length=99)
    ] = Field(description="All brokers of the cluster, by id")
    ways: Ways = Field(default_factory=Ways)
    zookeeper: Annotated[str, AfterValidator(_connect)] | None = Field(
        default=None,
        description="zookeeper.connect, where it has one: who is controller is read there, and "
        "nothing is written",
    )
    planes: PlaneName = Field(
        default="single",
        description="dual: its brokers have control.plane.listener.name (or it is KRaft); names "
        "the arm",
    )
    session_timeout_ms: Annotated[int, Field(ge=100, le=600_000)] | None = Field(
        default=None,
        description="After how long a silent broker is given up (default: what a broker says of "
        "zookeeper.session.timeout.ms or broker.session.timeout.ms)",
    )
    clocks_within_ms: Annotated[int, Field(ge=0, le=3_600_000)] | None = Field(
        default=None,
        description="How far its brokers' clocks may be from this machine's (default: 0 on "
        f"loopback, {_REMOTE_CLOCKS_MS} elsewhere)",
    )
    final_read_as: FinalReadAs = "replica"
    fetch_version: FetchVersion = 11

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(sorted(int(broker) for broker in self.brokers))

    def broker(self, node: int) -> Broker:
        return self.brokers[str(node)]

    def address(self, node: int) -> Address:
        """Of its client listener."""
        return to_address(self.broker(node).client)

    @property
    def zookeeper_hosts(self) -> str | None:
        return None if self.zookeeper is None else self.zookeeper.partition("/")[0]

    @property
    def chroot(self) -> str:
        """``/kafka``, or nothing."""
        _, slash, rest = (self.zookeeper or "").partition("/")
        return slash + rest

    @property
    def clock_error_ms(self) -> int:
        if self.clocks_within_ms is not None:
            return self.clocks_within_ms
        here = all(_is_loopback(self.address(node).host) for node in self.ids)
        return 0 if here else _REMOTE_CLOCKS_MS


def to_address(text: str) -> Address:
    match = _ADDRESS.fullmatch(text)
    assert match is not None, "it was checked"
    return Address(match["six"] or match["host"], int(match["port"]))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# -- placeholders ---------------------------------------------------------------------------------

_OWN: Final = ("node", "name", "host", "here", "client", "client.host", "client.port")


def values_of(form: ClusterForm, node: int, here: Path) -> dict[str, str]:
    """Every placeholder of one broker's commands. ``here``: the file's own folder."""
    broker, address = form.broker(node), form.address(node)
    return {
        **broker.words,
        "node": str(node),
        "name": form.name,
        "host": broker.host or address.host,
        "here": str(here),
        **address_names("client", address),
    }


def command_of(form: ClusterForm, name: str, node: int, here: Path) -> tuple[str, ...] | None:
    """One of `COMMANDS` for one broker; None when there is none."""
    texts = getattr(form.ways, name)
    values = values_of(form, node, here)
    return None if texts is None else tuple(fill(text, values) for text in texts)


def wrong(form: ClusterForm) -> Iterator[Wrong]:
    """(field, what is wrong) of all that one field alone does not show."""
    where: dict[str, str] = {}
    for node, broker in form.brokers.items():
        for word in broker.words:
            if word in _OWN:
                yield ("brokers", node, "words", word), "is a placeholder already"
        other = where.setdefault(broker.client, node)
        if other != node:
            yield ("brokers", node, "client"), f"is broker {other}'s; allowed: its own"
    for place, text in _texts(form):
        for one in form.ids:
            try:
                fill(text, values_of(form, one, Path()))
            except UnknownPlaceholder as error:
                yield place, f"for broker {one}: {error}"
                break


def _texts(form: ClusterForm) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for name in COMMANDS:
        for number, text in enumerate(getattr(form.ways, name) or ()):
            yield ("ways", name, number), text
    for name, text in form.ways.env.items():
        yield ("ways", "env", name), text


def is_about_a_cluster(path: Path) -> bool:
    """Whether it means to be such a file. Raises `DescriptionError` for what cannot be read."""
    return re.search(rb"^cluster\s*:", content_of(path), re.MULTILINE) is not None


def read_cluster(path: Path) -> ClusterForm:
    """Raises `DescriptionError`."""
    return parse_cluster(content_of(path), str(path))


def parse_cluster(content: bytes, where: str) -> ClusterForm:
    """``where`` names it in errors. Raises `DescriptionError`."""
    return parse_form(content, where, ClusterForm, wrong)


def cluster_schema() -> Mapping[str, Any]:
    """For editors and other tools. What fields say of each other it does not hold."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "biplane: a cluster that runs already",
        **ClusterForm.model_json_schema(),
    }
