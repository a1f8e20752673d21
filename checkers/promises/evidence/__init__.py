"""Evidence: is all that was seen in the history, and are its times to be trusted?

What is lost in silence cannot be missed by the other checks: a produce that nobody recorded is not
an acknowledged one, a truncation that a node could not write down did not happen. Writers number
their rows, and finishing counts what each live file held (kind ``source``). Unknown, never valid,
in an (arm, trial) in which

- a line was rejected: it could not be read, or did not fit the schema;
- numbers are missing among a writer's rows, or are there twice, in its file or in what was stored
  of it; or other than so many rows of a kind and process are stored as finishing stored; or what is
  told once is there twice (`told_once`);
- a row does not say what every row of its kind says (`checkers.facts.whole_rows`), or what others
  of its writer say of the same (`alike`);
- a writer did not come to the end of what it had to say: a client's or the harness's last row says
  that it is the last. A node's does not, since nodes are killed; their last line may be torn;
- a client that was launched, or (where the others write one) a node, left no row at all, or an
  operation that a client numbered (`operations`); or a node's boot rows, and nobody its start;
- a clock went back between two rows, or lies outside the harness's own time in the trial;
- a controller, forger or prober and a broker do not tell of the same requests
  (`told_requests`), or either of what no request ordered, or nobody sent
  (`orders`); a broker cut a log out of course (`log_courses`);
- what ZooKeeper's own log says of a znode is in no order in which it can have been, or is not what
  was seen of it (`znodes`, `seen_znodes`); run.json has topics that
  nobody made, or made otherwise, or clients that asked others than it says (`claims`); rows tell of
  partitions that nobody made (`known_topics`); one listener was
  served by both planes (`listeners`);
- a broker counted less than it answered, or one time twice, or a flood more answers than it asked
  for (`counted`); a broker showed
  what it had not taken in (`taken_in`), held an epoch for its own with which it
  never registered, or that of a life that was over (`own_epochs`), or was not asked
  any more, or for seconds in which it counted requests (`askers`), or answered what it was asked
  while it did not run (`absent`);
- rows whose own times cannot be (an answer before its question), or do not stand in the order of
  their numbers (`sequences`), a client whose operations were not
  begun in the order of their numbers, rows from outside the time that their file had when it was
  finished, or from outside the harness's phases;
- the harness's own rows contradict each other (`checkers.facts.courses`): phases, faults, nodes'
  lives or what members of groups were given in an order in which they cannot have been, a node
  ended by no fault;
- what came after something else, by what it is, has a time before that (`moments`);
- rows whose times may be off, by their own word, by so much that they order nothing;
- what a broker of this system writes down all the time is not there of one broker, or of one trial,
  although it is of others; or ZooKeeper's states were watched, and its log was not read, or has a
  partition's last state that nobody saw;
- the wall clock was not tied to the monotonic one, where ZooKeeper's times are to be used;
- the wall clock moved against the monotonic one: record times mean nothing then.

Lawful, and looks similar: numbers that change places (threads); rows without a number, which are
made from a system's log files; a node's torn last line; an invocation without a completion (kept,
as `info`: counted here).

This check has no violations. Blind: what a node could not write from some moment until its end, and
what it never tried to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.courses import contradictions
from checkers.facts.tellers import tellers
from checkers.facts.trials import rows_of
from checkers.facts.whole_rows import VOID
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.promises.evidence.absent import answered_by_nobody
from checkers.promises.evidence.alike import unlike
from checkers.promises.evidence.askers import passed_over, unasked, unpolled
from checkers.promises.evidence.claims import (
    missent,
    not_wiped,
    otherwise_set,
    unasked_for,
    unfounded,
    unplanned,
)
from checkers.promises.evidence.counted import overanswered, overlapping, undercounted
from checkers.promises.evidence.known_brokers import unheard_of
from checkers.promises.evidence.known_topics import unmade
from checkers.promises.evidence.last_roles import without_roles
from checkers.promises.evidence.listeners import of_both_planes, uncounted
from checkers.promises.evidence.log_courses import out_of_course
from checkers.promises.evidence.moments import misplaced
from checkers.promises.evidence.numbers import traces, unaccounted
from checkers.promises.evidence.operations import unnumbered
from checkers.promises.evidence.orders import overlooked, unlooked, unordered, unretried, unsent
from checkers.promises.evidence.own_epochs import never_registered
from checkers.promises.evidence.read_epochs import unversed
from checkers.promises.evidence.seen_znodes import unlogged
from checkers.promises.evidence.sequences import BACKWARDS_NS, disordered
from checkers.promises.evidence.taken_in import shown_untaken
from checkers.promises.evidence.times import TOLD_AFTERWARDS, times
from checkers.promises.evidence.told_once import repeated
from checkers.promises.evidence.told_requests import STRANGERS, told
from checkers.promises.evidence.untold import untold
from checkers.promises.evidence.znodes import disorders

if TYPE_CHECKING:
    from checkers.history.frames import History

HARNESS: Final = "harness"
OUTSIDE_NS: Final = 5_000_000_000
"""How long before the harness's first row or after its last one another's may lie."""
LOST: Final = 3
"""So many rows of a boot: what a store loses is a part, and never a row or two."""
_AT_ONCE_NS: Final = 1_000_000_000
UNTOLD: Final = 3
"""So many requests of one controller to one broker: what was under way when one of them ended is
less."""
OFF_NS: Final = 1_000_000_000
"""A row whose time may be off by more, either way, orders nothing."""
DRIFT_NS: Final = 1_000_000_000
"""By so much clocks that only drift do not part in a run; a wall clock that was set does."""
JUMP_NS: Final = 2_000_000_000
_REASONS: Final = 3
Row = dict[str, Any]
Trial = tuple[str, int]
Rule = Callable[["History"], Iterable[tuple[Trial, str]]]
"""What is wrong, by trial, in words."""


def check(history: History) -> Outcome:
    outcome = Outcome()
    spoilt = any(each.lacking for each in times(history))
    found: dict[Trial, list[str]] = {}
    for rule in _RULES:
        for key, says in _told_by(rule, history, spoilt=spoilt):
            found.setdefault(key, []).append(says)
    for key in _trials(history):
        sources = rows_of(history, "source", key)
        outcome.saw(*key, "rows of live files", sum(row["rows"] or 0 for row in sources))
        for why in found.get(key, ()):
            outcome.unknown(*key, why)
        figures = outcome.arm(key[0])
        for name in ("rows", "orphans", "unnumbered"):
            figures[name] = figures.get(name, 0) + sum(row[name] or 0 for row in sources)
    counted = sum(row["rejected"] or 0 for row in history.rows("source"))
    if history.run.rejected > counted:
        reasons = _most(history.run.rejected_reasons)
        outcome.unknowns.append(f"run.json: {history.run.rejected} lines were rejected: {reasons}")
    if history.run.clock_error_ns > DRIFT_NS:
        seconds = history.run.clock_error_ns / 1e9
        outcome.unknowns.append(
            f"run.json: the wall clock moved by {seconds:.1f} s against the monotonic clock"
        )
    return outcome


def _told_by(rule: Rule, history: History, *, spoilt: bool) -> list[tuple[Trial, str]]:
    """What a rule says. Over a row that does not say what every row of its kind says it may trip:
    then nothing; the row is named by itself."""
    try:
        return list(rule(history))
    except (TypeError, ValueError, KeyError, AttributeError):
        if not spoilt:
            raise
        return []


def _trials(history: History) -> list[Trial]:
    return sorted(set(history.trials) | set(history.run.trials))


def _of_files(history: History) -> Iterator[tuple[Trial, str]]:
    """Each live file by itself, and who should have left one."""
    for key in _trials(history):
        sources = rows_of(history, "source", key)
        for row in sources:
            yield from ((key, says) for says in _lacks(row))
        yield from ((key, says) for says in (*_absent(history, key, sources), *_outside(sources)))


def _of_kinds(history: History) -> Iterator[tuple[Trial, str]]:
    for key in _trials(history):
        yield from ((key, says) for says in untold(history, key))


def _lacks(row: Row) -> list[str]:
    """What is wrong with one file by itself."""
    of = f"{row['source']}.jsonl" + (f", boot {row['boot']}" if row["boot"] is not None else "")
    is_node = row["node"] is not None
    numbered = row["last_seq"] is not None
    found = []
    if row["rejected"]:
        reasons = _most(json.loads(row["reasons"] or "{}"))
        found.append(f"{of}: {row['rejected']} lines were rejected: {reasons}")
    if row["missing"]:
        every = f" of {row['last_seq'] + 1}" if numbered else ""
        found.append(f"{of}: {row['missing']}{every} rows are missing")
    if row["repeated"]:
        found.append(f"{of}: numbers of rows are there twice")
    if row["torn"] and not is_node:
        found.append(f"{of}: its last line is torn, and its writer was not to be killed")
    if numbered and not is_node and not row["closed"]:
        found.append(f"{of}: its writer did not come to the end of what it had to say")
    if numbered and (row["unnumbered"] or 0) > 0:
        found.append(f"{of}: {row['unnumbered']} rows have no number, and others have")
    if (row["backwards_ns"] or 0) > BACKWARDS_NS:
        seconds = row["backwards_ns"] / 1e9
        found.append(f"{of}: the clock went back by {seconds:.1f} s between two rows")
    own = (row["rows"] or 0) - (row["unnumbered"] or 0)
    if not numbered and row["unnumbered"] is not None and own:
        found.append(f"{of}: it has {row['rows']} rows, and {row['unnumbered']} without a number")
    if numbered and not found and row["last_seq"] + 1 != own:
        found.append(f"{of}: it has {row['rows']} rows, and numbers up to {row['last_seq']}")
    return found


def _unstored(history: History) -> Iterator[tuple[Trial, str]]:
    """What finishing counted and the store does not have, or has twice."""
    numbered = traces(history)
    for row in history.rows("source"):
        if row["last_seq"] is None or row["node"] is None:
            continue
        key = (row["arm"], row["trial"])
        wrote = row["last_seq"] + 1 - (row["missing"] or 0)
        trace = numbered.get((*key, row["process"], row["boot"]))
        there = 0 if trace is None else trace.numbers
        of = f"{row['process']}, boot {row['boot']}"
        if wrote - (row["rejected"] or 0) - there >= LOST:
            yield key, f"{of}: {wrote - there} of its {wrote} rows are not stored"
        if trace is not None and trace.twice:
            yield key, f"{of}: {trace.twice} of its rows are stored twice"
    for one in unaccounted(history):
        says = f"{one.process}, {one.kind}: {one.stored} rows are there, of which {one.told} were"
        yield one.key, f"{says} stored"


def _at_odds(history: History) -> Iterator[tuple[Trial, str]]:
    """Where a controller and a broker do not tell of the same requests."""
    traced = tellers(history, "control_send")
    for one in told(history):
        key = one.key
        whose = STRANGERS if one.sender == STRANGERS else f"controller {one.sender}"
        of = f"{whose}'{'' if whose == STRANGERS else 's'} requests to node {one.broker}"
        # Who is killed may take with it what it was about to tell.
        if one.unsent >= UNTOLD and traced.get(key):
            yield key, f"{one.unsent} of {of} were handled, and nobody tells of having sent them"
        if one.untold >= UNTOLD:
            yield key, f"{one.untold} of {of} were answered, and the broker tells of none of them"
        if one.sure and one.unsent < UNTOLD and one.untold < UNTOLD:
            says = "are told of by one end, while the other tells of things before and after"
            yield key, f"{one.sure} of {of} {says}"
        if one.unlike:
            says = "were handled otherwise, or more often, than they were sent"
            yield key, f"{one.unlike} of {of} {says}, or answered otherwise"
        if one.early:
            says = "were received before they were sent, or answered before they were handled"
            yield key, f"{one.early} of {of} {says}"


def _absent(history: History, key: tuple[str, int], sources: list[Row]) -> list[str]:
    """Who should have said something and did not."""
    if not sources:
        return ["nobody counted what the live files held"]
    spoke = {row["process"] for row in sources if row["rows"]}
    found = [
        f"{workload.process}: it was launched, and left no row"
        for workload in history.run.workloads.get(key, ())
        if workload.process not in spoke
    ]
    nodes = {row["node"] for row in sources if row["node"] is not None and row["rows"]}
    own = [row for row in sources if row["rows"] and row["boot"] is not None]
    booted = {(row["node"], row["boot"]) for row in own}
    numbered = {(row["node"], row["boot"]) for row in own if row["last_seq"] is not None}
    ready = [row for row in rows_of(history, "node_event", key) if row["event"] == "ready"]
    if nodes:  # a system that writes no trace of its own has none to lose
        started = {row["node"] for row in ready}
        found += [f"node {n}: it was ready, and left no row" for n in sorted(started - nodes)]
        lived = {(row["node"], row["boot"]) for row in ready if row["node"] in nodes}
        counting = {node for node, _ in booted}
        # What a system's own log files tell begins a moment after it was ready.
        numbering = {node for node, _ in numbered}
        short = _ended_at_once(rows_of(history, "node_event", key))
        lived -= {pair for pair in short if pair[0] not in numbering}
        for node, boot in sorted(pair for pair in lived if pair[1] is not None):
            if node in counting and (node, boot) not in booted:
                found.append(f"node {node}: it was ready in its boot {boot}, and left no row of it")
    begun = [row for row in rows_of(history, "node_event", key) if row["event"] == "start"]
    starts = {(row["node"], row["boot"]) for row in begun if row["boot"] is not None}
    for node, boot in sorted(numbered - starts) if starts else ():
        found.append(
            f"node {node}: it left rows of its boot {boot}, and nobody tells of that start"
        )
    return found


def _ended_at_once(events: list[Row]) -> set[tuple[int, int]]:
    """The boots of nodes that were taken down within a second of being ready."""
    ready: dict[int, Row] = {}
    found = set()
    for row in sorted(events, key=lambda row: int(row["t"])):
        if row["event"] == "ready":
            ready[row["node"]] = row
        elif row["event"] in ("kill", "stop", "pause", "exited") and row["node"] in ready:
            before = ready.pop(row["node"])
            if row["t"] - before["t"] < _AT_ONCE_NS:
                found.add((before["node"], before["boot"]))
    return found


def _outside(sources: list[Row]) -> list[str]:
    """Times that the harness, whose clock all go by, was not there for."""
    own = next((row for row in sources if row["process"] == HARNESS and row["rows"]), None)
    if own is None or own["first_t"] is None:
        return []
    found = []
    for row in sources:
        if row["first_t"] is None:
            continue
        early, late = own["first_t"] - row["first_t"], row["t"] - own["t"]
        if max(early, late) > OUTSIDE_NS:
            when = "before the trial began" if early > late else "after the trial's end"
            seconds = max(early, late) / 1e9
            found.append(f"{row['source']}.jsonl: it has rows from {seconds:.1f} s {when}")
    return found


def _void(history: History) -> Iterator[tuple[Trial, str]]:
    """Rows that do not say what every row of their kind says."""
    for each in sorted(times(history), key=lambda one: str((one.key, one.process, one.kind))):
        if each.lacking:
            of = f"{each.process}, {each.kind}: {each.lacking} of {each.rows} rows"
            yield each.key, f"{of} {VOID}{_named(each.columns)}"


def _impossible(history: History) -> Iterator[tuple[Trial, str]]:
    """What is wrong with the rows that are stored, by themselves."""
    phases: dict[Trial, list[int]] = {}
    for row in history.rows("phase"):
        phases.setdefault((row["arm"], row["trial"]), []).append(row["t"])
    for each in sorted(times(history), key=lambda one: str((one.key, one.process, one.kind))):
        key, of = each.key, f"{each.process}, {each.kind}"
        if each.wrong:
            yield key, f"{of}: {each.wrong} of {each.rows} rows have times that cannot be"
        if each.back_ns > JUMP_NS:
            seconds = each.back_ns / 1e9
            yield key, f"{of}: operations were begun {seconds:.1f} s before earlier ones"
        if each.first_t is None or each.last_t is None:
            continue
        own = [r for r in rows_of(history, "source", key) if r["process"] == each.process]
        own = [] if each.kind in TOLD_AFTERWARDS else own
        told = [r for r in own if r["first_t"] is not None]
        span = (min(r["first_t"] for r in told), max(r["t"] for r in told)) if told else None
        if span and (each.first_t < span[0] or each.last_t > span[1]):
            yield key, f"{of}: there are rows from outside the time of its file"
        run = phases.get(key, [])
        if run and max(min(run) - each.first_t, each.last_t - max(run)) > OUTSIDE_NS:
            yield key, f"{of}: there are rows from outside the trial's phases"


def _named(columns: Sequence[str]) -> str:
    return f" ({', '.join(columns)})" if columns else ""


def _vague(history: History) -> Iterator[tuple[Trial, str]]:
    """By writer, times that are too far off to say anything, or less than exact."""
    worst: dict[tuple[Trial, str], int] = {}
    for each in times(history):
        place = (each.key, each.process)
        worst[place] = max(worst.get(place, 0), each.off_ns)
    for (key, process), off_ns in sorted(worst.items(), key=str):
        if off_ns > OFF_NS:
            says = f"{process}: its rows have times that may be off by {off_ns / 1e9:.1f} s"
            yield key, says


def _most(reasons: Any) -> str:
    most = sorted(dict(reasons).items(), key=lambda item: -int(item[1]))[:_REASONS]
    return "; ".join(f"{why} ({n})" for why, n in most) or "no reason is known"


_RULES: Final[tuple[Rule, ...]] = (
    *(_void, unlike, _impossible, _of_files, _unstored, repeated),
    *(_at_odds, unordered, unsent, unretried),
    *(_vague, contradictions, misplaced, disordered),
    _of_kinds,
    *(disorders, unlogged, unfounded, of_both_planes, uncounted, unheard_of, unmade),
    *(undercounted, shown_untaken, unasked, unpolled, passed_over, unlooked, never_registered),
    *(out_of_course, overlapping, overanswered, overlooked, unplanned, not_wiped, unnumbered),
    *(answered_by_nobody, unversed, without_roles, otherwise_set, missent, unasked_for),
)

PROMISE: Final = Promise(
    name="evidence",
    says="What was seen is in the history, whole and with true times.",
    source="Jepsen: a test is only as good as its history",
    rules={},
    evidence={"rows of live files": "events that clients, nodes and the harness wrote down"},
    unknown_when=(
        "a line of a live file was rejected",
        "rows are missing from a live file, or its writer did not come to its end",
        "what a live file held is not stored, or stored twice",
        "rows do not say what every row of their kind says, or others of their writer, or bear an "
        "error that Kafka does not answer such requests with; what is told once is there twice",
        "a launched client, or a boot of a node, left no row; or an operation that a client "
        "numbered; or a boot of which nobody tells the start left some",
        "a controller, a forger or a prober and a broker do not tell of the same requests, in the "
        "order in which they must have come; a cut of a log in a leader epoch in which its broker "
        "took up no role, or from below where the log ended; nobody looked at the "
        "queue to a broker, and somebody did at others', or for seconds in which it was used",
        "a clock went back, lay outside the trial, or was set; times that cannot be",
        "what brokers write down all the time is not there of one broker or trial",
        "ZooKeeper's own log was not read, though it was watched; a broker was ready, and nobody "
        "saw a connection of it to ZooKeeper; a log begins later, and its broker tells of no cut",
        "phases, faults, nodes' lives or members' partitions in an order in which they cannot have "
        "been; a node that no fault ended; two trials at once",
        "rows of a time before that of what they come after",
        "ZooKeeper's log against itself, or against what was seen of the same znodes",
        "what an operator was to ask for while faults were played, and by no fault; topics of "
        "run.json that nobody made, or made otherwise, and brokers asked of which it does not "
        "know; rows about partitions that nobody made",
        "what a broker took up that no request ordered, or once that was handled, or showed and "
        "had not taken in; a listener that both planes served; less counted by a broker than it "
        "answered, or one time twice",
        "a client that asked a broker, and asked it no more once all was healed, or not for "
        "seconds in which that counted requests; a broker that answered what it was asked while it "
        "did not run; a consumer that polled no more towards the end, or tells no leader epochs",
        "a writer's rows in another order of time than that of their numbers",
        "who is in sync to the end tells of no role in the last leader epoch, where brokers tell "
        "of roles",
    ),
    blind=(
        "what a node could not write from some moment until its end; up to two requests of a "
        "controller to one broker of which one end tells, where the other ended soon after",
        "where every account was made anew as well: an order that was soon given again, and that "
        "neither end tells of; cuts of logs that nobody read in the end",
        "what a broker that does not number its rows (Apache Kafka) answered a controller, where "
        "the two ends tell otherwise",
        "figures of which one row alone tells: versions of a request, how far above a "
        "log's end it was cut, how much was counted, how long operations, waits and phases took "
        "where nothing else lies between; times that are off by less than a second; the number of "
        "a write of ZooKeeper, where the order is the same",
        "which of the errors that Kafka gives a client was refused with, where no promise says "
        "which it must be; a log's end or high watermark that is a little off as a role is taken "
        "up, and a cut of records that nobody was promised; the leader epoch of a log whose head "
        "went",
        "whether a fault took hold that does not say so, and whom it names, unless it ends, pauses "
        "or floods them",
        "what run.json says of brokers' configurations, of the system and its release, and of how "
        "clients work, told so throughout; of topics' where nobody described them in the end",
        "what no row of a history says, and later ones do: whom answers name as live, replicas",
        "a history that was changed in all places at once, its numbers and accounts made anew",
        "in histories of before stored rows were counted: rows of a client, or of the harness, "
        "that were lost after its file was read, but for what they leave in other promises",
    ),
    check=check,
)
