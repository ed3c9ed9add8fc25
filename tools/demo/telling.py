"""How the story is told on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.terminal_theme import SVG_EXPORT_THEME


def shell_path(path: Path) -> str:
    """As a person standing in the project would write it."""
    here = Path.cwd()
    return f'"$PWD/{path.relative_to(here)}"' if path.is_relative_to(here) else str(path)


class Teller:
    """Prints acts, what happened, what held, and the numbers at the end."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True, record=True)
        self._began = time.monotonic()

    def keep(self, path: Path) -> None:
        """Everything that was told, as a page with its colours."""
        self.console.save_html(str(path), theme=SVG_EXPORT_THEME, clear=False)

    def _stamp(self) -> str:
        return f"[dim]{time.monotonic() - self._began:6.1f} s[/dim]"

    def act(self, number: str, sentence: str) -> None:
        self.console.print(f"\n{self._stamp()}  [bold]{number}. {sentence}[/bold]")

    def say(self, sentence: str) -> None:
        self.console.print(f"{self._stamp()}     {sentence}")

    def held(self, sentence: str) -> None:
        self.console.print(f"{self._stamp()}   [green]✓[/green] {sentence}")

    def broke(self, sentence: str) -> None:
        self.console.print(f"{self._stamp()}   [red]✗ {sentence}[/red]")

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar; the yielded call sets how far it is."""
        columns = (
            TextColumn("           {task.description}"),
            BarColumn(),
            TextColumn("step {task.completed:.0f} of {task.total:.0f}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, transient=not self.console.is_terminal) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)

    def statement(self, answer: dict[str, Any]) -> None:
        """The day's statement as a table."""
        title = f"{answer['day']} ({answer['state']}), {answer['currency']}"
        table = Table(
            "team", "project", "GPU-hours", "usage", "idle", "shared", "total", title=title, title_justify="left"
        )
        for line in answer["lines"]:
            table.add_row(
                line["team"], line["project"] or "-", line["gpu_hours"], line["usage_cost"], line["idle_cost"],
                line["shared_cost"], line["total"],
            )  # fmt: skip
        table.add_row("(idle)", "", answer["idle"]["gpu_hours"], "", answer["idle"]["cost"], "", answer["idle"]["cost"])
        table.add_row("[bold]fleet[/bold]", "", "", "", "", "", f"[bold]{answer['total']}[/bold]")
        self.console.print(table)

    def numbers(self, rows: list[tuple[str, float, float]]) -> None:
        """Measured figures beside their targets."""
        self.console.print()
        for what, seconds, target in rows:
            mark = "[green]✓[/green]" if seconds <= target else "[yellow]![/yellow]"
            self.console.print(f"  {mark} {what}: [bold]{seconds:.1f} s[/bold] (target {target:g} s)")
