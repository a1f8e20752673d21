"""What four promises come to, in DuckDB's SQL: a second opinion that shares nothing with the first
but the schema; and two more, when it is asked (`SecondOpinion.more`). By arm, since each arm of a
test's history is a history of its own.

Only for histories in which nothing excuses anything: one life of each topic, no forgers, no
retention, logs read to their ends, commits that ZooKeeper's own log tells of. An offset that was
read as two records is told of as that, and not as changed or gone as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

_FINAL_LOG: Final = """
    select r.arm, r.topic, r."partition", r."offset", r."value", r.leader_epoch
    from log_read r join log_end e using (arm, trial, topic, "partition", node)
    where e.is_leader
"""

_PROMISED: Final = f"""
    with held as ({_FINAL_LOG}),
    promised as (
        select arm, topic, "partition", "value", "offset", acks from produce
        where type = 'ok' and acks <> 0
    ),
    fate as (
        select p.arm, p.acks,
            exists (select 1 from held h where h.arm = p.arm and h.topic = p.topic
                    and h."partition" = p."partition" and h."value" = p."value"
                    and h."offset" = p."offset") as in_place,
            exists (select 1 from held h where h.arm = p.arm
                    and h."value" = p."value") as somewhere
        from promised p
    )
    select arm, acks, count(*) as n,
        count(*) filter (not in_place and somewhere) as moved,
        count(*) filter (not somewhere) as gone
    from fate group by all
"""

_READ: Final = f"""
    with held as ({_FINAL_LOG}),
    given as (
        select arm, topic, "partition", "offset", any_value("value") as "value" from "fetch"
        where type = 'ok' and "offset" >= 0 group by all having count(distinct "value") = 1
    )
    select g.arm,
        count(*) filter (h."value" is not null and h."value" <> g."value") as changed,
        count(*) filter (h."offset" is null) as gone
    from given g left join held h using (arm, topic, "partition", "offset")
    group by all
"""

_STALE: Final = """
    with committed as (
        select arm, topic, "partition", leader_epoch, min(t) as t
        from leadership where source = 'zk' group by all
    ),
    shown as (
        select arm, topic, "partition", leader_epoch, min(t) as t
        from metadata where type = 'ok' group by all
    ),
    known as (  -- who shows a leader proves it, maybe before anybody saw the commit
        select c.*, least(c.t, s.t) as known_t
        from committed c left join shown s using (arm, topic, "partition", leader_epoch)
    ),
    epochs as (
        select *, min(known_t) over (
            partition by arm, topic, "partition" order by leader_epoch
            rows between 1 following and unbounded following) as over_t
        from known
    )
    select m.arm, count(*) as reads,
        count(*) filter (e.over_t < m.invoke_t) as stale,
        max(m.invoke_t - e.over_t) filter (e.over_t < m.invoke_t) / 1e6 as stalest_ms
    from metadata m left join epochs e using (arm, topic, "partition", leader_epoch)
    where m.type = 'ok' and m.leader_epoch >= 0 group by all
"""

_BACK: Final = """
    with answers as (select * from metadata where type = 'ok' and leader_epoch >= 0),
    shown as (
        select arm, node, topic, "partition", t, max(leader_epoch) over (
            partition by arm, node, topic, "partition" order by t) as newest
        from answers
    )
    select arm, count(*) as n from (
        select distinct o.arm, o.node, o.topic, o."partition", o.leader_epoch
        from answers o asof join shown s
        on (o.arm = s.arm and o.node = s.node and o.topic = s.topic
            and o."partition" = s."partition" and o.invoke_t > s.t)
        where s.newest > o.leader_epoch)
    group by all
"""

_UNHEARD: Final = """
    select arm, count(*) as n from (
        select distinct m.arm, m.node, m.topic, m."partition", m.leader_epoch
        from metadata m where m.type = 'ok' and m.leader_epoch > (
            select max(leader_epoch) from leadership l
            where l.arm = m.arm and l.topic = m.topic and l."partition" = m."partition"))
    group by all
"""

_LATENCIES: Final = """
    select arm, 'blocked' as stage, enqueue_t - receive_t as ns from control_request
    union all select arm, 'request_queue', dequeue_t - enqueue_t from control_request
    union all select arm, 'handler', handled_t - dequeue_t from control_request
    union all select arm, 'response', t - handled_t from control_request
    union all select arm, 'round_trip', t - send_t from control_response
    union all select arm, 'queue', t - enqueue_t from control_send
    union all select s.arm, 'wire', min(r.receive_t - s.t)
        from control_send s join control_request r
        on (s.arm = r.arm and s.api = r.api and s.correlation_id = r.correlation_id
            and s."to" = r.node and s.node = r.controller_id)
        group by s.arm, s.api, s.correlation_id, s."to"
