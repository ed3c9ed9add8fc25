"""The `gpufleet` command, also as `python -m gpufleet`.

Verbs on files go straight to `commands.offline`: people call them in loops, and the command line's other half takes a
third of a second to load.
"""

from __future__ import annotations

import sys

from gpufleet.errors import Forbidden, GpufleetError, Invalid, NotFound


def main() -> None:
    """Errors of ours are one sentence on stderr and an exit status, never a traceback."""
    try:
        sys.exit(_run(sys.argv[1:]))
    except (Invalid, Forbidden, NotFound) as e:
        print(f"gpufleet: {e}", file=sys.stderr)
        sys.exit(2)
    except GpufleetError as e:
        print(f"gpufleet: {e}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)


def _run(words: list[str]) -> int:
    if _is_about_a_file(words):
        from gpufleet.commands import offline

        return offline.main(words)
    from gpufleet.cli import app

    app()
    return 0


def _is_about_a_file(words: list[str]) -> bool:
    if not words or "--help" in words:
        return False
    if words[0] == "what-if":
        return _names_a_file(words[1:])
    return words[0] in ("plan", "settle") or (words[0] == "explain" and any(w.startswith("--job") for w in words))


def _names_a_file(words: list[str]) -> bool:
    """A word that is neither an option nor the value of one."""
    values = {place + 1 for place, word in enumerate(words) if word in ("--change", "--home")}
    return any(not word.startswith("-") and place not in values for place, word in enumerate(words))


if __name__ == "__main__":
    main()
