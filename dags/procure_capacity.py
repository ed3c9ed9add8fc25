"""### Capacity that a person must say yes to

The fleet buys small things by itself, inside its budgets. A purchase above `buying.approve_above` waits: this DAG asks a
person (*Required actions* of the run), with the price and the reason on the page. Plan -> approve -> buy -> verify that
the machines joined and work; what does not come is given back. No answer within four hours is a no.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import dag, task

from gpufleet_airflow.operators.purchase import ApprovePurchaseOperator, VerifyPurchaseOperator


@dag(schedule=timedelta(minutes=5), catchup=False, max_active_runs=16, doc_md=__doc__, tags=["gpufleet", "capacity"],
     description="Purchases above the threshold: plan, approve, buy, verify or return the money",
     default_args={"owner": "gpufleet", "retries": 1, "retry_delay": timedelta(minutes=1)})  # fmt: skip
def procure_capacity() -> None:
    @task
    def plan(run_id: str | None = None) -> list[dict[str, Any]]:
        from gpufleet_airflow.tasks import purchases_to_ask

        return purchases_to_ask(str(run_id))

    approve = ApprovePurchaseOperator.partial(task_id="approve").expand_kwargs(plan())
    VerifyPurchaseOperator.partial(task_id="verify", retries=15).expand(answered=approve.output)


procure_capacity()
