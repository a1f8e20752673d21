"""The command that repeats a run, from what run.json kept of its settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from harness.settings import PROFILES


def command(run: Mapping[str, Any]) -> list[str] | None:
    """`biplane run ...` with every option that differs from its default, as words of a shell,
    quoted; None when it is not known."""
    settings = run.get("settings")
    if not run.get("scenario") or not isinstance(settings, Mapping):
        return None
    profile = settings.get("profile")
    if isinstance(profile, Mapping) and profile.get("name") == "bug":  # the seed numbers its tries
        name, tries = str(run["scenario"]).upper(), str(run.get("seed", 0))
        return [shlex.quote(word) for word in ("biplane", "reproduce", name, "--tries", tries)]
    words = ["biplane", "run", str(run["scenario"]), "--seed", str(run.get("seed", 0))]
    words += _profile(profile)
    if settings.get("runtime", "process") != "process":
        words += ["--runtime", str(settings["runtime"])]
    suts = [str(name) for name in settings.get("suts") or ()]
    if suts and suts != ["dualplane"]:
        words += ["--sut", ",".join(suts)]
    for option in ("planes", "mutants"):
        if settings.get(option):
            words += [f"--{option}", ",".join(str(name) for name in settings[option])]
    if settings.get("plan"):
        words += ["--plan", str(settings["plan"])]
    for name, value in (settings.get("overrides") or {}).items():
        words += ["--config", f"{name}={value}"]
    return [shlex.quote(word) for word in words]


def _profile(profile: Any) -> list[str]:
    if not isinstance(profile, Mapping):
        return []
    words = ["--profile", str(profile.get("name"))]
    if profile.get("name") == "soak":  # of which this was a round
        return [*words, "--rounds", "1"]
    usual = PROFILES.get(str(profile.get("name")))
    if usual is None or profile.get("chaos_s") != usual.chaos_s:
        words += ["--time-limit", f"{profile.get('chaos_s'):g}"]
    if usual is None or profile.get("rounds") != usual.rounds:
        words += ["--rounds", str(profile.get("rounds"))]
    return words
