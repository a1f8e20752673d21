"""What can go wrong with bytes and with connections.

::

    WireError            a frame is malformed: whoever sent it is cut off
      UnsupportedVersion the API or the version is not served (a broker's socket cares, see `codec`)
    WireClientError      a blocking request did not get its answer
      ConnectionFailed   refused, reset or closed: the request may or may not have been handled
      RequestTimedOut    no answer in time: likewise

`WireClientError` is never *definite*: the operation may have happened.
"""

from __future__ import annotations


class WireError(Exception):
    """A frame that no correct peer sends; the text names the part of it that is wrong."""


class UnsupportedVersion(WireError):
    """An API key or version outside `apis.SUPPORTED`.

    `correlation_id` is known because every header version begins alike; ApiVersions needs it for
    its special answer (a version-0 body with error 35), everything else closes the connection.
    """

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        super().__init__(f"api key {api_key} version {version} is not supported")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id


class WireClientError(Exception):
    """The request's fate is unknown to the caller."""


class ConnectionFailed(WireClientError):
    """The connection could not be made, or ended before the answer."""


class RequestTimedOut(WireClientError):
    """The answer did not come within the time given; the connection is closed."""
