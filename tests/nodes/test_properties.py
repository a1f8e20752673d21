"""Properties files are read as java.util.Properties reads them, and written so that it can."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.properties import format_properties, parse_properties, split, trim

ORACLE = Path(__file__).parent / "PropertiesOracle.java"
JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SEED = int(os.environ.get("BIPLANE_ORACLE_SEED", "291"))
TEXTS = 2000
PIECES = (
    *("a", "b", "key", "1", "é", "=", ":", " ", "\t", "\f", "#", "!"),
    *("\n", "\r", "\r\n", "\n\n", "\\", "\\\\", "\\\n", "\\\n  ", "\\\r\n\t", "\\\n\n"),
    *("\\ ", "\\=", "\\:", "\\t", "\\u0041", "\\u00e9", "\\u12"),
    # What Python takes for line ends and blanks, and Java does not.
    *("\x0b", "\x1c", "\x85", "\u2028", "\u00a0"),
)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="no java")
def test_as_java_reads_them() -> None:
    rng = random.Random(SEED)
    texts = [
        "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 12))) + "\nend=1\n"
        for _ in range(TEXTS)
    ]
    done = subprocess.run(
        [*JAVA, str(ORACLE)],
        input="".join(b64encode(text.encode()).decode() + "\n" for text in texts),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for text, line in zip(texts, done.stdout.splitlines(), strict=True):
        if line == "refused":
            with pytest.raises(ValueError, match="uXXXX"):
                parse_properties(text)
            continue
        pairs = [[b64decode(half).decode() for half in row.split(":")] for row in line.split()]
        assert parse_properties(text) == {key: trim(value) for key, value in pairs}, repr(text)


@given(st.dictionaries(st.from_regex(r"[a-z.]+", fullmatch=True), st.text()))
def test_what_is_written_is_read_again(entries: dict[str, str]) -> None:
    expected = {key: trim(value) for key, value in entries.items()}
    assert parse_properties(format_properties(entries)) == expected


def test_blanks_and_splits_are_javas() -> None:
    assert trim("\x1f \tx y\u00a0\n") == "x y\u00a0"
    assert split("a , b,,c,,") == ["a", "b", "", "c"]
    assert split(",a") == ["", "a"]
    assert split("") == split(",,") == []
