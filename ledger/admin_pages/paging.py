"""Pages of the admin's lists, which are counted up to a limit."""

from functools import cached_property
from typing import Any

from django.core.paginator import Paginator

# counting more rows would read a table of millions for each page of a list
COUNT_LIMIT = 10_000


class LimitedPaginator(Paginator):  # type: ignore[type-arg]
    """The pages of the first rows of a list; it has no pages for rows after the limit."""

    limit = COUNT_LIMIT

    @cached_property
    def found(self) -> int:
        # One row more than the limit shows that there are more.
        rows: Any = self.object_list
        return int(rows.order_by()[: self.limit + 1].count())

    @cached_property
    def count(self) -> int:
        return min(self.found, self.limit)

    @property
    def has_more(self) -> bool:
        return self.found > self.limit

    @property
    def total(self) -> str:
        """Return the number of rows, such as "1,250", or "10,000+" where counting stopped."""
        return f"{self.count:,}{'+' if self.has_more else ''}"