"""

_STAGES: Final = f"""
    select arm, stage, count(*) as n, max(ns) / 1e6 as max_ms,
        quantile_disc(ns, 0.5) / 1e6 as p50_ms, quantile_disc(ns, 0.99) / 1e6 as p99_ms
    from ({_LATENCIES}) group by all
"""

_RECORDS: Final = f"""
    with held as ({_FINAL_LOG}),
    offered as (
        select arm, "value",
            bool_or(type = 'fail' and error not in (-1, 6, 7, 13, 20, 56)) as failed,
            bool_and(t - invoke_t < 50000000) as quick
        from produce group by all
    ),
    copies as (
        select arm, "value", count(*) as n from held group by all
    )
    select c.arm,
        sum(c.n) as found,
        sum(c.n) filter (o."value" is null) as strange,
        count(*) filter (o.failed and o.quick) as failed_visible,
        count(*) filter (not o.failed and c.n > 1) as twice
    from copies c left join offered o using (arm, "value")
    group by all
"""


_UNLIKE: Final = """
    select arm, count(*) as n from (
        select arm, trial, topic, "partition", "offset" from log_read group by all
        having min("value") <> max("value") or min(leader_epoch) <> max(leader_epoch))
    group by all
"""

_HOLES: Final = """
    with there as (
        select arm, trial, topic, "partition", node, count(distinct "offset") as n
        from log_read group by all
    )
    select e.arm, sum(e.log_end_offset - e.log_start_offset - coalesce(t.n, 0)) as n
    from log_end e left join there t using (arm, trial, topic, "partition", node)
    where e.error is null group by all
"""

_SPANS: Final = """
    select arm, topic, "partition", node, leader_epoch,
        min("offset") as first, max("offset") as last
    from log_read group by all
"""

_DISORDER: Final = f"""
    with spans as ({_SPANS}),
    turns as (
        select *, max(last) over (
            partition by arm, topic, "partition", node order by leader_epoch
            rows between unbounded preceding and 1 preceding) as before
        from spans
    )
    select arm, count(*) as n from turns where first < before group by all
"""

_OF_NO_EPOCH: Final = f"""
    select arm, count(*) as n from ({_SPANS}) anti join zk_write
    using (arm, topic, "partition", leader_epoch) where leader_epoch >= 0 group by all
"""

_OFFERED: Final = """
    select arm, "value", any_value(topic) as topic, any_value("partition") as "partition",
        min(invoke_t) as sent_t, bool_or(type = 'fail' and error not in (-1, 6, 7, 13, 20, 56)
            and t - invoke_t < 50000000) as failed
    from produce group by all
"""

_MISPLACED: Final = f"""
    select o.arm, count(distinct o."value") as n
    from ({_OFFERED}) o join ({_FINAL_LOG}) h using (arm, "value")
    where (o.topic, o."partition") <> (h.topic, h."partition") group by all
"""

_GIVEN_BEFORE: Final = f"""
    select arm, count(distinct "value") as n
    from "fetch" f join ({_OFFERED}) o using (arm, "value")
    where f.type = 'ok' and f.t < o.sent_t group by all
"""

_GIVEN_THOUGH_FAILED: Final = f"""
    select arm, count(distinct "value") as n
    from "fetch" f join ({_OFFERED}) o using (arm, "value")
    where f.type = 'ok' and o.failed group by all
"""

_OF_ANOTHER_EPOCH: Final = f"""
    with held as (
        select arm, "value", min(leader_epoch) as low, max(leader_epoch) as high
        from ({_FINAL_LOG}) group by all
    )
    select arm, count(distinct "value") as n
    from "fetch" f join held h using (arm, "value") semi join ({_OFFERED}) using (arm, "value")
    where f.type = 'ok' and f.leader_epoch >= 0 and f.leader_epoch not between h.low and h.high
    group by all
"""

_GIVEN: Final = """
    select arm, process, topic, "partition", "offset", "value", coalesce(poll, op) as poll
    from "fetch" where type = 'ok' and "offset" >= 0
"""

_TWO_VALUES: Final = f"""
    select arm, count(*) as n from (
        select arm, topic, "partition", "offset" from ({_GIVEN}) group by all
        having count(distinct "value") > 1)
    group by all
"""

_GIVEN_AGAIN: Final = f"""
    with polls as (
        select arm, process, topic, "partition", poll, min("offset") as low, max("offset") as high
        from ({_GIVEN}) group by all
    ),
    turns as (
        select *, max(high) over (
            partition by arm, process, topic, "partition" order by poll
            rows between 1 preceding and 1 preceding) as before
        from polls
    )
    select arm, count(*) as n from turns where low <= before group by all
