"""Exit code 0 when the broker of a ``server.properties`` answers ApiVersions on its first listener.

Runs inside the broker's image as its health check. Nothing but the standard library: an ApiVersions
v0 request is 22 bytes, and every Kafka broker answers it without authentication or side effects.
"""

from __future__ import annotations

import re
import socket
import struct
import sys
from pathlib import Path

_CLIENT_ID = b"health"
_CORRELATION_ID = 291
_API_VERSIONS = 18
_TIMEOUT_S = 3.0


def main() -> int:
    properties = Path(sys.argv[1]).read_text()
    found = re.search(r"^listeners\s*=\s*.*?CLIENT://([^:,]*):(\d+)", properties, re.MULTILINE)
    if found is None:
        print(f"{sys.argv[1]}: no CLIENT listener in 'listeners'")
        return 1
    host = found.group(1) if found.group(1) not in ("", "0.0.0.0") else "127.0.0.1"
    header = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID
    try:
        with socket.create_connection((host, int(found.group(2))), _TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(header)) + header)
            answer = b""
            while len(answer) < 10:
                more = connection.recv(4096)
                if not more:
                    print("closed without an answer")
                    return 1
                answer += more
    except OSError as e:
        print(f"{host}:{found.group(2)}: {e}")
        return 1
    _, correlation_id, error = struct.unpack_from(">iih", answer)
    return 0 if (correlation_id, error) == (_CORRELATION_ID, 0) else 1


if __name__ == "__main__":
    sys.exit(main())
