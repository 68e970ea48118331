"""Undoes what the journal says was made, newest first, and nothing else."""

from admin import Problem
from compare import NOTHING, merged, reverted

BUILT_IN = {"account", "account-console", "admin-cli", "broker", "realm-management", "security-admin-console"}


def undo(kc, journal, base, only):
    """With only, a set of user names, just what was made for them."""
    records = journal.mine()
    if only:
        only = {name.lower() for name in only}
        records = [r for r in records if r.get("person") in only]
    if not records:
        print("ok: nothing at Keycloak to remove")
        return
    if kc.get(base, missing_ok=True) is None:
        print(f"ok: the realm {journal.realm} is gone already")
        for r in records:
            journal.drop(r)
        return
    for r in records:
        said = _undone(kc, base, r)
        if said:
            journal.drop(r)
            print(said)


def _undone(kc, base, record):
    """What was done; None when the record has to stay."""
    kind, what, path = record["kind"], record["what"], base + record["path"]
    if kind == "realm":
        return _realm(kc, base, what)
    if kind == "patched":
        return _patched(kc, path, record)
    if kc.delete(path, record.get("body")):
        return f"removed {what}"
    return f"ok: {what} was gone already"


def _patched(kc, path, record):
    what = record["what"]
    now = kc.get(path, missing_ok=True)
    back = NOTHING if now is None else reverted(now, record["before"], record["after"])
    if back is NOTHING:
        return f"kept {what}: it has been changed since"
    kc.put(path, merged(now, back))
    return f"restored {what}"


def _realm(kc, base, what):
    """A realm goes only when nobody has put anything of theirs into it."""
    users = kc.get(f"{base}/users/count")
    clients = [c["clientId"] for c in kc.get(f"{base}/clients") if c["clientId"] not in BUILT_IN]
    if users or clients:
        print(f"kept {what}: it holds {users} other users and the clients {' '.join(clients) or '(none)'}")
        return None
    if not kc.delete(base):
        raise Problem(f"remove {what}: it is gone already")
    return f"removed {what}"
