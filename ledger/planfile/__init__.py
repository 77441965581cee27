"""Plan files: text in, one canonical plan out, whatever it was written in (pure)."""

from ledger.planfile.canonical import canonical as canonical
from ledger.planfile.model import PlanFile as PlanFile
from ledger.planfile.model import PlanTask as PlanTask
from ledger.planfile.reading import Parsed as Parsed
from ledger.planfile.reading import parse as parse
