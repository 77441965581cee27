"""The settings: each with its description, default and current value."""

from dataclasses import dataclass

from django.conf import settings


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of settings.TENFOUR, which config/setting_table.py describes."""

    name: str
    default: str
    description: str

    @property
    def value(self) -> str:
        return value_of(self.name)

    @property
    def is_changed(self) -> bool:
        return self.value != self.default


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    settings: tuple[Setting, ...]


def value_of(name: str) -> str:
    value = settings.TENFOUR[name]
    value = int(value) if isinstance(value, bool) else value
    value = f"{value:g}" if isinstance(value, float) else value
    return ",".join(value) if isinstance(value, list) else str(value).rstrip("/")


GROUPS = tuple(
    Group(title, tuple(Setting(each.name, each.default, each.description) for each in group))
    for title, group in settings.TENFOUR_GROUPS
)
