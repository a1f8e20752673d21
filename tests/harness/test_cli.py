"""Scripts trust the exit codes; people read one line that says what to change."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import cli_options
from harness.cli import command
from harness.run import Stopped
from harness.studies.kept import merged
from harness.studies.ledger import Entry, Play

ROOT = Path(__file__).resolve().parents[2]


class Biplane:
    """The console script in this process: a new one costs a second of imports."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["biplane", *arguments])
        code = command()
        out, err = self._capsys.readouterr()
        return code, out, err


@pytest.fixture
def biplane(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Biplane:
    monkeypatch.chdir(tmp_path)
    return Biplane(monkeypatch, capsys)


@pytest.mark.slow
def test_a_description_is_checked_and_says_what_it_can_play(
    biplane: Biplane, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("adapter: 1\nname: mine\nnodes: 1\nstart: {argv: [x]}\n")
    code, out, _ = biplane("adapter", "check", str(file))
    assert code == 0
    assert "  yes  lone-broker, not judged: " in out
    assert "  no   request-flood: has 1 of the 3 brokers that it takes; " in out
    assert "  note: {{client.bind}} stands nowhere in it" in out
    assert "was not found" not in out
    wanted = "broker: {any_of: [no-such-broker], mend: make it}, shell: {any_of: [sh], mend: none}"
    file.write_text(f"adapter: 1\nname: mine\nfind: {{{wanted}}}\nstart: {{argv: [x]}}\n")
    code, out, _ = biplane("adapter", "check", str(file))
    assert (code, out.count("was not found")) == (0, 1)
    assert "'broker' was not found (no-such-broker on PATH); make it" in out
    own = "adapter: 1\nname: mine\nstart: {argv: [x, '{{ client.bind.port }}'MORE]}\n"
    file.write_text(own.replace("MORE", ""))
    code, out, _ = biplane("adapter", "check", str(file))
    assert (code, out.count("note"), out.count("not given {{client.advertised}}")) == (0, 1, 1)
    file.write_text(own.replace("MORE", ", '{{client.advertised}}'"))
    code, out, _ = biplane("adapter", "check", str(file))
    assert (code, "note" in out) == (0, False)
    boxed = own.replace("argv", "image: a/b:1, argv").replace("MORE", ", '{{client.advertised}}'")
    file.write_text(boxed)
    code, out, _ = biplane("adapter", "check", str(file))
    assert "  yes  lone-broker, not judged: " in out
    file.write_text("adapter: 1\nname: Mine\n")
    code, _, err = biplane("adapter", "check", str(file))
    assert code == 254
    assert "mine.yaml, line 2: field name: 'Mine'; allowed: letters" in err
    assert "field start: is missing" in err
    assert "Traceback" not in err
    assert biplane("run", f"--sut=file:{file}", "lone-broker")[0] == 254


@pytest.mark.slow
def test_a_file_about_a_cluster_is_checked_and_probed(biplane: Biplane, tmp_path: Path) -> None:
    file = tmp_path / "theirs.yaml"
    file.write_text("cluster: 1\nname: theirs\nbrokers: {1: {client: '127.0.0.1:9'}}\n")
    code, out, _ = biplane("adapter", "check", str(file))
    assert (code, "theirs, brokers 1;" in out) == (0, True)
    code, out, _ = biplane("probe", str(file))
    assert code == 2  # nobody listens there
    assert "no answer: broker 1 (127.0.0.1:9) does not answer" in out
    code, out, _ = biplane("probe", str(file), "--json")
    assert (code, json.loads(out)["exit_code"]) == (2, 2)
    code, _, err = biplane("run", "lone-broker", f"--sut=external:{file}", "--yes")
    assert code == 254
    assert "theirs.yaml: broker 1 (127.0.0.1:9) does not answer" in err
    assert not (tmp_path / "store").exists()
    file.write_text("cluster: 1\nname: theirs\nbrokers: {1: {client: '127.0.0.1'}}\n")
    for arguments in (["adapter", "check", str(file)], ["probe", str(file)]):
        code, _, err = biplane(*arguments)
        assert code == 254
        assert "theirs.yaml, line 3: field brokers.1.client: '127.0.0.1'; allowed: host:port" in err
        assert "Traceback" not in err


def test_it_says_which_one_it_is(biplane: Biplane) -> None:
    code, out, _ = biplane("--version")
    assert (code, out.split()[0]) == (0, "biplane")


def test_a_budget_of_nothing_judges_what_waits_and_plays_nothing(
    biplane: Biplane, tmp_path: Path
) -> None:
    code, out, _ = biplane("trust", "--budget", "0", "--store", "s", "--out", "trust.md")
    assert code == 2  # nothing was certain
    assert "the budget was spent" in out
    assert "from 0 runs" in (tmp_path / "trust.md").read_text()
    assert not (tmp_path / "s").exists()


def test_pages_are_of_what_was_played_as_long_in_any_store(
    biplane: Biplane, tmp_path: Path
) -> None:
    def entry(seed: int, length: str) -> Entry:
        play = Play(scenario="request-flood", seed=seed, planes="dual")
        return Entry(play=play, verdict="valid", extra={"length": length})

    merged(tmp_path / "trust.jsonl", [entry(1, "--profile smoke"), entry(2, "--profile ci")])
    biplane("trust", "--budget", "0", "--store", "s", "--out", "trust.md")
    assert "from 1 runs" in (tmp_path / "trust.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["run", "nosuch"], "allowed: request-flood, acks1-truncation"),
        (["run", "--profile", "weekly"], "allowed: smoke, ci, nightly"),
        (["run", "--runtime", "moon", "request-flood"], "allowed: process, docker"),
        (["run", "--sut", "moon", "request-flood"], "allowed: dualplane"),
        (["run", "--mutants", "moon", "request-flood"], "skip-controller-epoch-check"),
        (["run", "--config", "x", "request-flood"], "allowed: name=value"),
        (["run", "--time-limit", "soon", "request-flood"], "such as 90s, 20m or 2h"),
        (["run", "--keep-going", "request-flood"], "allowed with --profile=soak"),
        (["run", "--profile", "soak", "--time-limit", "800h"], "allowed: 1s to 720h"),
        (["run", "--profile", "soak", "--keep-rounds", "-1"], "--keep-rounds: -1; allowed: 0"),
        (["check", "nowhere"], "allowed: a run's folder or a URI"),
        (["report", "nowhere"], "no run.json"),
        (["trust", "--budget", "0h"], "such as 90s, 20m or 2h"),
        (["mutants", "moon"], "allowed: skip-controller-epoch-check"),
        (["mutants", "--planes", "triple"], "allowed: single, dual, priority"),
        (["plan", "nowhere.json"], "cannot be read"),
    ],
)
def test_bad_arguments_end_with_254(biplane: Biplane, arguments: list[str], says: str) -> None:
    code, _, err = biplane(*arguments)
    assert code == 254, err
    assert says in err.replace("\n", " ")
    assert "Traceback" not in err


def test_a_bad_plan_names_entry_and_field(biplane: Biplane, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    entry = {"id": "x", "fault": "floood", "at_ms": 1}
    plan.write_text(json.dumps({"seed": 1, "entries": [entry]}))
    code, _, err = biplane("run", "--plan", str(plan), "request-flood")
    assert code == 254
    for part in (str(plan), "entry 'x'", "field 'fault'", "flood-heavy-produce"):
        assert part in err


def test_a_seed_draws_the_same_plan(biplane: Biplane) -> None:
    first = biplane("plan", "request-flood", "--seed", "7")
    again = biplane("plan", "request-flood", "--seed", "7")
    other = biplane("plan", "request-flood", "--seed", "8")
    assert first[0] == 0
    assert first == again
    assert first[1] != other[1]


def test_help_teaches(biplane: Biplane) -> None:
    code, out, _ = biplane("--help")
    assert code == 0
    for part in ("run", "check", "report", "scenarios", "mutants", "Exit codes"):
        assert part in out


def test_help_begins_with_what_is_asked_for_first_and_takes_no_name_for_markup(
    biplane: Biplane,
) -> None:
    out = biplane("--help")[1]
    assert "store/<scenario>/<run id>/: open report.html" in " ".join(out.split())
    assert re.findall(r"^│ (\w[\w-]*) ", out, re.MULTILINE)[0] == "run"
    for name in ("report", "offsets"):
        assert "store/<scenario>/<run id>" in biplane(name, "--help")[1]


@pytest.mark.slow
def test_the_pytest_plugin_refuses_bad_options() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "harness/", "--profile=weekly", "-p", "no:cacheprovider"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 254
    assert "allowed: smoke, ci, nightly" in done.stdout + done.stderr


def test_a_soak_plays_rounds_and_ends_with_the_worst(
    biplane: Biplane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from harness.soak import rounds
    from tests.harness.soak.test_rounds import Played

    played = Played("valid", "unknown", "valid")
    monkeypatch.setattr(rounds.Soak.__init__, "__kwdefaults__", {"play": played, "now": played.now})
    code, out, _ = biplane("run", "--profile=soak", "--time-limit=5m", "--seed=3", "--planes=dual")
    assert code == 2, out
    assert [line.split(":")[0] for line in out.splitlines() if line.startswith("round ")] == [
        f"round {n}, mixture, seed {rounds.seed_of(3, n)}" for n in (1, 2, 3)
    ]
    page = out.rpartition("page: ")[2].strip()
    assert (tmp_path / page).is_file()


@pytest.mark.slow
def test_a_soak_is_no_test_of_pytests() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "harness/", "--profile=soak", "-p", "no:cacheprovider"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 254
    assert "biplane run --profile=soak" in done.stdout + done.stderr


def test_ctrl_c_is_an_unknown_and_says_that_the_history_is_kept(
    biplane: Biplane, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.run.run", interrupted)
    code, _, err = biplane("run", "zombie-controller")
    assert code == 2
    assert err.splitlines()[-1] == "biplane: stopped; what was recorded is kept"


def test_on_a_terminal_what_is_kept_is_told_on_a_line_of_its_own(
    biplane: Biplane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where a line stands that shows how far the run is."""
    terminal, its_end = pty.openpty()
    read = b""

    def interrupted(_: object, __: object, progress: Callable[[str, str], None]) -> None:
        nonlocal read
        progress("zombie-controller", "checking")
        while b"checking" not in read:
            read += os.read(terminal, 4096)
        raise Stopped(tmp_path)

    monkeypatch.setattr("harness.run.run", interrupted)
    monkeypatch.setenv("TERM", "xterm")
    with open(its_end, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        assert biplane("run", "zombie-controller")[0] == 2
        while b"kept: " not in read:
            read += os.read(terminal, 4096)
    os.close(terminal)
    without_codes = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", read)
    (line,) = [line for line in re.split(rb"[\r\n]", without_codes) if b"kept: " in line]
    assert line.startswith(b"kept: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("run req", ["request-flood"]),
        ("run --sut kafka-zk,f", ["kafka-zk,file:"]),
        ("plan moon", []),
        ("mutants skip-l", ["skip-leader-epoch-check"]),
    ],
)
def test_a_shell_is_offered_what_may_come_next(words: str, offered: list[str]) -> None:
    script = Path(sys.executable).with_name("biplane")
    asked = {"_BIPLANE_COMPLETE": "complete_bash", "COMP_WORDS": f"biplane {words}"}
    asked["COMP_CWORD"] = str(len(words.split()))
    told = subprocess.run(
        [script], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert told.stdout.split() == offered, told.stderr


def test_the_last_of_several_is_completed() -> None:
    assert cli_options.PLANE_NAMES("single,d") == ["single,dual"]
    assert cli_options.PROFILE_NAMES("s") == ["smoke", "soak"]
    assert cli_options.MUTANT_NAMES("never-truncate,moon") == []
