"""Where expensive work is done: tasks in a list, run by an executor, kept in a store."""

from assent.lab.executor import SERIAL, Executor, Processes
from assent.lab.lab import Lab, Task, Training, everything
from assent.lab.store import Entry, Found, Store

__all__ = [
    "SERIAL",
    "Entry",
    "Executor",
    "Found",
    "Lab",
    "Processes",
    "Store",
    "Task",
    "Training",
    "everything",
]
