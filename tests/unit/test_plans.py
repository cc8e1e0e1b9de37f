"""Which plan runs, and why, without Spark."""

from __future__ import annotations

import pytest

from recallk_spark import Protocol
from recallk_spark.errors import UsageError
from recallk_spark.plans import Plan, choose


@pytest.mark.parametrize(
    ("asked", "settings", "more", "plan", "why"),
    [
        ("auto", {}, {}, Plan.PRUNED, "read the same twice"),
        ("auto", {}, {"obstacle": "too large"}, Plan.WINDOW, "too large"),
        ("auto", {"duplicates": "collapse"}, {}, Plan.WINDOW, "duplicates = collapse takes whole lists"),
        ("auto", {"duplicates": "error"}, {}, Plan.WINDOW, "duplicates = error takes whole lists"),
        ("auto", {}, {"whole_lists": True}, Plan.WINDOW, "whole lists"),
        ("pruned", {}, {"obstacle": "too large"}, Plan.PRUNED, "asked for"),
        ("pruned", {}, {"whole_lists": True}, Plan.WINDOW, "whole lists"),
        ("window", {}, {}, Plan.WINDOW, "asked for"),
    ],
)
def test_the_plan_follows_from_what_is_asked_and_what_is_needed(
    asked: str, settings: dict[str, str], more: dict[str, object], plan: Plan, why: str
) -> None:
    choice = choose(asked, Protocol(**settings), **more)
    assert choice.plan is plan
    assert why in choice.why


@pytest.mark.parametrize(
    ("asked", "settings", "message"),
    [
        ("pruned", {"duplicates": "error"}, "plan = pruned: duplicates = error takes whole lists; use auto or window"),
        ("prunde", {}, "plan: unknown value 'prunde'; did you mean 'pruned'?"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(asked: str, settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        choose(asked, Protocol(**settings))
    assert str(refused.value) == message
