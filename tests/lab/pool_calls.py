"""What the workers of test_worker_pool.py and test_work_on.py call; they import nothing that is slow."""

import os
import signal
import sys
import time
from pathlib import Path

LONG = 600.0


def add(first, second, advance):
    advance(1, 2)
    return first + second


def process_id(advance):
    del advance
    return os.getpid()


def refuse(advance):
    del advance
    raise ValueError("expected more, found less")


def give_what_cannot_be_sent(advance):
    del advance
    return lambda: None


def die(advance):
    del advance
    os.kill(os.getpid(), signal.SIGKILL)


def leave(advance):
    del advance
    sys.exit(3)


def hang(folder, advance=None):
    """Leaves the number of its process and sleeps; a worker that is told to end takes the file away."""
    del advance
    file = Path(folder) / f"process-{os.getpid()}"
    file.touch()
    try:
        time.sleep(LONG)
    finally:
        file.unlink()
