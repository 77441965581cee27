"""Seed the tasks of the suite `budgets`."""


def budgeted_tasks(count: int) -> None:
    """Add a plan of `count` tasks without a budget, and one whose project, too, has budgets."""
    from decimal import Decimal

    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent, Plan, Project
    from ledger.tasks import Spec, enqueue_many
    from retries.budgets.editing import BudgetSpec, Scope, set_budget

    stamp = Stamp(SYSTEM)
    project = Project.objects.create(name="budgeted")
    agents = [
        Agent.objects.select_related("project").get(name="agent-00001"),
        Agent.objects.create(project=project, name="budgeted"),
    ]
    for agent in agents:
        plan = Plan.objects.create(
            project=agent.project,
            ref="01-01",
            source={"tasks": []},
            content_hash="01-01",
            created_by_type="system",
            created_by_name="bench",
            created_at=stamp.at,
            updated_at=stamp.at,
        )
        for first in range(0, count, 500):
            numbers = range(first, min(count, first + 500))
            specs = [Spec(type="b", plan_id=plan.pk, ref=f"01-01:{n}", run=1) for n in numbers]
            enqueue_many([(agent, spec) for spec in specs], stamp=stamp)
        if agent.project_id == project.pk:
            for scope in (Scope(project.pk), Scope(project.pk, plan.pk)):
                for unit, period in (("tokens", "total"), ("usd", "day")):
                    most = BudgetSpec(
                        unit=unit, amount=Decimal(10**6 if unit == "usd" else 10**12), period=period
                    )
                    set_budget(scope, most, stamp=stamp)
