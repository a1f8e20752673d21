"""One trial: one cluster's life in one arm, from cold start to the final read of every log.

    start -> topics -> workloads -> warm-up -> chaos (the plan) -> heal -> quiesce -> settle
          -> stop load -> final read -> stop -> evidence

Everything that happens is on disk (live JSONL files below the trial's folder) before anybody judges
it. Whatever goes wrong on the way, the faults are healed, every process is stopped and what was
recorded stays: an infrastructure fault becomes an ``infra`` row, and the checkers make of it an
`unknown`. Whatever comes after it proves nothing, so from there on nothing is waited for: the trial
heals, reads what can be read, and ends.
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from checkers.history.run_info import UNIQUE
from faults.plan import Plan
from faults.protocol import Capability, Entry, FaultFailed, Link
from harness import pulse
from harness.clock import tie_clocks, widen
from harness.cluster.cluster import Cluster
from harness.cluster.descriptions import record_descriptions
from harness.cluster.external import ExternalCluster, cluster_of
from harness.cluster.final_read import final_read
from harness.cluster.log_folders import record_folders
from harness.cluster.operations import record_operations
from harness.cluster.placements import record_placements
from harness.cluster.plane_metrics import record_at_rest
from harness.cluster.record import Record
from harness.cluster.refusals import record_refusals
from harness.cluster.rest import Rest, in_words
from harness.cluster.shown import shown_to_clients
from harness.cluster.versions import record_versions
from harness.disk import remove_flood_logs
from harness.history.served import Served
from harness.history.served import in_words as needed
from harness.interrupts import check, interruptible, pending, uninterrupted
from harness.runtime.protocol import Runtime, SetupError
from harness.scenarios.base import Role, Scenario, Stage
from harness.schedule import Schedule
from harness.settings import Settings
from harness.so_far import SoFar
from harness.strain import Strain, measured
from harness.sut.external.own import apart
from harness.sut.protocol import (
    EVIDENCE_SUMMARY,
    ClockTie,
    Planes,
    RunsAlready,
    first_node_of,
    limits_of,
)
from harness.trial_result import LAST_FAULT_S, Arm, TrialResult
from harness.workload import WorkloadError, WorkloadProcess, WorkloadSpec, launch
from harness.workload.recorder import LiveRecorder, RecorderFailed
from harness.workload.told import told

Progress = Callable[[str], None]

_BOUNDED_DISK_BYTES: Final = 512 << 20
_LOOK_S: Final = 0.25
_MOST_PATIENCE: Final = 2.0
"""Of the time that a scenario gives what was healed: more than whoever judges may ask for."""
_COMING_UP_S: Final = 8.0
"""So long a topic that is refused is asked for again: brokers have only just come. Whoever refuses
it for longer has no excuse, and is judged (`checkers.promises.administration`)."""
_ASK_AGAIN_S: Final = 0.5


class TrialRunner:
    """Runs one trial. Owned by the run's main thread; `interrupt` may be called from any."""

    def __init__(
        self,
        scenario: Scenario,
        arm: Arm,
        trial: int,
        *,
        plan: Plan,
        settings: Settings,
        runtime: Runtime,
        folder: Path,
        progress: Progress,
        on_stopping: Callable[[], None] | None = None,
    ) -> None:
        self.scenario, self.arm, self.plan, self.settings = scenario, arm, plan, settings
        self.runtime, self.progress, self._on_stopping = runtime, progress, on_stopping
        self.result = TrialResult(arm.label, trial, folder)
        self.live = folder / "live"
        self._so_far = SoFar(self.live)
        self._in_place: dict[str, str] = {}
        self.refusal: SetupError | None = None
        """Why the cluster could not even be started, where that is for the user to mend."""
        self._interrupted = False
        self._strain = Strain()
        self._over = threading.Event()
        """Interrupted, or something that the trial stands on failed: nothing is waited for."""

    def interrupt(self) -> None:
        """Wind the trial up: no further phase begins, the plan is healed."""
        self._interrupted = True
        self._over.set()

    def run(self) -> TrialResult:
        """Never raises for what happens inside the cluster; KeyboardInterrupt passes through."""
        first_tie = tie_clocks()
        self.live.mkdir(parents=True, exist_ok=True)
        recorder = LiveRecorder(
            self.live / "harness.jsonl", "harness", on_failure=self._cannot_record
        )
        limits = limits_of(self.arm.sut)
        cluster = cluster_of(
            self.runtime,
            self.arm.sut,
            self.arm.planes,
            dir=self.result.folder,
            record=self._watching_infra(recorder),
            rng=random.Random(f"{self.settings.seed}:cluster"),
            nodes=limits.nodes,
            first_node=first_node_of(self.arm.sut, self.settings.seed),
            overrides=self._overrides(),
            session_timeout_ms=self.scenario.session_timeout_ms,
            disk_bytes=self._disk_bytes(),
            late_links=self.scenario.late_links,
            frames=Capability.FRAMES in self.plan.needs(),
        )
        self.result.log_dirs = cluster.log_dirs
        with uninterrupted():
            try:
                with (
                    interruptible(),
                    pulse.watched(recorder.event),
                    measured(recorder.event, time.monotonic_ns) as self._strain,
                ):
                    self._live(cluster, recorder)
            except Exception as error:
                self.result.failure = f"{type(error).__name__}: {error}"
                self.refusal = error if isinstance(error, SetupError) else None
                recorder.event("infra", component="runtime", reason=self.result.failure)
                (self.result.folder / "failure.txt").write_text(traceback.format_exc())
            finally:
                self._end(cluster, recorder, first_tie)
        return self.result

    def _end(self, cluster: Cluster, recorder: LiveRecorder, first_tie: ClockTie) -> None:
        self.progress("stopping")
        if self._on_stopping is not None and not (self._over.is_set() or pending()):
            self._on_stopping()
        cluster.stop()
        self._collect_evidence(cluster, recorder, first_tie)
        if not self.settings.keep_data:
            remove_flood_logs(cluster.log_dirs, self.result.topics)
        try:
            recorder.close()
        except RecorderFailed as error:
            self.result.failure = self.result.failure or f"RecorderFailed: {error}"
        self.result.end_t = time.monotonic_ns()

    def _watching_infra(self, recorder: LiveRecorder) -> Record:
        """Records for the cluster, and ends the trial with the first row that makes it unknown."""

        def record(kind: str, /, **fields: Any) -> None:
            recorder.event(kind, **fields)
            if kind == "infra" and not self._over.is_set():
                self.progress(f"ending: {fields['component']} {fields['reason']}"[:200])
                self._over.set()

        return record

    # -- the phases -----------------------------------------------------------------------------

    def _live(self, cluster: Cluster, recorder: LiveRecorder) -> None:
        self.progress("starting")
        with self._phase(recorder, "start"):
            cluster.start()
            stage = self._stage(cluster)
            if isinstance(cluster, ExternalCluster):
                self.scenario, self.plan = apart(self.scenario, self.plan, stage, cluster.own.token)
            self._create_topics(cluster, stage)
        schedule = self._schedule(cluster, recorder)
        with uninterrupted(), ExitStack() as stack:
            stack.callback(schedule.heal_all)
            with interruptible():
                self._under_load(cluster, stage, schedule, recorder, stack)
        with self._phase(recorder, "final_read"):
            self.progress("reading every replica's log")
            record_at_rest(cluster)
            final_read(cluster, sorted(self.result.topics), over=self._over.is_set)
            if Capability.LOG_FILES in cluster.capabilities:
                record_folders(cluster, sorted(self.result.topics))
            record_descriptions(cluster, sorted(self.result.topics))
            record_at_rest(cluster)  # what comes next asks the controller for topics
            record_versions(cluster, sorted(self.result.topics))
            record_refusals(cluster, sorted(self.result.topics))
            record_operations(cluster, sorted(self.result.topics))
            if not isinstance(cluster, ExternalCluster):  # nobody else's controller makes topics
                record_placements(cluster)

    def _under_load(
        self,
        cluster: Cluster,
        stage: Stage,
        schedule: Schedule,
        recorder: LiveRecorder,
        stack: ExitStack,
    ) -> None:
        """``stack``: takes what is to be ended afterwards, however this ends."""
        workloads = self._launch(cluster, stage, stack)
        # On Ctrl-C this comes first: no fault may begin while the load is being ended.
        stack.push(lambda kind, *_: self._wind_up(kind, cluster, schedule, workloads))
        with self._phase(recorder, "warmup"):
            self.progress("warm-up")
            self._over.wait(self.settings.profile.warmup_s)
            if not self._over.is_set():
                with uninterrupted():  # floods start their processes here, see `_schedule`
                    schedule.prepare()
        with self._phase(recorder, "chaos"):
            self._chaos(schedule, workloads)
        if self._over.is_set():
            cluster.wind_up()
        with self._phase(recorder, "heal"):
            self.progress("healing")
            schedule.heal_all()
        self._come_to_rest(cluster, recorder)
        self._stop_workloads(workloads, recorder)

    def _come_to_rest(self, cluster: Cluster, recorder: LiveRecorder) -> None:
        served = Served(self.live, self.result.workloads or [])
        rest = Rest(cluster)
        if self._over.is_set():
            return  # with what it stands on gone, nothing comes to rest: no broker's doing
        since_t = time.monotonic_ns()
        with self._phase(recorder, "quiesce"):
            self.progress("quiescing")
            quiet = rest.wait(lambda: self._patience_s(since_t), self._over.is_set)
            if not quiet:
                self._timeout(recorder, "quiesce", in_words(rest.lacking))
        if quiet:  # else it has been waited for, in vain, much longer than this
            with self._phase(recorder, "settle"):
                self.progress("looking on")
                self._settle(since_t)
                self._look_on(rest, served, recorder, since_t)
        rest.record()

    def _patience_s(self, healed_t: int) -> float:
        """How long what lacks is waited for until it can be told from what is late. Where a busy
        machine makes all late whoever judges gives it longer, as in `_settle`."""
        times = min(_MOST_PATIENCE, self._strain.patience(healed_t))
        return self.scenario.quiesce_s * times

    def _settle(self, healed_t: int) -> None:
        """Wait for what a busy machine takes longer for, too: whoever judges gives it longer
        (`checkers.facts.strain`), and needs rows from after that."""
        begun = time.monotonic()
        while not self._over.is_set():
            enough_s = self.settings.profile.settle_s * self._strain.patience(healed_t)
            left_s = enough_s - (time.monotonic() - begun)
            if left_s <= 0:
                return
            self._over.wait(min(left_s, 1.0))

    @staticmethod
    def _wind_up(
        kind: object, cluster: Cluster, schedule: Schedule, workloads: list[WorkloadProcess]
    ) -> None:
        """``kind``: of the exception that ended the load, if one did: then nobody waits."""
        schedule.stop()
        if kind is not None:
            cluster.wind_up()
            for process in workloads:
                process.tell_to_end()

    def _look_on(self, rest: Rest, served: Served, recorder: LiveRecorder, healed_t: int) -> None:
        """End at once when all is at rest and every client was served. Else there may be something
        that never recovers: give it, and those who would see it, the time to show."""
        begun = time.monotonic()
        while True:
            at_rest = rest.read()
            waiting = [] if at_rest else [in_words(rest.lacking)]
            waiting += [f"not served: {needed(need)}" for need in served.waiting()]
            if not waiting:
                return
            if time.monotonic() - begun > self._patience_s(healed_t):
                self._timeout(recorder, "settle", "; ".join(waiting[:3]))
                return
            self.progress(f"looking on: {waiting[0]}")
            if self._over.wait(_LOOK_S):
                return

    def _timeout(self, recorder: LiveRecorder, name: str, lacking: str) -> None:
        self.progress(f"not at rest in time: {lacking}")
        recorder.event("phase", name=name, event="timeout")

    def _chaos(self, schedule: Schedule, workloads: list[WorkloadProcess]) -> None:
        end_ns = time.monotonic_ns() + int(self.settings.profile.chaos_s * 1e9)
        schedule.start()
        while not self._over.is_set() and time.monotonic_ns() < end_ns:
            left_s = (end_ns - time.monotonic_ns()) / 1e9
            faults = [f"{fault} in place" for fault in dict.fromkeys(self._in_place.values())]
            told = [f"{left_s:.0f} s left", *faults, *self._so_far.words(time.monotonic())]
            self.progress(", ".join(["chaos", *told]))
            self._over.wait(min(0.5, max(0.0, left_s)))
            if not all(process.alive() for process in workloads):
                self._over.set()  # `_stop_workloads` says who, and why
        deadline = time.monotonic() + LAST_FAULT_S
        while not self._over.is_set() and time.monotonic() < deadline:
            if schedule.join(timeout_s=0.5):
                return

    def _stage(self, cluster: Cluster) -> Stage:
        nodes = tuple(cluster.node_ids)
        controller = cluster.view.controller()
        if controller is None:
            raise FaultFailed("no controller is elected although the cluster said it was ready")
        victim = next((node for node in nodes if node != controller), controller)
        return Stage(
            nodes=nodes, controller=controller, victim=victim, profile=self.settings.profile
        )

    def _create_topics(self, cluster: Cluster, stage: Stage) -> None:
        for topic in self.scenario.topics(stage):
            made_with = topic.configs if topic.made_with is None else topic.made_with
            for once in Retrying(
                retry=retry_if_exception_type(FaultFailed),
                stop=stop_after_delay(_COMING_UP_S),
                wait=wait_fixed(_ASK_AGAIN_S),
                reraise=True,
            ):
                with once:
                    cluster.admin.create_topic(topic.name, topic.assignment, made_with)
            self.result.topics[topic.name] = {
                "assignment": {str(p): list(r) for p, r in topic.assignment.items()},
                "configs": {**topic.configs, **topic.given_later},
                "keys": UNIQUE,  # of all that workloads send (harness/workload/values.py)
            }
        if not cluster.wait_full_isr(None, 20.0):
            raise FaultFailed("topics under test did not reach a full ISR within 20 s")
        for topic in self.scenario.topics(stage):
            if topic.made_with is not None:
                cluster.admin.alter_topic_configs(topic.name, topic.configs)

    def _schedule(self, cluster: Cluster, recorder: LiveRecorder) -> Schedule:
        sut = self.arm.sut
        if isinstance(sut, RunsAlready):
            plan, skipped = sut.playable(self.plan)
        else:
            plan, skipped = self.plan.for_capabilities(cluster.capabilities)
        for entry, reason in skipped:
            self.result.skipped_faults.append(f"{entry.id} ({entry.fault}): {reason}")
        self.result.faults = sorted({entry.fault for entry in plan.entries})
        self.result.planned = [
            {
                "id": entry.id,
                "fault": entry.fault,
                "at_ms": entry.at_ms,
                "duration_ms": entry.duration_ms,
            }
            for entry in plan.entries
        ]
        store = self.live / "faults"
        store.mkdir(exist_ok=True)
        return Schedule(
            plan.build(),
            seed=plan.seed,
            context_for=lambda rng, stop: cluster.context(
                store=store, rng=rng, stopping=lambda: stop.is_set() or pending()
            ),
            record=recorder.event,
            now_ns=time.monotonic_ns,
            on_step=self._step,
        )

    def _step(self, entry: Entry, phase: str) -> None:
        """Of the plan, in a thread of its own."""
        if phase == "injected":
            self._in_place[entry.id] = entry.fault
        elif phase in ("healed", "failed"):
            self._in_place.pop(entry.id, None)
        self.progress(f"{entry.fault}: {phase}")

    def _launch(self, cluster: Cluster, stage: Stage, stack: ExitStack) -> list[WorkloadProcess]:
        running: list[WorkloadProcess] = []
        self.result.workloads = []
        for index, role in enumerate(self.scenario.workloads(stage)):
            reason = self._unserved(role, cluster)
            if reason:
                self.result.skipped_roles.append(f"{role.process} ({role.role}): {reason}")
                continue
            spec = self._workload_spec(cluster, role, index)
            self.result.workloads.append(told(spec))
            with uninterrupted():
                process = launch(spec)
                stack.callback(process.stop)
            running.append(process)
        for process in running:
            process.wait_ready()
        return running

    def _unserved(self, role: Role, cluster: Cluster) -> str | None:
        """Why a role is left out; None: it is not."""
        missing = role.needs - cluster.capabilities
        if missing:
            return f"{self.arm.sut.name} lacks {', '.join(sorted(missing))}"
        return limits_of(self.arm.sut).unserved.get(role.role)

    def _workload_spec(self, cluster: Cluster, role: Role, index: int) -> WorkloadSpec:
        params = dict(role.params)
        if role.role == "prober":  # speaks as the controller would: to the plane that it would use
            params["zookeeper"] = cluster.zookeeper
            params["listeners"] = {
                node: self._probed(cluster, node) for node in params.pop("nodes", cluster.node_ids)
            }
        bootstrap = {node: str(cluster.address(node, Link.CLIENT)) for node in cluster.node_ids}
        return WorkloadSpec(
            role=role.role,
            process=role.process,
            output=str(self.live / f"{role.process}.jsonl"),
            bootstrap=bootstrap,
            params=params,
            seed=self.settings.seed + index,
        )

    def _probed(self, cluster: Cluster, node: int) -> dict[str, str]:
        if self.arm.planes == Planes.DUAL:
            return {"control": str(cluster.address(node, Link.CONTROL))}
        return {"data": str(cluster.address(node, Link.INTER_BROKER))}

    def _stop_workloads(self, workloads: list[WorkloadProcess], recorder: LiveRecorder) -> None:
        """One after the other, and then all consumers at once, so that they may be given all that
        was written; where the trial is over anyway, all at once."""
        readers = [process for process in workloads if process.spec.role == "consumer"]
        one_by_one = [[process] for process in workloads if process not in readers]
        for together in [workloads] if self._over.is_set() else [*one_by_one, readers]:
            died = {process.pid for process in together if not process.alive()}
            for process in together:
                process.tell_to_end()
            for process in together:
                code = process.stop()
                if process.pid in died or code not in (0, None):
                    words = process.last_words()
                    recorder.event(
                        "infra",
                        component="worker",
                        reason=f"workload {process.spec.process} ended with {code}: {words}",
                    )

    def _collect_evidence(
        self, cluster: Cluster, recorder: LiveRecorder, first_tie: ClockTie
    ) -> None:
        """Bring the nodes' own rows into the live folder, whatever state the trial ended in."""
        tie = widen(first_tie, tie_clocks())  # the clocks may drift apart while a trial lasts
        for node in cluster.node_ids:
            path = self.live / f"node-{node}.jsonl"
            try:
                with path.open("wb") as file:
                    for row in self.arm.sut.evidence(cluster.layout(node), tie):
                        file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
            except (OSError, ValueError) as error:
                recorder.event(
                    "infra", component="runtime", reason=f"evidence of node {node}: {error}"
                )
            summary = cluster.layout(node).dir / EVIDENCE_SUMMARY
            if summary.exists():
                self.result.evidence[str(node)] = orjson.loads(summary.read_bytes())
        if limits_of(self.arm.sut).leaders == "shown":
            for row in shown_to_clients(self.live):
                recorder.event("leadership", **row)

    def _cannot_record(self, says: str) -> None:
        """Kept in memory, too, since run.json may be all that can be written in the end."""
        self.result.failure = self.result.failure or f"RecorderFailed: {says}"
        self.progress(says)
        self._over.set()

    # -- small things ---------------------------------------------------------------------------

    def _disk_bytes(self) -> int | None:
        """Disks are bounded only where the plan fills one: a run without that is not slowed."""
        needed = Capability.BOUNDED_DISK in self.plan.needs() & self.runtime.capabilities
        return _BOUNDED_DISK_BYTES if needed else None

    def _overrides(self) -> dict[str, str]:
        overrides = {**self.scenario.overrides, **self.settings.overrides}
        if self.settings.mutants:
            overrides["biplane.mutants"] = ",".join(self.settings.mutants)
        return overrides

    @contextmanager
    def _phase(self, recorder: LiveRecorder, name: str) -> Iterator[None]:
        check()
        if self._interrupted:
            raise WorkloadError(f"the run was stopped before its phase {name!r}")
        recorder.event("phase", name=name, event="begin")
        try:
            yield
        finally:
            recorder.event("phase", name=name, event="end")
