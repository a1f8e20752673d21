"""The partition log on disk: segments, indexes, leader epochs, producer state, checkpoints.

`Log` is one partition's log, `LogManager` all logs of a broker, `LogConfig` their settings.
"""

from nodes.log.config import LogConfig
from nodes.log.log import AppendInfo, Log
from nodes.log.manager import LogManager

__all__ = ("AppendInfo", "Log", "LogConfig", "LogManager")
