"""The parent of one pod's process: starts it, waits, writes how it ended. Survives the sandbox, and tells it later.

Run by path as `python -I -S shim.py HOME NUMBER LOG_CAP COMMAND...`, with the pod's environment, working directory
and log already in place. It imports nothing of ours and little else, because every pod pays for its start.

Files in HOME, each written whole or not at all:
    claim-NUMBER   "PID BORN" of this shim, or "void": whoever makes the file first decides whether NUMBER starts
    started        "PID BORN AT" of the pod's process
    ended          "code CODE AT", or "error TEXT"
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time

CLAIM = "claim-"
VOID = "void"
STARTED = "started"
ENDED = "ended"
LOG_CHECK_SECONDS = 2.0
DROPPED = b"[older lines were dropped to keep this log small]\n"
_PR_SET_CHILD_SUBREAPER = 36
_LOG = 1

with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as _file:  # noqa: PTH123 - pathlib is slow here
    BOOT = _file.read().strip()


DEFAULTED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
"""A pod meets every signal as new: Python ignores two, and a shell that starts us in the background ignores others."""


def born(pid: int) -> str | None:
    """What tells a process from a later one of its number: the machine's boot and the start tick. None = it ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - as above
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in "ZX":  # a zombie holds nothing
        return None
    return f"{BOOT}:{fields[19]}"


def write_new(home: str, name: str, text: str) -> bool:
    """Make the file with its content in one step; False when it was there before."""
    draft = f"{home}/.{name}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8") as file:  # noqa: PTH123 - as above
        file.write(text)
    try:
        os.link(draft, f"{home}/{name}")
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)  # noqa: PTH108 - as above
    return True


def trim_log(log: int, cap: int) -> None:
    """Keep the newest half of a log that outgrew its cap; what is appended in this very moment may be lost."""
    size = os.fstat(log).st_size
    if size <= cap:
        return
    newest = os.pread(log, cap // 2, size - cap // 2)
    os.ftruncate(log, 0)
    os.write(log, DROPPED + newest.partition(b"\n")[2])


def main(home: str, number: str, cap: str, *command: str) -> None:
    """Claim the start, carry it out, and outlive it."""
    me = os.getpid()
    if not write_new(home, CLAIM + number, f"{me} {born(me)}"):
        return
    _settle_in(int(cap))
    pid = _start(home, command)
    if pid is None:
        return
    write_new(home, STARTED, f"{pid} {born(pid)} {time.time()}")
    code = _outcome(pid)
    ended_at = time.time()
    _end_rest(pid)
    write_new(home, ENDED, f"code {code} {ended_at}")


def _settle_in(cap: int) -> None:
    """Hear no polite signal (they are meant for the pod), inherit the pod's orphans, watch the log's size."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # a handler, unlike SIG_IGN, is not passed on to the pod
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGALRM, lambda *_: _watch_log(cap))
    signal.setitimer(signal.ITIMER_REAL, LOG_CHECK_SECONDS, LOG_CHECK_SECONDS)


def _watch_log(cap: int) -> None:
    with contextlib.suppress(OSError):  # a full disk must not end the pod
        trim_log(_LOG, cap)


def _start(home: str, command: tuple[str, ...]) -> int | None:
    try:
        # Python ignores SIGPIPE and SIGXFSZ; the pod shall meet the system's defaults.
        return os.posix_spawnp(command[0], command, os.environ, setsid=True, setsigdef=DEFAULTED)
    except (OSError, ValueError) as error:
        write_new(home, ENDED, f"error {error}")
        return None


def _outcome(pid: int) -> int:
    """Wait for the pod's own process, reaping its orphans on the way; signals are reported as shells do."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _end_rest(pid: int) -> None:
    """Whatever the pod left behind ends with it, also what moved to a session of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing was left in its group
        os.killpg(pid, signal.SIGKILL)
    while children := _children():
        for child in children:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # the next look decides
            os.waitpid(-1, 0)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123 - as above
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # a kernel built without this list: the group's end must do
        return []


if __name__ == "__main__":
    main(*sys.argv[1:])
