"""Plan files: read a text in any supported format into one canonical plan (pure)."""

from ledger.planfile.canonical import canonical as canonical
from ledger.planfile.model import FileLine as FileLine
from ledger.planfile.model import PlanFile as PlanFile
from ledger.planfile.model import PlanTask as PlanTask
from ledger.planfile.reading import ParsedPlan as ParsedPlan
from ledger.planfile.reading import decode as decode
from ledger.planfile.reading import parse as parse
