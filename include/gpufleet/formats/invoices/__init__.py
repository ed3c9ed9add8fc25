"""Invoices of clouds as they export them, to lines of one form.

Belongs here: which column means what, by provider. Never here: a comparison, a network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from gpufleet.errors import Invalid
from gpufleet.formats.invoices.aws import aws_line
from gpufleet.formats.invoices.azure import azure_lines
from gpufleet.formats.invoices.gcp import gcp_lines
from gpufleet.formats.invoices.rows import Export, read_export
from gpufleet.model.invoice import InvoiceLine

READERS: Final[dict[str, Callable[[Export], Iterator[InvoiceLine]]]] = {
    "aws": lambda export: (aws_line(row) for row in export),
    "azure": azure_lines,
    "gcp": gcp_lines,
}


def load_invoice(path: Path, provider: str) -> Iterator[InvoiceLine]:
    """The lines of a provider's export; raises Invalid or NotFound that name file, row and column."""
    if provider not in READERS:
        raise Invalid(f"'{provider}' is not a provider whose invoices are read; it is one of {', '.join(READERS)}.")
    return READERS[provider](read_export(path))
