#!/usr/bin/env python3
"""The person with the other device: opens the address that a program shows, and signs in."""

import sys

from person import env, login

login.Browser("").sign_in(sys.argv[1], env("SIGN_IN"), env("PASSWORD"))
