"""All logs of a broker, over one or more log directories (Kafka's LogManager).

A directory belongs to one broker (`meta.properties`). A clean stop leaves `.kafka_cleanshutdown`
behind, which the next start removes at once: a crash before the next clean stop is then seen.
New logs go to the directory with the fewest. Deletion is in two steps: the directory is renamed
at once (a topic of that name may come again), its files go `file.delete.delay.ms` later, with
`cleanup`.

Threads: any; one lock guards the maps and is never held while a log is loaded, flushed or cleaned.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log import checkpoints
from nodes.log.config import LogConfig, LogConfigError
from nodes.log.failure import NOT_THE_DISK
from nodes.log.flusher import Flusher
from nodes.log.log import NEVER_CLEANED, Log
from nodes.log.paths import OutsideLogDir, inside, partition_dir, partition_of
from nodes.log.removal import delete_directory, is_deleted
from nodes.log.upkeep import KeptLog

_logger = logging.getLogger("kafka.log.LogManager")


OnFailure = Callable[[Path, OSError], None]
"""A disk refused: (log directory, why). Called under locks; must not call back."""
OnStartMoved = Callable[[KeptLog, int, str], None]
"""A log begins later: (log, its start before, why). Called under locks; must not call back."""


class LogDirError(Exception):
    """A log directory that this broker cannot use."""


class LogManager:
    """See the module's text."""

    def __init__(
        self,
        log_dirs: Iterable[Path | str],
        default_config: LogConfig,
        *,
        now_ms: Callable[[], int],
        broker_id: int,
        verify_tail: bool = True,
        on_failure: OnFailure = lambda _directory, _error: None,
        on_start_moved: OnStartMoved = lambda _log, _before, _reason: None,
        draw_below: Callable[[int], int] = lambda _bound: 0,
    ) -> None:
        """`on_failure` hears of a directory that the disk refuses to write, perhaps many times.
        `draw_below` gives a random number of milliseconds below its argument (segments' jitter).
        """
        self.log_dirs = [Path(directory) for directory in log_dirs]
        if not self.log_dirs:
            raise LogDirError("log.dirs names no directory")
        self.default_config = default_config
        self.broker_id = broker_id
        self._now_ms = now_ms
        self._draw_below = draw_below
        self._verify_tail = verify_tail
        self._on_failure = on_failure
        self._on_start_moved = on_start_moved
        self._lock = threading.Lock()
        self._logs: dict[TopicPartition, Log] = {}
        self._topic_ids: dict[TopicPartition, uuid.UUID] = {}
        self._deleted: list[tuple[int, Log]] = []
        self.failed_log_dirs: set[Path] = set()
        self._flusher = Flusher()
        self._checkpoint_lock = threading.Lock()
        #: Partitions without a log whose positions may still stand in the checkpoints.
        self._stale: set[TopicPartition] = set()

    def load(
        self, config_of: Callable[[TopicPartition], LogConfig | None] = lambda tp: None
    ) -> None:
        """Opens every log on disk; `config_of` gives a topic's settings (None: the defaults). A
        directory that cannot be read is done without, unless it is the last.

        Raises `LogDirError` and OSError.
        """
        for directory in self.log_dirs:
            with self._done_without(directory):
                directory.mkdir(parents=True, exist_ok=True)
        self._check_distinct()
        for directory in self.live_log_dirs:
            with self._done_without(directory):
                self._load(directory, config_of)

    def _load(
        self, directory: Path, config_of: Callable[[TopicPartition], LogConfig | None]
    ) -> None:
        self._claim(directory)
        marker = directory / checkpoints.CLEAN_SHUTDOWN
        clean = marker.exists()
        marker.unlink(missing_ok=True)
        recovery_points = checkpoints.read_offsets(directory / checkpoints.RECOVERY_POINTS)
        start_offsets = checkpoints.read_offsets(directory / checkpoints.LOG_START_OFFSETS)
        cleaned = checkpoints.read_offsets(directory / checkpoints.CLEANED)
        for path in sorted(p for p in directory.iterdir() if p.is_dir()):
            try:
                inside(directory, path.name)
            except OutsideLogDir as refused:
                _logger.warning("Ignoring %s: %s", path, refused)
                continue
            if is_deleted(path.name):
                delete_directory(path)
                continue
            tp = partition_of(path.name)
            if tp is None:
                _logger.warning("Ignoring %s: not the name of a partition's log", path)
                continue
            other = self._logs.get(tp)
            if other is not None and other.dir != path:
                raise LogDirError(f"{other.dir} and {path} are both the log of {tp}: move one away")
            log = Log.open(
                path,
                tp,
                config_of(tp) or self.default_config,
                clean_shutdown=clean,
                now_ms=self._now_ms,
                recovery_point=recovery_points.get(tp, 0),
                log_start_offset=start_offsets.get(tp, 0),
                verify_tail=self._verify_tail,
                cleaned_upto=cleaned.get(tp, NEVER_CLEANED),
                draw_below=self._draw_below,
            )
            log.owner = self
            topic_id = checkpoints.read_partition_metadata(path)
            with self._lock:
                self._logs[tp] = log
                if topic_id is not None:
                    self._topic_ids[tp] = topic_id
        self._stale |= (
            recovery_points.keys() | start_offsets.keys() | cleaned.keys()
        ) - self._logs.keys()

    # ---- what logs tell (LogOwner) ---------------------------------------------------------------

    def failed(self, directory: Path, error: OSError) -> None:
        self._on_failure(directory, error)

    def rolled(self, log: KeptLog, upto: int) -> None:
        self._flusher.rolled(log, upto)

    def positions_lowered(self, log: KeptLog) -> None:
        # A crash before the next tick would otherwise leave a recovery point above records that
        # never were on the disk, or a start above records that are there.
        self.checkpoint_recovery_points()
        self.checkpoint_log_starts()

    def start_moved(self, log: KeptLog, from_offset: int, reason: str) -> None:
        self._on_start_moved(log, from_offset, reason)

    # ---- directories -----------------------------------------------------------------------------

    @property
    def live_log_dirs(self) -> list[Path]:
        """Those that have not failed."""
        return [directory for directory in self.log_dirs if directory not in self.failed_log_dirs]

    def take_out(self, directory: Path) -> None:
        """A directory has failed: its logs are nobody's any more, and none is made there."""
        with self._lock:
            self.failed_log_dirs.add(directory)
            for tp, log in list(self._logs.items()):
                if log.dir.parent == directory:
                    del self._logs[tp]
                    self._topic_ids.pop(tp, None)
            self._deleted = [entry for entry in self._deleted if entry[1].dir.parent != directory]

    @contextmanager
    def _done_without(self, directory: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self.live_log_dirs == [directory] or error.errno in NOT_THE_DISK:
                raise
            _logger.error("Error while loading log dir %s: %s", directory, error)
            self.take_out(directory)
            self._on_failure(directory, error)

    def _check_distinct(self) -> None:
        """The same directory by two names would be opened, locked and counted twice."""
        seen: dict[Path, Path] = {}
        for directory in self.log_dirs:
            other = seen.setdefault(directory.resolve(), directory)
            if other is not directory:
                raise LogDirError(f"log.dirs names one directory twice: {other}, {directory}")

    def _claim(self, directory: Path) -> None:
        path = directory / checkpoints.META_PROPERTIES
        values = checkpoints.read_properties(path)
        owner = values.get("broker.id")
        if owner is not None and owner != str(self.broker_id):
            raise LogDirError(
                f"{path}: broker.id={owner}, but this broker is {self.broker_id}; give it another "
                "log.dirs or the same broker.id"
            )
        if owner is None:
            checkpoints.write_properties(
                path, {"version": "0", **values, "broker.id": str(self.broker_id)}
            )

    def claim_cluster(self, cluster_id: str) -> None:
        """Ties the directories to a cluster; LogDirError when they belong to another one. Raises
        OSError when the last one cannot be tied."""
        for directory in self.live_log_dirs:
            with self._done_without(directory):
                path = directory / checkpoints.META_PROPERTIES
                values = checkpoints.read_properties(path)
                known = values.get("cluster.id", cluster_id)
                if known != cluster_id:
                    raise LogDirError(
                        f"{path}: cluster.id={known}, but the cluster is {cluster_id}"
                    )
                if "cluster.id" not in values:
                    checkpoints.write_properties(path, {**values, "cluster.id": cluster_id})

    def get(self, tp: TopicPartition) -> Log | None:
        """The log of a partition, None when there is none here."""
        return self._logs.get(tp)

    def get_or_create(
        self,
        tp: TopicPartition,
        config: LogConfig | None,
        topic_id: uuid.UUID | None,
        *,
        is_new: bool = True,
    ) -> Log:
        """The log of a partition, made when there is none; an existing one takes the settings.

        Raises ApiError INCONSISTENT_TOPIC_ID when the log belongs to another topic of that name,
        and KAFKA_STORAGE_ERROR when one that is not new may lie where a directory has failed.
        """
        if tp in self._stale:
            # They are another topic's: after a crash this log would be taken for flushed, or for
            # one whose records lie below its start.
            self.checkpoint_recovery_points()
            self.checkpoint_log_starts()
            self._checkpoint_cleaned()
            self._stale.discard(tp)
        with self._lock:
            log = self._logs.get(tp)
            if log is None:
                if self.failed_log_dirs and not is_new:
                    failed = ", ".join(map(str, sorted(self.failed_log_dirs)))
                    raise ApiError(
                        Errors.KAFKA_STORAGE_ERROR,
                        f"Can not create log for {tp} because log directories {failed} are offline",
                    )
                log = self._create(tp, config)
            elif config is not None:
                log.update_config(config)
            if topic_id is not None:
                known = self._topic_ids.setdefault(tp, topic_id)
                if known != topic_id:
                    raise ApiError(
                        Errors.INCONSISTENT_TOPIC_ID, f"{tp} has topic id {known}, not {topic_id}"
                    )
                with self._storage(log.dir.parent):
                    if not (log.dir / checkpoints.PARTITION_METADATA).exists():
                        checkpoints.write_partition_metadata(log.dir, topic_id)
            return log

    def reconfigure(
        self, defaults: LogConfig, overrides_of: Callable[[str], Mapping[str, str]]
    ) -> None:
        """New defaults, for the logs that there are as well; `overrides_of` gives a topic's own. A
        topic whose own do not go with them keeps what it had."""
        self.default_config = defaults
        of_topic: dict[str, list[Log]] = {}
        for tp, each in list(self._logs.items()):
            of_topic.setdefault(tp.topic, []).append(each)
        for topic, logs in of_topic.items():
            try:
                config = LogConfig.from_overrides(defaults, overrides_of(topic))
            except LogConfigError as problem:
                _logger.error("Topic %s keeps its configs: %s", topic, problem)
                continue
            for each in logs:
                each.update_config(config)

    def _create(self, tp: TopicPartition, config: LogConfig | None) -> Log:
        counts = dict.fromkeys(self.live_log_dirs, 0)
        for other in self._logs.values():
            counts[other.dir.parent] = counts.get(other.dir.parent, 0) + 1
        directory = self._make_directory(tp, sorted(self.live_log_dirs, key=lambda d: counts[d]))
        with self._storage(directory.parent):
            log = self._logs[tp] = Log.open(
                directory,
                tp,
                config or self.default_config,
                clean_shutdown=True,
                now_ms=self._now_ms,
                draw_below=self._draw_below,
            )
        log.owner = self
        return log

    def _make_directory(self, tp: TopicPartition, parents: Iterable[Path]) -> Path:
        """In the first log directory that takes it; raises the last one's OSError."""
        refused = OSError("No log directories available.")
        for parent in parents:
            directory = partition_dir(parent, tp)
            try:
                with self._storage(parent):
                    directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                refused = error
            else:
                return directory
        raise refused

    @contextmanager
    def _storage(self, directory: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._on_failure(directory, error)
            raise

    def all(self) -> list[Log]:
        """Every log that is not being deleted."""
        with self._lock:
            return list(self._logs.values())

    def topic_id(self, tp: TopicPartition) -> uuid.UUID | None:
        """The topic id that the log on disk carries."""
        return self._topic_ids.get(tp)

    def async_delete(self, tp: TopicPartition) -> None:
        """Renames a partition's log away now and removes its files later; none: no effect."""
        with self._lock:
            log = self._logs.pop(tp, None)
            self._topic_ids.pop(tp, None)
            if log is None:
                return
            if log.recovery_point or log.log_start_offset or log.cleaned_upto >= 0:
                self._stale.add(tp)
            log.rename_for_deletion()
            self._deleted.append((self._now_ms() + log.config.file_delete_delay_ms, log))

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks of the last checkpoint. Raises OSError when the last directory cannot
        be read."""
        found: dict[TopicPartition, int] = {}
        for directory in self.live_log_dirs:
            with self._done_without(directory):
                found.update(checkpoints.read_offsets(directory / checkpoints.HIGH_WATERMARKS))
        return found

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Replaces the checkpoint of high watermarks."""
        self._checkpoint(
            checkpoints.HIGH_WATERMARKS, lambda log: high_watermarks.get(log.tp), sync=False
        )

    def checkpoint_recovery_points(self) -> None:
        """Writes down what is known to be on the disk."""
        self._checkpoint(checkpoints.RECOVERY_POINTS, lambda log: log.recovery_point, sync=True)

    def checkpoint_log_starts(self) -> None:
        """Writes down where logs start."""
        self._checkpoint(checkpoints.LOG_START_OFFSETS, lambda log: log.log_start_offset, sync=True)

    def _checkpoint_cleaned(self) -> None:
        self._checkpoint(
            checkpoints.CLEANED,
            lambda log: None if log.cleaned_upto == NEVER_CLEANED else log.cleaned_upto,
            sync=True,
        )

    def _checkpoint(self, name: str, offset_of: Callable[[Log], int | None], *, sync: bool) -> None:
        """In each directory, whatever becomes of the others."""
        with self._checkpoint_lock:  # also for the order: an older value must not come last
            logs = self.all()
            for directory in self.live_log_dirs:
                offsets = {
                    log.tp: offset
                    for log in logs
                    if log.dir.parent == directory and (offset := offset_of(log)) is not None
                }
                with suppress(OSError), self._storage(directory):
                    checkpoints.write_offsets(directory / name, offsets, sync=sync)

    def flush_dirty_logs(self) -> None:
        """One tick of `kafka-log-flusher`: flushes logs that were not for their `flush.ms`."""
        now_ms = self._now_ms()
        for log in self.all():
            if now_ms - log.last_flush_ms >= log.config.flush_ms:
                try:
                    log.flush()
                except ApiError as error:
                    _logger.error("Error flushing topic %s: %s", log.tp.topic, error)

    def cleanup(self, high_watermark_of: Callable[[TopicPartition], int | None]) -> int:
        """One tick of `kafka-log-retention`: retention, and files of deleted logs that are due.

        A partition without a high watermark is left alone. Returns the segments removed.
        """
        now_ms = self._now_ms()
        removed = 0
        for log in self.all():
            high_watermark = high_watermark_of(log.tp)
            if high_watermark is not None:
                try:
                    removed += log.delete_old_segments(high_watermark, now_ms)
                except ApiError as error:
                    _logger.error("Error while deleting segments for %s: %s", log.tp, error)
        with self._lock:
            due = [log for due_ms, log in self._deleted if due_ms <= now_ms]
            self._deleted = [entry for entry in self._deleted if entry[0] > now_ms]
        self._delete(due)
        return removed

    def _delete(self, logs: Iterable[Log]) -> None:
        for log in logs:
            try:
                log.delete()
            except ApiError as error:
                _logger.error("Exception while deleting %s in %s: %s", log, log.dir.parent, error)

    def expire_producers(self, expiration_ms: int) -> None:
        """One tick of `PeriodicProducerExpirationCheck`: forgets producers that wrote nothing for
        that long."""
        upto_ms = self._now_ms() - expiration_ms
        for log in self.all():
            log.expire_producers(upto_ms)

    def clean_logs(self, high_watermark_of: Callable[[TopicPartition], int | None]) -> int:
        """One tick of `kafka-log-cleaner-thread-0`: compacts what is dirty enough, all of it.

        One thread only. Returns how many logs were cleaned."""
        count = 0
        for log in self.all():
            high_watermark = high_watermark_of(log.tp)
            if not log.config.is_compacted or high_watermark is None:
                continue
            try:
                cleaned = log.clean(high_watermark)
            except ApiError as error:
                _logger.error("%s was not cleaned: %s", log, error)
                continue
            if cleaned:
                _logger.info("Cleaned log %s up to offset %d", log.tp, log.cleaned_upto)
                self._checkpoint_cleaned()
                count += 1
        return count

    def close(self) -> None:
        """Closes all logs, writes their positions, then the marker of a clean stop in each
        directory whose logs were all closed."""
        self._flusher.close()
        unclean = set()
        for log in self.all():
            try:
                log.close()
            except ApiError as error:
                _logger.warning("%s was not closed: %s", log, error)
                unclean.add(log.dir.parent)
        with self._lock:
            deleted, self._deleted = self._deleted, []
        self._delete(log for _, log in deleted)
        self.checkpoint_recovery_points()
        self.checkpoint_log_starts()
        for directory in self.live_log_dirs:
            if directory not in unclean:
                with suppress(OSError), self._storage(directory):
                    marker = directory / checkpoints.CLEAN_SHUTDOWN
                    checkpoints.write_atomically(marker, "", sync=True)
