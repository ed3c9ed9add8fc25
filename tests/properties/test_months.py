"""What a month of charges must never do: fail to add up, forget a correction, give back more than was charged."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.charges import at, charge

from gpufleet.chargeback.canonical import seal
from gpufleet.chargeback.corrections import corrections
from gpufleet.chargeback.losses import Fault, Loss, credits_for
from gpufleet.chargeback.month import MonthToDate, fold, month_statement
from gpufleet.chargeback.reconciliation import Books, reconcile
from gpufleet.chargeback.rounding import apportion, nearest
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.model.invoice import InvoiceKind, InvoiceLine
from gpufleet.model.statement import Standing

NEVER_POSITIVE = {ChargeKind.CREDIT}
SIGNED = {ChargeKind.IDLE_SHARE, ChargeKind.ADJUSTMENT}


@st.composite
def charges_of(draw: Any, day: int = 9) -> Charge:
    kind = draw(st.sampled_from(list(ChargeKind)))
    cost = draw(st.integers(0, 10**13))
    cost = -cost if kind in NEVER_POSITIVE or (kind in SIGNED and draw(st.booleans())) else cost
    return charge(
        f"2026-03-{draw(st.integers(1, day)):02}",
        kind=kind,
        id=f"i{draw(st.integers(0, 10**9))}",
        team=draw(st.sampled_from(["vision", "nlp", "platform"])),
        project=draw(st.sampled_from(["", "p", "q"])),
        job=draw(st.sampled_from(["", "a", "b"])),
        quota=draw(st.sampled_from(["guaranteed", "over-quota"])),
        cost_nano=0 if kind is ChargeKind.PURCHASE else cost,
        hours_nano=draw(st.integers(0, 10**12)) if kind in (ChargeKind.USE, ChargeKind.IDLE) else 0,
    )


MONTH = st.lists(charges_of(), max_size=30)


@given(MONTH, st.sampled_from(["JPY", "USD", "KWD"]))
def test_every_level_adds_up_in_every_currency(charges: list[Charge], currency: str) -> None:
    about = MonthToDate(currency, date(2026, 3, 1), date(2026, 4, 1), Standing.PROVISIONAL, 7)
    found = month_statement(about, fold(charges))
    unit = 10 ** (9 - found.decimals)
    assert found.total == nearest(sum(c.cost_nano for c in charges), unit)
    exact: dict[tuple[str, str, str, date], int] = defaultdict(int)
    for c in charges:
        exact[c.team, c.project, c.job, c.day] += c.cost_nano
    for row in found.rows:
        kept = row.team == "platform"
        assert kept or abs(row.total * unit - exact[row.team, row.project, row.job, row.day]) < 60 * unit
        assert 0 <= row.lost_cost <= max(row.usage + row.commitment, 0)
    assert sum(r.gpu_hours for r in found.rows) + found.idle_hours == nearest(sum(c.hours_nano for c in charges), 1000)
    assert month_statement(about, fold(reversed(charges))) == found


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=20), st.sampled_from([1, 10**6, 10**7, 10**9]))
def test_what_is_dealt_is_never_a_whole_unit_away_from_what_it_was_dealt_for(amounts: list[int], unit: int) -> None:
    units = nearest(sum(amounts), unit)
    shares = apportion(units, amounts, unit)
    assert sum(shares) == units or not any(amounts)
    assert all(abs(share * unit - amount) < 2 * unit for share, amount in zip(shares, amounts, strict=True))


@given(MONTH, MONTH, MONTH)
def test_closed_and_corrected_is_what_the_ledger_says(
    closed: list[Charge], first: list[Charge], then: list[Charge]
) -> None:
    told: list[Charge] = []
    for known in (first, then):
        told += corrections("2026-03", closed, told, known, date(2026, 4, 2))
        assert not list(corrections("2026-03", closed, told, known, date(2026, 4, 3))), "run twice: nothing more"
        for amount in ("cost_nano", "billed_nano", "hours_nano"):
            assert sum(getattr(c, amount) for c in [*closed, *told]) == sum(getattr(c, amount) for c in known)
    assert len({c.id for c in told}) == len(told)


@given(MONTH, st.fractions(0, 1), st.floats(9, 12), st.sampled_from(list(Fault)))
def test_no_credit_is_above_its_charge(charges: list[Charge], share: Fraction, since: float, fault: Fault) -> None:
    losses = {
        (job, 1): Loss(job, 1, at(c.day, since), at(c.day, 13), fault, "spot reclaim")
        for c in charges
        for job in (c.job,)
    }
    back = list(credits_for(charges, losses, share))
    by_day: dict[tuple[str, date], int] = defaultdict(int)
    for c in charges:
        by_day[c.job, c.day] += c.cost_nano if c.kind in (ChargeKind.USE, ChargeKind.COMMITTED_USE) else 0
    for credit in back:
        by_day[credit.job, credit.day] += credit.cost_nano
        assert credit.cost_nano < 0 and fault is Fault.PLATFORM
    assert all(left >= 0 for left in by_day.values())


@given(MONTH)
def test_a_changed_month_has_another_hash(charges: list[Charge]) -> None:
    whole = seal(charges)
    assert whole == seal(list(charges)) and whole.total_nano == sum(c.cost_nano for c in charges)
    if charges:
        assert seal(charges[1:]).sha256 != whole.sha256


LINES = st.lists(
    st.builds(
        lambda machine, day, cents, kind: InvoiceLine(
            "aws",
            "I",
            machine,
            at(date(2026, 3, day), 5),
            at(date(2026, 3, day), 6),
            kind,
            Decimal(cents).scaleb(-4),
            "USD",
        ),
        st.sampled_from(["", "node-1", "node-2"]),
        st.integers(1, 9),
        st.integers(-(10**9), 10**9),
        st.sampled_from(list(InvoiceKind)),
    ),
    max_size=20,
)


@given(MONTH, LINES)
def test_ours_and_the_adjustments_are_the_invoice(charges: list[Charge], lines: list[InvoiceLine]) -> None:
    days = {date(2026, 3, d): (at(date(2026, 3, d)), at(date(2026, 3, d), 24)) for d in range(1, 10)}
    ours = [replace(c, provider="aws") for c in charges]
    found = reconcile(ours, lines, Books("aws", "USD", {}, days, day_of=lambda t: t.date()))
    assert found.ours + sum(c.cost_nano for c in found.adjustments) == found.theirs
    assert found.theirs == sum(int(line.amount * 10**9) for line in lines)
    assert len({(c.day, c.id) for c in found.adjustments}) == len(found.adjustments)
    again = reconcile([*ours, *found.adjustments], lines, Books("aws", "USD", {}, days, day_of=lambda t: t.date()))
    assert again == found, "what is booked is not compared again"
