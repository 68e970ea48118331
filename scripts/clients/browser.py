#!/usr/bin/env python3
"""In place of a person's browser, as $BROWSER: signs in where the address leads, and opens the client's own page."""

import sys
import urllib.request

from person import sign_in

with urllib.request.urlopen(sign_in(sys.argv[1])) as page:
    page.read()
