"""finance.yaml to frozen facts; every error names file, line, place and key."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Final

from gpufleet.chargeback.finance import ACCOUNTS, CreditPolicy, Finance
from gpufleet.errors import Invalid
from gpufleet.formats.cell import Cell, Fields, read, read_text
from gpufleet.formats.rates import amount

LAST_CLOSE: Final = 28
"""Every month has such a day."""
MOST_DAYS: Final = 36_500
KEYS: Final = (
    "version", "close_on", "credits", "budgets", "alerts", "tolerance", "issuer", "accounts", "cost_centres",
    "default_cost_centre", "publish_to", "keep_days",
)  # fmt: skip
MOST_PER_CENT: Final = 1000


def load_finance(path: Path) -> Finance:
    """What the file says; the defaults where there is none. Raises Invalid that names file, line and key."""
    return read_finance(read_text(path), str(path)) if path.exists() else Finance()


def read_finance(text: str, file: str) -> Finance:
    fields = read(text, file).fields(KEYS)
    if fields["version"].text() != "1":
        raise fields["version"].wrong(f"version {fields['version'].raw} is not known; it is 1.")
    plain = Finance()
    return Finance(
        close_on=fields.get("close_on", lambda c: c.at_most(LAST_CLOSE, 1), plain.close_on),
        credit_share=fields.get("credits", _credits, plain.credit_share),
        budgets=fields.get("budgets", lambda c: {key.text(): amount(value) for key, value in c.pairs()}, {}),
        alerts=fields.get("alerts", _alerts, plain.alerts),
        tolerance=fields.get("tolerance", amount, plain.tolerance),
        issuer=fields.get("issuer", Cell.text, plain.issuer),
        accounts={**ACCOUNTS, **fields.get("accounts", _accounts, {})},
        cost_centres=fields.get("cost_centres", lambda c: {key.text(): value.text() for key, value in c.pairs()}, {}),
        default_cost_centre=fields.get("default_cost_centre", Cell.text, plain.default_cost_centre),
        publish_to=fields.get("publish_to", Cell.text, plain.publish_to),
        keep_days=fields.get("keep_days", lambda c: c.at_most(MOST_DAYS, 2), plain.keep_days),
    )


def _accounts(cell: Cell) -> dict[str, str]:
    fields = cell.fields(tuple(ACCOUNTS))
    return {kind: fields[kind].text() for kind in ACCOUNTS if kind in fields}


def _credits(cell: Cell) -> Fraction:
    fields = cell.fields(("platform-loss", "share"))
    policy = fields.get("platform-loss", lambda c: c.choice(CreditPolicy), CreditPolicy.NONE)
    if ("share" in fields) != (policy is CreditPolicy.SHARE):
        raise cell.wrong("'share' (0 to 1) goes with 'platform-loss: share' and with nothing else.")
    return _share(fields) if policy is CreditPolicy.SHARE else Fraction(policy is CreditPolicy.ALL)


def _share(fields: Fields) -> Fraction:
    found = amount(fields["share"])
    if found > 1:
        raise fields["share"].wrong(f"must be at most 1, not '{fields['share'].raw}'.")
    return found


def _alerts(cell: Cell) -> tuple[int, ...]:
    found = tuple(c.at_most(MOST_PER_CENT, 1) for c in cell.cells())
    if list(found) != sorted(set(found)):
        raise cell.wrong("must be per cents in rising order, each once.")
    return found


def month_of(text: str) -> str:
    """`2026-03`; raises Invalid for anything else."""
    from gpufleet.formats.rates import day

    try:
        day(f"{text}-01")
    except Invalid:
        raise Invalid(f"'{text}' is not a month; write it as 2026-03.") from None
    return text
