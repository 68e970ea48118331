#!/usr/bin/env python3
"""Prepares a Keycloak realm for the MCP server, checks it, or undoes what was prepared.

setup-oidc-users.sh is the command for people; this is its part that speaks to
Keycloak. The administrator's password is the first line of standard input.
Lines about what was done go to standard output; with --out a file gets
"issuer" and the URL, and for each user "user", name, subject, full name and
e-mail ("-": none), with tabs between. Exit status: 0 nothing was to be done, 3
something was (with check: is), 2 it did not work.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from admin import Keycloak, Problem, quote  # noqa: E402
from journal import Journal  # noqa: E402
from provision import Setup  # noqa: E402
from undo import undo  # noqa: E402

DIFFERENT, FAILED = 3, 2


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("action", choices=["ensure", "check", "remove"])
    p.add_argument("--url", required=True)
    p.add_argument("--realm", required=True)
    p.add_argument("--journal", required=True)
    p.add_argument("--admin-user", default="admin")
    p.add_argument("--admin-realm", default="master")
    p.add_argument("--audience", default="")
    p.add_argument("--client", default="mcp-cli")
    p.add_argument("--user", action="append", default=[])
    p.add_argument("--passwords", help="file of lines NAME:PASSWORD for users that are made")
    p.add_argument("--allow-dcr", action="store_true")
    p.add_argument("--dcr-host", action="append", default=[])
    p.add_argument("--out")
    return p.parse_args()


def read_passwords(path):
    passwords = {}
    if path:
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                name, colon, password = line.rstrip("\r\n").partition(":")
                if not line.strip():
                    continue
                if not colon or not password:
                    raise Problem(f"{path}, line {number}: want NAME:PASSWORD")
                passwords[name.lower()] = password
    return passwords


def write_out(path, setup):
    if not path:
        return
    with open(path, "w", encoding="utf-8") as f:
        print("issuer", setup.issuer, sep="\t", file=f)
        for u in setup.people:
            print("user", u.name, u.subject, u.full_name or "-", u.email or "-", sep="\t", file=f)


def main():
    a = arguments()
    password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise Problem("no administrator's password on standard input")
    kc = Keycloak(a.url, a.admin_user, password, a.admin_realm)
    journal = Journal(a.journal, kc.url, a.realm)
    if a.action == "remove":
        undo(kc, journal, f"/realms/{quote(a.realm)}", only=set(a.user))
        return 0
    setup = Setup(kc, journal, a.realm, dry=a.action == "check")
    setup.realm_itself()
    if not setup.gone:
        setup.scope(a.audience)
        setup.client(a.client)
        if a.allow_dcr:
            setup.registration(a.dcr_host)
        passwords = read_passwords(a.passwords)
        for name in a.user:
            setup.person(name, passwords.get(name.lower()))
        setup.issuer = kc.discovery(a.realm)["issuer"]
    write_out(a.out, setup)
    if setup.differences == 0:
        print(f"ok: the realm {a.realm} at {kc.url} is as it should be")
    return DIFFERENT if setup.differences else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Problem, OSError) as e:
        print(f"{e}", file=sys.stderr)
        sys.exit(FAILED)
