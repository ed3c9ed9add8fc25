"""`python -m benchmarks`: run a profile and hold it against its ranges, or measure speed alone.

python -m benchmarks run full|quick      every experiment, ranges, and (full) pages and charts
python -m benchmarks pages               pages and charts again from the results of the full profile
python -m benchmarks speed [--repeats N] [--json]
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict

from gpufleet.errors import Invalid


def speed(repeats: int, as_json: bool) -> int:
    """Figures as they are found; seconds, and as multiples of the fixed work."""
    from benchmarks.speed import measure

    found = []
    print(f"{'figure':34} {'seconds':>12} {'x fixed work':>14}", file=sys.stderr)
    for timed in measure(repeats):
        found.append(asdict(timed))
        print(f"{timed.name:34} {timed.seconds:12.6f} {timed.times:14.5f}", file=sys.stderr, flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'memory_mib':34} {peak:12.0f}", file=sys.stderr)
    if as_json:
        print(json.dumps({"figures": found, "memory_mib": round(peak, 1)}, indent=1))
    return 0


def main(words: list[str]) -> int:
    """0 all is well, 1 a figure left its range or an experiment broke, 2 the words or the files are wrong."""
    try:
        match words:
            case ["run", profile]:
                from benchmarks.profile import run

                return run(profile)
            case ["pages"]:
                from benchmarks.profile import pages

                return pages()
            case ["speed", *options]:
                return speed(_repeats(options), "--json" in options)
    except Invalid as why:
        print(why, file=sys.stderr)
        return 2
    print(__doc__, file=sys.stderr)
    return 2


def _repeats(options: list[str]) -> int:
    """The number after --repeats, else 2."""
    rest = [o for o in options if o != "--json"]
    match rest:
        case []:
            return 2
        case ["--repeats", number] if number.isdigit() and int(number) > 0:
            return int(number)
    raise Invalid(f"speed takes --repeats N and --json, not '{' '.join(rest)}'.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
