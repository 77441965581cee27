"""Count what the admin's actions on agents, tokens and instructions would change."""

from django.db.models import QuerySet
from django.http import HttpRequest

from ledger.confirmation import list_effects
from ledger.models import Agent, Instruction, Token
from ledger.models.agent import SYSTEM_TEXT_LENGTH
from ledger.models.standing_instruction import StandingInstructionQuerySet
from ledger.text import counted


def brief_agents(request: HttpRequest, chosen: QuerySet[Agent]) -> list[str] | None:
    text = request.POST.get("system_text", "")
    number = chosen.exclude(system_text="").exclude(system_text=text).count()
    if not number or len(text) > SYSTEM_TEXT_LENGTH:
        return None  # no text is lost, or the action refuses
    return [f"The system text of {counted(number, 'agent')} will be replaced."]


def reset_agents(request: HttpRequest, chosen: QuerySet[Agent]) -> list[str]:
    agents = chosen.order_by().values("pk")
    rows = Instruction.objects.filter(agent__in=agents).cancellable()
    number, of = rows.count(), rows.values("agent").distinct().count()
    pending = counted(number, "pending instruction")
    return list_effects((number, f"{pending} of {counted(of, 'agent')} will be cancelled."))


def revoke_tokens(request: HttpRequest, chosen: QuerySet[Token]) -> list[str]:
    number = chosen.filter(revoked_at=None).count()
    return list_effects((number, f"{counted(number, 'token')} will stop working at once."))


def retire_rules(request: HttpRequest, chosen: StandingInstructionQuerySet) -> list[str]:
    number = chosen.current().count()
    return list_effects((number, f"{counted(number, 'rule')} will end for good."))