"""

_NEVER_GIVEN: Final = f"""
    with held as ({_FINAL_LOG}),
    given as ({_GIVEN}),
    spans as (
        select arm, process, topic, "partition", min("offset") as low, max("offset") as high
        from given group by all
    ),
    missing as (
        select s.arm, s.process, s.topic, s."partition", h."offset"
        from spans s join held h using (arm, topic, "partition")
        where h."offset" > s.low and h."offset" < s.high
            and (s.arm, s.process, s.topic, s."partition", h."offset") not in (
                select (arm, process, topic, "partition", "offset") from given)
    )
    select m.arm, count(distinct (m.process, m.topic, m."partition", g."offset")) as n
    from missing m asof join given g
    on (m.arm = g.arm and m.process = g.process and m.topic = g.topic
        and m."partition" = g."partition" and m."offset" > g."offset")
    group by all
"""

_BEHIND: Final = """
    with newest as (
        select arm, topic, "partition", max(leader_epoch) as leader_epoch
        from leadership where source = 'zk' group by all
    ),
    last as (
        select arm, node, topic, "partition", max_by(leader_epoch, invoke_t) as leader_epoch
        from metadata where type = 'ok' and leader_epoch >= 0 group by all
    )
    select l.arm, count(*) as n from last l join newest n using (arm, topic, "partition")
    where l.leader_epoch < n.leader_epoch group by all
"""

_MORE: Final = {
    "replica-differs": _UNLIKE,
    "replica-hole": _HOLES,
    "epochs-out-of-order": _DISORDER,
    "epoch-never-committed": _OF_NO_EPOCH,
    "misplaced": _MISPLACED,
    "read-before-sent": _GIVEN_BEFORE,
    "read-otherwise": _OF_ANOTHER_EPOCH,
    "failed-write-read": _GIVEN_THOUGH_FAILED,
    "inconsistent-offset": _TWO_VALUES,
    "poll-went-back": _GIVEN_AGAIN,
    "poll-skipped": _NEVER_GIVEN,
    "metadata-never-converged": _BEHIND,
}


class SecondOpinion:
    """Figures by arm; ``violations``: by rule, over all arms."""

    def __init__(self, tables: Mapping[str, pa.Table | Path]) -> None:
        """``tables``: by kind; a folder is one of Parquet files."""
        self._db = duckdb.connect()
        for name, table in tables.items():
            if isinstance(table, Path):
                self._db.sql(f"create view \"{name}\" as from '{table}/*.parquet'")
            else:
                self._db.register(name, table)
        self.violations: Counter[str] = Counter()
        self.figures: dict[str, dict[str, Any]] = {}
        self._promised()
        self._read()
        self._metadata()
        self._latency()
        self._records()

    def more(self) -> None:
        """Of what consumers were given, and what replicas hold; and of brokers that show an older
        leader in the end."""
        for rule, query in _MORE.items():
            for row in self._ask(query):
                self._count(rule, row["n"])

    def _ask(self, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._db.sql(query).to_arrow_table().to_pylist()
        return found

    def _of(self, arm: str) -> dict[str, Any]:
        return self.figures.setdefault(arm, {})

    def _count(self, rule: str, n: int | None) -> None:
        if n:
            self.violations[rule] += int(n)

    def _promised(self) -> None:
        for row in self._ask(_PROMISED):
            name = "acked_all" if row["acks"] == -1 else "acked_1"
            self._of(row["arm"])[name] = row["n"]
            if row["acks"] == -1:
                self._count("acked-all-lost", row["gone"])
                self._count("acked-all-moved", row["moved"])
            else:
                self._count("unexplained-loss", row["gone"] + row["moved"])

    def _read(self) -> None:
        for row in self._ask(_READ):
            self._count("read-then-changed", row["changed"])
            self._count("read-then-gone", row["gone"])

    def _metadata(self) -> None:
        for query, rule in ((_BACK, "metadata-went-back"), (_UNHEARD, "metadata-never-committed")):
            for row in self._ask(query):
                self._count(rule, row["n"])
        for row in self._ask(_STALE):
            self._of(row["arm"]).update(row)

    def _latency(self) -> None:
        for row in self._ask(_STAGES):
            self._of(row["arm"])[row["stage"]] = row

    def _records(self) -> None:
        for row in self._ask(_RECORDS):
            self._count("failed-write-visible", row["failed_visible"])
            self._count("duplicate-append", row["twice"])
            self._of(row["arm"])["found"] = int(row["found"])
            self._of(row["arm"])["foreign_records"] = int(row["strange"] or 0)
