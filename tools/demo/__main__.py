"""`python -m tools.demo up|demo [--exit]`: the embedded fleet, with or without the story."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from tools.demo.home import PROJECT
from tools.demo.telling import Teller, shell_path
from tools.demo.up import Embedded, bring_up


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("what", choices=["up", "demo"])
    parser.add_argument(
        "--exit", action="store_true", help="end by itself after the story; status 0 only if every step held"
    )
    parser.add_argument("--cluster", choices=["sandbox", "kubernetes"], default="sandbox", help="what runs the pods")
    parser.add_argument("--home", type=Path, help="the fleet's folder; default: .demo/up or .demo/demo in the project")
    parser.add_argument("--html", type=Path, help="also keep what was told as a page")
    given = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _interrupt(stop))
    tell = Teller()
    folder = given.what if given.cluster == "sandbox" else f"{given.what}-{given.cluster}"
    home = (given.home or PROJECT / ".demo" / folder).resolve()
    try:
        embedded = bring_up(home, PROJECT / "config" / "demo", given.cluster, fresh=given.what == "demo", tell=tell.say)
    except (SystemExit, KeyboardInterrupt) as e:
        tell.broke(str(e) or "interrupted")
        return 1
    try:
        return _run(given, embedded, tell, stop)
    except KeyboardInterrupt:
        return 0 if given.what == "up" else 1
    finally:
        tell.say("stopping")
        embedded.stop()
        tell.say("everything is stopped")


def _interrupt(stop: threading.Event) -> None:
    """The first Ctrl-C ends what we wait for; the way out is the same as at a normal end."""
    if not stop.is_set():
        stop.set()
        raise KeyboardInterrupt


def _run(given: argparse.Namespace, embedded: Embedded, tell: Teller, stop: threading.Event) -> int:
    status = 0
    if given.what == "demo":
        from gpufleet.errors import GpufleetError
        from tools.demo.acting import StoryBroke
        from tools.demo.story import play

        try:
            play(embedded, tell)
        except (StoryBroke, GpufleetError, RuntimeError) as e:
            tell.broke(str(e))
            status = 1
    _addresses(embedded, tell)
    if given.html:
        tell.keep(given.html)
    if given.exit:
        return status
    tell.say("Ctrl-C stops everything")
    stop.wait()
    return status


def _addresses(embedded: Embedded, tell: Teller) -> None:
    tell.say(
        f"portal:  {embedded.url}/plugin/gpufleet  (log in as ada, lin, ops, finn or admin; the password is the login)"
    )
    tell.say(f"DAGs:    {embedded.url}/dags")
    tell.say(f"CLI:     export GPUFLEET_HOME={shell_path(embedded.home)} GPUFLEET_USER=ada")


if __name__ == "__main__":
    sys.exit(main())
