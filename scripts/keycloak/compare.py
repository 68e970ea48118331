"""Differences between what a realm has and what it should have."""

NOTHING = object()


class Including(list):
    """A list that must hold these items, and may hold others."""


def wanting(have, want):
    """The part of want that have lacks, with the new values; NOTHING when it lacks none."""
    if isinstance(want, Including):
        have = have or []
        absent = [x for x in want if x not in have]
        return have + absent if absent else NOTHING
    if isinstance(want, dict):
        have = have if isinstance(have, dict) else {}
        parts = {k: wanting(have.get(k), v) for k, v in want.items()}
        parts = {k: v for k, v in parts.items() if v is not NOTHING}
        return parts if parts else NOTHING
    return NOTHING if have == want else want


def merged(have, change):
    """have with change put into it."""
    if not isinstance(change, dict):
        return change
    have = dict(have) if isinstance(have, dict) else {}
    for k, v in change.items():
        have[k] = merged(have.get(k), v)
    return have


def before(have, change):
    """The values of have in the places of change; None where there is none."""
    if not isinstance(change, dict):
        return have
    have = have if isinstance(have, dict) else {}
    return {k: before(have.get(k), v) for k, v in change.items()}


def reverted(now, was, became):
    """What puts now back to was, in the places that still are as they became; NOTHING when none is.

    Lists lose only what was added. The API clears a text by "" and a list by [].
    """
    if isinstance(became, dict):
        now, was = now if isinstance(now, dict) else {}, was if isinstance(was, dict) else {}
        parts = {k: reverted(now.get(k), was.get(k), v) for k, v in became.items()}
        parts = {k: v for k, v in parts.items() if v is not NOTHING}
        return parts if parts else NOTHING
    if isinstance(became, list):
        added = [x for x in became if x not in (was or [])]
        kept = [x for x in now or [] if x not in added]
        kept += [x for x in was or [] if x not in became and x not in kept]
        return NOTHING if kept == now else kept
    if now != became:
        return NOTHING
    return "" if was is None and isinstance(became, str) else was


def told(change, name=""):
    """A change in words, for a person."""
    if not isinstance(change, dict):
        return f"{name} = {' '.join(map(str, change)) if isinstance(change, list) else change}"
    return ", ".join(told(v, k) for k, v in change.items())
