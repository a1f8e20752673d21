"""From a spec's role to the function that plays it. Imports are late: each role needs its own."""

from __future__ import annotations

from collections.abc import Callable

from harness.workload.lifecycle import Lifecycle
from harness.workload.recorder import LiveRecorder
from harness.workload.spec import WorkloadError, WorkloadSpec

Run = Callable[[LiveRecorder, Lifecycle], None]


def role(spec: WorkloadSpec) -> Run:
    """The role's run function, its parameters read and checked."""
    if spec.role == "producer":
        from harness.workload import producer

        return producer.Producer(spec, spec.read_params(producer.Params)).run
    if spec.role == "direct-producer":
        from harness.workload import direct_producer

        return direct_producer.DirectProducer(spec, spec.read_params(direct_producer.Params)).run
    if spec.role == "consumer":
        from harness.workload import consumer

        return consumer.Consumer(spec, spec.read_params(consumer.Params)).run
    if spec.role == "joint-producer":
        from harness.workload import joint_producer

        return joint_producer.JointProducer(spec, spec.read_params(joint_producer.Params)).run
    if spec.role == "group-consumer":
        from harness.workload import group_consumer

        return group_consumer.GroupConsumer(spec, spec.read_params(group_consumer.Params)).run
    if spec.role == "group-stranger":
        from harness.workload import group_stranger

        return group_stranger.GroupStranger(spec, spec.read_params(group_stranger.Params)).run
    if spec.role == "group-keeper":
        from harness.workload import group_keeper

        return group_keeper.GroupKeeper(spec, spec.read_params(group_keeper.Params)).run
    if spec.role == "group-riser":
        from harness.workload import group_riser

        return group_riser.GroupRiser(spec, spec.read_params(group_riser.Params)).run
    if spec.role == "group-couple":
        from harness.workload import group_couple

        return group_couple.GroupCouple(spec, spec.read_params(group_couple.Params)).run
    if spec.role == "group-absent":
        from harness.workload import group_absent

        return group_absent.GroupAbsent(spec, spec.read_params(group_absent.Params)).run
    if spec.role == "group-pair":
        from harness.workload import group_pair

        return group_pair.GroupPair(spec, spec.read_params(group_pair.Params)).run
    if spec.role == "metadata-reader":
        from harness.workload import metadata_reader

        return metadata_reader.MetadataReader(spec, spec.read_params(metadata_reader.Params)).run
    if spec.role == "offset-reader":
        from harness.workload import offset_reader

        return offset_reader.OffsetReader(spec, spec.read_params(offset_reader.Params)).run
    if spec.role == "record-deleter":
        from harness.workload import record_deleter

        return record_deleter.RecordDeleter(spec, spec.read_params(record_deleter.Params)).run
    if spec.role == "refused-asker":
        from harness.workload import refused_asker

        return refused_asker.RefusedAsker(spec, spec.read_params(refused_asker.Params)).run
    if spec.role == "prober":
        from harness.workload import prober

        return prober.Prober(spec, spec.read_params(prober.Params)).run
    raise WorkloadError(f"workload {spec.process!r}: role {spec.role!r} is not known")
