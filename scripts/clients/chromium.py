#!/usr/bin/env python3
"""In place of a person with Chromium, as $BROWSER: opens the address, signs in and reads the client's own last page."""

import sys

from person import env, parameters
from webdriver import Browser

browser = Browser()
try:
    address = sys.argv[1]
    browser.open(address)
    browser.sign_in(parameters(address)["redirect_uri"], env("SIGN_IN"), env("PASSWORD"))
    browser.until(lambda: "Signed in" in browser.text(), "the last page does not say that it worked")
finally:
    browser.close()
