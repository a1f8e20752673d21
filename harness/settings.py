"""What a run was asked to do: validated once at the edge, frozen, saved with the run."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.sut.protocol import Planes


class SettingsError(ValueError):
    """An option that cannot be meant; the message names it and what is allowed. Exit code 254."""


_SETTLED_S: Final = 5.0
"""Ample for a healthy cluster, which takes milliseconds; short enough to be waited for."""
_AFTER_S: Final = 4.0
"""How long brokers are asked after a system's own long time, as `ci` does."""
_MARGIN_S: Final = 0.5
"""Of reads after that moment, so that several brokers are asked, several times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How much of everything. Seconds are of one trial's chaos phase."""

    name: str
    chaos_s: float
    warmup_s: float
    rounds: int
    """How often each arm is run; rounds are interleaved (single, dual, single, dual, ...)."""
    says: str
    settled_s: float = _SETTLED_S
    """How long after healing brokers may still show old leaders and in-sync sets, where that can be
    waited for."""
    settle_s: float = 0.0
    """How long the load (readers of metadata above all) goes on after all faults were healed and
    all replicas had caught up: what never recovers can only be seen by those who still look."""

    @property
    def settling_ms(self) -> int | None:
        """How long after healing brokers may still show old leaders: ``settled_s``, or as much less
        as this profile can see to the end of. None: it does not look on."""
        if self.settle_s <= _MARGIN_S:
            return None
        return int(1000 * min(self.settled_s, self.settle_s - _MARGIN_S))

    def patient(self, settled_s: float) -> Profile:
        """For systems that need so long: what they need is also looked on for."""
        if settled_s <= self.settled_s:
            return self
        longer = max(self.settle_s, settled_s + _AFTER_S)
        return dataclasses.replace(self, settled_s=settled_s, settle_s=longer)


PROFILES: Final = {
    profile.name: profile
    for profile in (
        # Minutes in all, so that 2 s must do for settling.
        Profile(
            name="smoke",
            chaos_s=8.0,
            warmup_s=1.0,
            settle_s=2.5,
            rounds=1,
            says="minutes, on any machine",
        ),
        # Settling: 5 s for metadata to be right, or 5 s and 3 s more for produces to be accepted.
        Profile(
            name="ci",
            chaos_s=20.0,
            warmup_s=2.0,
            settle_s=9.0,
            rounds=1,
            says="the chaos stage of a CI",
        ),
        Profile(name="nightly", chaos_s=120.0, warmup_s=5.0, settle_s=9.0, rounds=5, says="hours"),
        # Of one round; how many there are is `harness.soak`'s.
        Profile(
            name="soak",
            chaos_s=60.0,
            warmup_s=2.0,
            settle_s=9.0,
            rounds=1,
            says="rounds with new seeds for as long as --time-limit says (biplane run)",
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run's settings. Build with `Settings.of`, which checks them."""

    profile: Profile
    seed: int
    store: Path
    runtime: str
    suts: tuple[str, ...]
    planes: tuple[Planes, ...] | None
    """Restrict scenarios to these plane modes; None: each scenario's own."""
    plan: Path | None = None
    """Run this plan instead of the scenario's."""
    mutants: tuple[str, ...] = ()
    """Planted bugs for the bundled server: the harness must find them."""
    overrides: dict[str, str] = field(default_factory=dict)
    """Broker configs (Kafka's names) on top of the scenario's."""
    keep_data: bool = False
    """Keep the brokers' log directories of a valid run too (those of any other are always kept)."""
    agreed: bool = False
    """Whether somebody said yes to faults in clusters that run already (``external:``)."""
    live: bool = False
    """Say what is certain while it goes on (`harness.live`)."""

    @classmethod
    def of(
        cls,
        *,
        profile: str = "smoke",
        seed: int | None = None,
        store: str | Path = "store",
        runtime: str = "process",
        sut: str = "dualplane",
        planes: str | None = None,
        time_limit_s: float | None = None,
        rounds: int | None = None,
        plan: str | Path | None = None,
        mutants: str = "",
        overrides: dict[str, str] | None = None,
        keep_data: bool = False,
        agreed: bool = False,
        kafka_version: str | None = None,
        live: bool = False,
    ) -> Settings:
        chosen = PROFILES.get(profile)
        if chosen is None:
            raise SettingsError(f"--profile: {profile!r}; allowed: {', '.join(PROFILES)}")
        if time_limit_s is not None:
            if not 1 <= time_limit_s <= 86_400:
                raise SettingsError(
                    f"--time-limit: {time_limit_s}; allowed: 1 to 86400 seconds of chaos a trial"
                )
            chosen = dataclasses.replace(chosen, chaos_s=float(time_limit_s))
        if rounds is not None:
            if not 1 <= rounds <= 1000:
                raise SettingsError(f"--rounds: {rounds}; allowed: 1 to 1000")
            chosen = dataclasses.replace(chosen, rounds=rounds)
        if seed is None:
            seed = random.SystemRandom().randrange(2**31)
        if not 0 <= seed < 2**63:
            raise SettingsError(f"--seed: {seed}; allowed: 0 to 2^63 - 1")
        return cls(
            profile=chosen,
            seed=seed,
            store=Path(store),
            runtime=runtime,
            suts=_of_release(_names(sut, "--sut"), kafka_version),
            planes=_planes(planes),
            plan=None if plan is None else Path(plan),
            mutants=_names(mutants, "--mutants") if mutants else (),
            overrides=dict(overrides or {}),
            keep_data=keep_data,
            agreed=agreed,
            live=live,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON for run.json."""
        data = dataclasses.asdict(self)
        data["store"] = str(self.store)
        data["plan"] = None if self.plan is None else str(self.plan)
        return data


def _names(text: str, option: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise SettingsError(f"{option}: {text!r}; allowed: names separated by commas")
    return names


def _of_release(suts: tuple[str, ...], kafka_version: str | None) -> tuple[str, ...]:
    """``kafka-zk`` with version 2.8.1 is ``kafka-zk@2.8.1``; what names a release keeps it."""
    if kafka_version is None:
        return suts
    if not any(sut.startswith("kafka-") for sut in suts):
        raise SettingsError("--kafka-version: allowed with --sut=kafka-zk or --sut=kafka-kraft")
    return tuple(
        f"{sut}@{kafka_version}" if sut.startswith("kafka-") and "@" not in sut else sut
        for sut in suts
    )


def _planes(text: str | None) -> tuple[Planes, ...] | None:
    if text is None:
        return None
    try:
        return tuple(Planes(name) for name in _names(text, "--planes"))
    except ValueError:
        allowed = ", ".join(Planes)
        raise SettingsError(f"--planes: {text!r}; allowed: {allowed}, comma-separated") from None
