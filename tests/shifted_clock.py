"""Processes whose host's clock is wrong: a library that they load first shifts the real time alone.

Timers, waits, and the steady clocks stay right, as on such a host.
"""

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

FOLDER = tempfile.TemporaryDirectory(prefix="tenfour-shift-")
SOURCE = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    const char *text = getenv("SHIFT_S");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    int failed = syscall(SYS_clock_gettime, clock, to);
    if (!failed && clock == CLOCK_REALTIME) to->tv_sec += shift();
    return failed;
}

int gettimeofday(struct timeval *to, void *zone) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    to->tv_sec = at.tv_sec;
    to->tv_usec = at.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (to) *to = at.tv_sec;
    return at.tv_sec;
}
"""


@cache
def build_library() -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("NO PROGRAM: cc is not installed (Debian: gcc).")
    source, library = Path(FOLDER.name, "shift.c"), Path(FOLDER.name, "shift.so")
    source.write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return str(library)


def shifted(seconds: int) -> dict[str, str]:
    """Return the environment of a process on a host whose clock is that many seconds ahead."""
    before = os.environ.get("LD_PRELOAD", "")
    return {"LD_PRELOAD": f"{build_library()} {before}".strip(), "SHIFT_S": str(seconds)}
