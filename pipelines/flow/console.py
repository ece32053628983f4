"""A run on the terminal: every line with the name of its stage, Prefect's own messages left out."""

from __future__ import annotations

import logging
import os
import sys

_PREFECT = f"{os.sep}prefect{os.sep}"


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        name = getattr(record, "task_run_name", None)
        return f"{name or 'longline':12} | {record.getMessage()}"


def log_to_terminal() -> None:
    """Show what the run and its stages say on standard error, in place of Prefect's console."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    handler.addFilter(lambda record: _PREFECT not in record.pathname)
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
    own = logging.getLogger("prefect.longline")
    own.handlers, own.propagate = [handler], False
    logging.getLogger("prefect").setLevel(logging.ERROR)
    for name in ("EventsWorker", "APILogWorker"):  # say so when they send for some seconds
        logging.getLogger(name).setLevel(logging.ERROR)
    for name in ("prefect.flow_runs", "prefect.task_runs", "prefect.longline"):
        logging.getLogger(name).setLevel(logging.INFO)
