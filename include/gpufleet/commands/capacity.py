"""What capacity costs and what is bought: `gpufleet break-even` on a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def wire(root: typer.Typer) -> None:
    """Hang the verbs into the command line."""
    root.command(name="break-even")(break_even)


def break_even(
    source: Annotated[Path, typer.Option("--input", help="Owned hardware and the cloud mix (docs/break-even.md).")],
    chart: Annotated[Path | None, typer.Option(help="Also draw it: a PNG.")] = None,
    as_json: Json = False,
) -> None:
    """When owned hardware has paid for itself against the cloud."""
    from gpufleet.commands import procurement

    raise typer.Exit(procurement.break_even(source, chart=chart, as_json=as_json))
