"""Tasks of `procure_capacity`: a person's yes or no to one purchase, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Context

APPROVE, REJECT = "Approve", "Reject"
ANSWER_WITHIN: Final = timedelta(hours=4)
"""Like the default of `buying.approval_for`: after it the purchase is over anyway."""


class ApprovePurchaseOperator(HITLOperator):
    """Ask a person about a purchase, then approve it or turn it down; no answer in time is a no.

    `purchase` is its name. The task returns {purchase, state, machines, joined, why}.
    """

    template_fields: Sequence[str] = ("subject", "body", "purchase")

    def __init__(self, *, purchase: str, **kwargs: Any) -> None:
        kwargs.setdefault("response_timeout", ANSWER_WITHIN)
        super().__init__(options=[APPROVE, REJECT], defaults=REJECT, **kwargs)
        self.purchase = purchase

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """What the person said is checked again by the service: budgets and prices may have moved."""
        from gpufleet.errors import Invalid
        from gpufleet_airflow.tasks import answer_purchase

        try:
            return answer_purchase(self.purchase, super().execute_complete(context, event))
        except Invalid as why:  # no fault of the run: the world has moved on, and the page says so
            self.log.warning("%s", why)
            return {"purchase": self.purchase, "state": "over", "machines": 0, "joined": 0, "why": str(why)}


class VerifyPurchaseOperator(BaseOperator):
    """Wait, try by try, until the machines of a purchase work; what does not come is given back, and the task fails.

    `answered` is what `ApprovePurchaseOperator` returned.
    """

    template_fields: Sequence[str] = ("answered",)

    def __init__(self, *, answered: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.answered = answered

    def execute(self, context: Context) -> dict[str, Any]:
        """One look; raises for another try while machines are on their way."""
        from gpufleet_airflow.tasks import purchase_outcome

        found = purchase_outcome(str(self.answered["purchase"]))
        match found["state"]:
            case "joined" | "over":
                return found
            case "returned":
                raise AirflowFailException(f"{found['purchase']}: {found['why']}")
            case _:
                raise AirflowException(f"{found['purchase']} is {found['state']}: {found['joined']} machines work")
