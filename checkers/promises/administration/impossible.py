"""Impossible: what no broker can do, and an operator asks for all the same, for
`checkers.promises.administration`.

Role ``refused-asker`` asks every broker, all the while, for one such thing after the other.

- ``impossible-done``: a broker says that it did it (its rows name the error that is ``wanted``);
- ``refused-otherwise``: a broker refuses it with an error that is neither the one that is
  ``wanted`` nor one that says to ask another broker, or again (`_NO_LEADER`, `_NO_CONTROLLER`): by
  its error a client tells what it did wrong, and whether to try again. What releases before 3.3 say
  of configs is another one, and what those before 2.4 say of records, and lawful of them (`MIXED`,
  `CORRUPT`: run.json says of which arms). A broker
  trips (UNKNOWN_SERVER_ERROR), or runs out of time, as ZooKeeper is away, or its session ended:
  not each of `TRIES` times and more, once all has come to calm. Or it answers in a form that its
  client does not read: not in the version in which it was asked, or, where it does not know that
  one, in the first (KIP-511);
- ``never-refused``: in the end one kind of request is never answered by a broker, `TRIES` times or
  more, though others of the same client to the same broker are, in between, and though all was
  healed (`checkers.facts.calm`) when it was asked the last two times. A refusal waits for nothing,
  and a client waits for it as for any answer. (It may have been answered before: only a controller
  does not say at once that it is none.) Of what it cannot read a broker ends the connection, as it
  could not say whose answer that is: who asked has not waited then;
- ``answered-out-of-turn``: of two requests that were sent at once, on one connection, the second
  was answered first, which the client tells by their numbers. Nothing excuses that (the protocol:
  responses come in the order of the requests; SocketServer mutes a connection meanwhile).

Lawful, and looks similar: a broker that is no controller, or no leader, says that, and so does one
that is moving the partition; a broker that is away, or cut off, answers nothing at all, and one
whose controller waits for ZooKeeper answers once it is back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.calm import calm
from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

REFUSED: Final = "requests for what cannot be done"
DONE, MUTE = "impossible-done", "never-refused"
TURN: Final = "answered-out-of-turn"
UNREADABLE: Final = "unreadable"
"""How rows say so."""
OTHERWISE: Final = "refused-otherwise"
_TRIPPED: Final = frozenset({-1, 7})
"""UNKNOWN_SERVER_ERROR: the broker met an exception (KafkaApis.handleError); REQUEST_TIMED_OUT."""
_TO_LEADERS: Final = ("PRODUCE", "DELETE_RECORDS")
_NO_LEADER: Final = frozenset({*_TRIPPED, 3, 6, 9, 13, 19, 20, 56, 74, 75, 89})
_NO_CONTROLLER: Final = frozenset({*_TRIPPED, 3, 8, 13, 41, 60, 89})
"""Errors that say: not here, or not now; of who is asked as a leader (ReplicaManager), and of who
is as the controller. (CORRUPT_MESSAGE is retriable as well, and wanted.)"""
MIXED: Final = "mixes_config_errors"
"""In run.json, of an arm: it may say INVALID_REQUEST for INVALID_CONFIG (AdminManager before 3.3,
of lists that are none: KAFKA-13899)."""
CORRUPT: Final = "records_corrupt"
"""In run.json, of an arm: it may say CORRUPT_MESSAGE for INVALID_RECORD (which is KIP-467's)."""
_OLDER: Final = {MIXED: (40, 42), CORRUPT: (87, 2)}
TRIES: Final = 3
WAITED_NS: Final = 1_500_000_000
"""Who lost its connection sooner did not wait."""
Row = Mapping[str, Any]
Trial = tuple[str, int]


def mixes(history: History, trial: Trial) -> bool:
    """Whether the system may be one that mixes up the errors of configs; so where nobody knows."""
    return history.run.may(trial[0], MIXED)


def impossible(history: History, trial: Trial, outcome: Outcome) -> Iterator[Finding]:
    rows = [r for r in rows_of(history, "admin_request", trial) if r["wanted"] is not None]
    older = dict(told for may, told in _OLDER.items() if history.run.may(trial[0], may))
    outcome.saw(*trial, REFUSED, sum(_is_answered(row) for row in rows))
    told: set[tuple[int, str]] = set()
    for row in rows:
        if row["type"] == "ok" and (row["node"], row["about"]) not in told:
            told.add((row["node"], row["about"]))
            yield Finding(
                DONE,
                f"node {row['node']} was asked for what cannot be done, {row['api']}: "
                f"{row['about']}, and says that it did it",
                *trial,
                (_pick(row),),
            )
        elif _is_otherwise(row, older) and (row["node"], row["about"]) not in told:
            told.add((row["node"], row["about"]))
            yield Finding(
                OTHERWISE,
                f"node {row['node']} was asked for what cannot be done, {row['api']}: "
                f"{row['about']}, and refused it {_how(row)}, not with {row['wanted']}",
                *trial,
                (_pick(row),),
            )
    early = [row for row in rows if row["failure"] == "out-of-turn"]
    if early:
        yield Finding(
            TURN,
            f"node {early[0]['node']} answered the second of two requests before the first one, "
            f"{len(early)} times in all",
            *trial,
            (_pick(early[0]),),
        )
    quiet = calm(history).get(trial)
    if quiet is None:
        return
    owed_t = quiet.owed_from(quiet.healed_t)
    yield from _tripping(trial, [row for row in rows if row["invoke_t"] > owed_t])
    by_node: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        by_node.setdefault((row["process"], row["node"]), []).append(row)
    for of in by_node.values():
        for about in sorted({row["about"] for row in of}):
            lost = _unanswered(of, about)
            if len(lost) >= TRIES and lost[-2]["invoke_t"] > quiet.healed_t:
                yield Finding(
                    MUTE,
                    f"node {lost[0]['node']} did not answer {lost[0]['api']} ({about}) any more, "
                    f"{len(lost)} times, though it answered the same client's other requests in "
                    "between",
                    *trial,
                    tuple(_pick(row) for row in lost[:: max(1, len(lost) - 1)]),
                )


def _is_answered(row: Row) -> bool:
    return row["error"] is not None or row["failure"] == UNREADABLE


def _how(row: Row) -> str:
    return "in a form that nobody reads" if row["error"] is None else f"with error {row['error']}"


def _is_otherwise(row: Row, older: Mapping[int, int]) -> bool:
    if row["failure"] == UNREADABLE:
        return True
    error, wanted = row["error"], row["wanted"]
    known = error is None or error in (0, wanted, older.get(wanted))
    elsewhere = _NO_LEADER if row["api"] in _TO_LEADERS else _NO_CONTROLLER
    return not known and error not in elsewhere


def _tripping(trial: Trial, rows: Sequence[Row]) -> Iterator[Finding]:
    """``rows``: of what was asked in calm."""
    by_api: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        if row["error"] is not None:
            by_api.setdefault((row["node"], row["api"]), []).append(row)
    for (node, api), of in sorted(by_api.items()):
        if len(of) >= TRIES and {row["error"] for row in of} <= _TRIPPED:
            yield Finding(
                OTHERWISE,
                f"node {node} was asked {api} for what cannot be done, {len(of)} times after all "
                f"had come to calm, and never said why: error {of[-1]['error']}",
                *trial,
                (_pick(of[0]), _pick(of[-1])),
            )


def _unanswered(rows: Sequence[Row], about: str) -> list[Row]:
    """Those for one thing, from the last answer to it on, that were waited for in vain; between
    each two another was answered."""
    lost: list[Row] = []
    others = False
    for row in sorted(rows, key=lambda r: r["invoke_t"]):
        answered = row["error"] is not None
        if row["about"] != about:
            others = others or answered
        elif answered:
            lost = []
        elif row["t"] - row["invoke_t"] >= WAITED_NS and (others or not lost):
            lost.append(row)
            others = False
    return lost


def _pick(row: Row) -> Pick:
    return Pick("admin_request", {"process": row["process"], "op": row["op"]}, rows=1)
