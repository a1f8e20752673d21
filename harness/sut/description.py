"""What a description file of a broker may say: its fields, what is allowed in each, and why.

The one home of the format: `description_file` reads a file into it, `described` runs what it
describes, ``adapters/schema.json`` is made from it (``biplane adapter schema``), and
``docs/adapters.md`` teaches it. Texts may hold placeholders, ``{{client.bind}}``; `placeholders` in
`harness.sut.templates` has them all.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError


def _text(given: Any) -> str:
    """YAML makes numbers and truths of some texts; a broker's configuration is made of texts."""
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, str | int | float):
        return str(given)
    raise ValueError("allowed: a text, a number, true or false")


Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
Word = Annotated[str, StringConstraints(min_length=1)]
Scalar = Annotated[
    str, BeforeValidator(_text), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
LinkName = Literal["client", "inter-broker", "control"]
PlaneName = Literal["single", "dual"]
Ability = Literal[
    "alter-partition",
    "control-requests",
    "controlled-stop",
    "elect-leaders",
    "log-files",
    "replication",
]
GaugeName = Literal[
    "ActiveControllerCount",
    "ActiveBrokerCount",
    "AtMinIsrPartitionCount",
    "GlobalPartitionCount",
    "GlobalTopicCount",
    "LeaderCount",
    "OfflinePartitionsCount",
    "PartitionCount",
    "PreferredReplicaImbalanceCount",
    "ReassigningPartitions",
    "TopicsToDeleteCount",
    "UnderMinIsrPartitionCount",
    "UnderReplicatedPartitions",
]
SignalName = Literal["TERM", "INT", "QUIT", "HUP"]
FinalReadAs = Annotated[
    Literal["replica", "consumer"],
    Field(
        description="How logs are read in the end: as Kafka's debugging replica (-2), to the end "
        "of every replica; or as a consumer, to the high watermark of those that serve one"
    ),
]
FetchVersion = Annotated[
    int, Field(ge=4, le=11, description="Of the Fetch by which logs are read in the end")
]
SIGNALS: Final = {name: int(signal.Signals[f"SIG{name}"]) for name in get_args(SignalName)}


class Part(BaseModel):
    """Nothing unknown is passed over: a field with a slip in its name would be no field."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Find(Part):
    """Something on this machine that the broker needs."""

    any_of: Annotated[list[Word], Field(min_length=1)] = Field(
        description="Where to look, in this order: a path (from this file's folder; ~ and "
        "${VARIABLE} are filled in, and a place whose variable is not set is passed over), or the "
        "bare name of a program on PATH"
    )
    mend: Word = Field(description="What brings it: said to whoever lacks it")


class Peers(Part):
    """One text made of all nodes, for configurations that list them."""

    each: Word = Field(description="The text for one node; {{peer}}, {{peer.client}} are its own")
    join: str = Field(default=",", description="What stands between two")


class File(Part):
    """One file in the node's folder, written anew before every start: ``text``, or ``properties``.

    In a properties file the configs that a scenario sets (Kafka's names) win over these."""

    text: str | None = Field(default=None, description="The whole file")
    properties: dict[Word, Scalar] | None = Field(
        default=None, description="A file of name=value lines, as Kafka's server.properties"
    )
    single: dict[Word, Scalar] = Field(
        default_factory=dict, description="On top of these properties with single planes"
    )
    dual: dict[Word, Scalar] = Field(
        default_factory=dict, description="On top of these properties with dual planes"
    )
    takes_configs: bool = Field(
        default=False,
        description="Whether the configs that a scenario sets are written here: the broker "
        "knows Kafka's names for them",
    )

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.text is None) == (self.properties is None):
            raise ValueError("allowed: either 'text' or 'properties', and one of them")
        if self.text is not None and (self.single or self.dual or self.takes_configs):
            raise ValueError("'single', 'dual' and 'takes_configs' are allowed with 'properties'")
        return self


class Start(Part):
    """How one node is started. It stays in the foreground; what it prints is kept."""

    argv: Annotated[list[Scalar], Field(min_length=1)] = Field(
        description="The program and its arguments; a shell script is sh, its path, ..."
    )
    image: str | None = Field(
        default=None,
        min_length=1,
        description="What argv is run in, a container of it a node (--runtime=docker); it has sh. "
        "Without it nodes are processes on this machine",
    )
    env: dict[Word, Scalar] = Field(
        default_factory=dict, description="Environment variables on top of a small base"
    )
    first: list[Scalar] = Field(
        default_factory=list,
        description="A command run to its end before the first start (to format a disk)",
    )


class Ready(Part):
    """How a node shows that it serves: all that is given must hold. After that it must also answer
    Metadata on its client listener, and name itself."""

    ports: list[LinkName] = Field(
        default_factory=list, description="Listeners that accept connections"
    )
    output: str | None = Field(
        default=None, description="A regular expression that a line of its output matches"
    )
    within_s: Annotated[float, Field(gt=0, le=600)] = Field(default=60.0, description="Seconds")


class Stop(Part):
    """How it is asked to end. It is killed by SIGKILL and paused by SIGSTOP, all its processes."""

    signal: SignalName = Field(default="TERM", description="What asks it to end in order")


class Evidence(Part):
    """What of its own doing a node writes down, besides what clients see of it."""

    kind: Literal["none", "biplane-trace", "kafka-logs"] = Field(
        default="none",
        description="none; biplane-trace: rows of the history's own schema, one JSON object a "
        "line; kafka-logs: Apache Kafka's log4j files in the node's folder",
    )
    file: str | None = Field(default=None, description="biplane-trace: where, in the node's folder")
    rows: list[Word] = Field(
        default_factory=list, description="biplane-trace: kinds of rows that every node writes"
    )
    release: str | None = Field(
        default=None, description="kafka-logs: which release of Kafka wrote them, such as 3.9.2"
    )

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        if (self.kind == "biplane-trace") != (self.file is not None):
            raise ValueError("'file' goes with kind biplane-trace, and only with it")
        if (self.kind == "kafka-logs") != (self.release is not None):
            raise ValueError("'release' goes with kind kafka-logs, and only with it")
        if self.rows and self.kind != "biplane-trace":
            raise ValueError("'rows' goes with kind biplane-trace only")
        return self


class Metrics(Part):
    """What every node serves to Prometheus, past every proxy: how it counts its partitions is held
    against what ZooKeeper has."""

    path: Annotated[str, Field(pattern="^/")] = Field(
        default="/metrics", description="At http://{{metrics.bind}}, which each node must serve"
    )
    gauges: Annotated[dict[GaugeName, str], Field(min_length=1)] = Field(
        description="By Kafka's name of a gauge: the sample, such as some_name or "
        'some_name{kind="x"}; of several that fit, the sum'
    )


class Description(Part):
    """A broker that biplane has never heard of."""

    adapter: Literal[1] = Field(description="The version of this format")
    name: Name = Field(description="What arms and reports call it")
    says: str = Field(default="", description="What it is, for people")
    version: str = Field(default="not told", description="Which build of it, for run.json")
    nodes: Annotated[int, Field(ge=1, le=9)] = Field(
        default=3, description="How many nodes make a cluster: 1 to 9"
    )
    first_node: Annotated[int, Field(ge=0)] = Field(
        default=1, description="The id of its first node; the others follow it"
    )
    members: Literal["live", "fixed"] = Field(
        default="live",
        description="Whether Metadata names the brokers that live, or always all of them",
    )
    coordination: Literal["zookeeper", "kraft", "none"] = Field(
        default="none",
        description="Where its state can be read, past every proxy: zookeeper (Kafka's znodes; "
        "one is started for it), kraft (DescribeQuorum at the control listeners), none (nothing "
        "is known but what it tells clients)",
    )
    links: Annotated[list[LinkName], Field(min_length=1)] = Field(
        default_factory=lambda: list[LinkName](["client"]),
        description="Its listeners, each behind a proxy of its own: client; inter-broker, where "
        "peers fetch from it; control, where controllers are heard",
    )
    planes: Annotated[list[PlaneName], Field(min_length=1)] = Field(
        default_factory=lambda: list[PlaneName](["single"]),
        description="dual: with the control listener; single: without",
    )
    capabilities: list[Ability] = Field(
        default_factory=list,
        description="controlled-stop: its signal hands its leaderships over; elect-leaders: "
        "ElectLeaders and reassignments; replication: a topic's replicas lie where they were "
        "asked for; log-files: partition folders below log_dir; alter-partition: KIP-497; "
        "control-requests: takes LeaderAndIsr and its kin from anybody",
    )
    find: dict[Name, Find] = Field(
        default_factory=dict, description="What it needs on this machine; {{name}} is where it lies"
    )
    lists: dict[Name, Peers] = Field(
        default_factory=dict, description="Texts made of all nodes; {{name}} is the whole"
    )
    files: dict[Word, File] = Field(
        default_factory=dict, description="Files in the node's folder, by relative path"
    )
    start: Start
    ready: Ready = Field(default_factory=Ready)
    stop: Stop = Field(default_factory=Stop)
    log_dir: str | None = Field(
        default=None, description="Where its partition folders lie, such as {{dir}}/data"
    )
    final_read_as: FinalReadAs = "replica"
    fetch_version: FetchVersion = 11
    evidence: Evidence = Field(default_factory=Evidence)
    metrics: Metrics | None = Field(default=None)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        found = self._contradictions()
        if found:
            raise PydanticCustomError(CONTRADICTION, "it contradicts itself", {"found": found})
        return self

    def _contradictions(self) -> list[tuple[Place, str]]:
        """(field, what is wrong with it), of all that one field alone does not show."""
        can, links = set(self.capabilities), set(self.links)
        dual, single = "dual" in self.planes, "single" in self.planes
        log_files = "log-files" in can and self.log_dir is None
        requests = "control-requests" in can and self.coordination != "zookeeper"
        held: list[tuple[bool, Place, str]] = [
            ("client" not in links, ("links",), "'client' must be among them"),
            (len(links) != len(self.links), ("links",), "each may be named once"),
            (dual and "control" not in links, ("planes",), "'dual' needs 'control' among 'links'"),
            ("control" in links and not dual, ("links",), "'control' needs 'dual' among 'planes'"),
            (self.coordination == "kraft" and single, ("planes",), "kraft is allowed with [dual]"),
            (log_files, ("capabilities",), "'log-files' needs 'log_dir'"),
            (requests, ("capabilities",), "'control-requests' needs coordination zookeeper"),
            ("replication" in can and self.nodes < 2, ("nodes",), "'replication' needs 2 or more"),
            *self._of_an_image(),
            (
                self.metrics is not None and self.coordination != "zookeeper",
                ("metrics",),
                "needs coordination zookeeper: what they are held against",
            ),
            (
                self.evidence.kind == "kafka-logs" and self.coordination == "none",
                ("evidence", "kind"),
                "'kafka-logs' needs coordination zookeeper or kraft",
            ),
        ]
        for kind, names in (("find", self.find), ("lists", self.lists)):
            held += [(n in RESERVED, (kind, n), "is a placeholder already") for n in names]
        held += [(n in self.lists, ("find", n), "is in 'lists' as well") for n in self.find]
        held += [(_leaves(p), ("files", p), "leaves the node's folder") for p in self.files]
        held += [
            (link not in links, ("ready", "ports", number), f"{link!r} is not among 'links'")
            for number, link in enumerate(self.ready.ports)
        ]
        return [(place, says) for holds, place, says in held if holds]

    def _of_an_image(self) -> Iterator[tuple[bool, Place, str]]:
        if self.start.image is None:
            return
        for name in ("java", "python"):
            says = f"{{{{{name}}}}} is this machine's: name what the image has"
            yield self._names(name), ("start", "image"), says
        yield not self.advertises, ("start", "image"), "needs {{client.advertised}}"

    @property
    def advertises(self) -> bool:
        """Whether its nodes learn what to tell clients, or can only tell their own addresses."""
        return self._names("client.advertised") or self._names("peer.client")

    def unused(self) -> list[str]:
        """Placeholders that it was given and stand nowhere in it: what they are for will not be
        there. No error: a program may know where to listen from elsewhere."""
        given = [f"{link}.bind" for link in self.links]
        if self.coordination == "zookeeper":
            given += ["zookeeper", "session-timeout-ms"]
        given += ["metrics.bind"] if self.metrics else []
        return [name for name in given if not self._names(name)]

    def _names(self, placeholder: str) -> bool:
        return bool(re.search(rf"{{{{\s*{re.escape(placeholder)}\b", self.model_dump_json()))


Place = tuple[str | int, ...]
CONTRADICTION: Final = "contradiction"
RESERVED: Final = frozenset(
    {"node", "nodes", "name", "dir", "home", "here", "java", "python", "zookeeper", "peer"}
    | {"cluster-id", "session-timeout-ms", "client", "inter-broker", "control"}
    | {"metrics"}
)


def _leaves(path: str) -> bool:
    pure = PurePosixPath(path)
    return pure.is_absolute() or ".." in pure.parts or "\0" in path or not pure.parts


def json_schema() -> dict[str, Any]:
    """For editors and other tools. What fields say of each other it does not hold."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "biplane: description of a broker",
        **Description.model_json_schema(),
    }
