"""A headless Chromium, driven over the WebDriver protocol. Standard library only.

It needs the programs chromium and chromedriver (Debian: chromium, chromium-driver).
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

# No sandbox of its own as root, and none of the requests that a browser makes for itself.
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--window-size=1400,1000"]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # WebDriver section 12.1


class Browser:
    """One browser with a profile of its own; end it with close()."""

    def __init__(self):
        self.profile = tempfile.mkdtemp()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.at = f"http://127.0.0.1:{port}"
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, env=dict(os.environ, HOME=self.profile))
        self.session = ""
        try:
            self._wait_for_driver()
            made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
                # The profile is new and knows no private authority.
                "acceptInsecureCerts": True,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                "goog:chromeOptions": {"binary": shutil.which("chromium"),
                                       "args": ARGUMENTS + [f"--user-data-dir={self.profile}/data"]}}}})
            self.session = f"/session/{made['sessionId']}"
        except BaseException:
            self.close()
            raise

    def _wait_for_driver(self):
        until = time.time() + 20
        while True:
            try:
                self._call("GET", "/status")
                return
            except (urllib.error.URLError, ConnectionError):
                if time.time() > until:
                    raise
                time.sleep(0.1)

    def _call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.at + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as r:
                return json.load(r)["value"]
        except urllib.error.HTTPError as e:
            raise RuntimeError(json.load(e)["value"]["message"].split("\n")[0]) from None

    def close(self):
        if self.session:
            try:
                self._call("DELETE", self.session)
            except (RuntimeError, OSError):
                pass
        self.driver.terminate()
        self.driver.wait(10)
        shutil.rmtree(self.profile, ignore_errors=True)

    def open(self, url):
        self._call("POST", self.session + "/url", {"url": url})

    def url(self):
        return self._call("GET", self.session + "/url")

    def script(self, text, *arguments):
        return self._call("POST", self.session + "/execute/sync", {"script": text, "args": list(arguments)})

    def text(self):
        return self.script("return document.body ? document.body.innerText : ''")

    def find(self, xpath):
        """The elements, as they are now."""
        found = self._call("POST", self.session + "/elements", {"using": "xpath", "value": xpath})
        return [e[ELEMENT] for e in found]

    def click(self, xpath, seconds=15):
        """Clicks the first that can be clicked."""
        def attempt():
            for e in self.find(xpath):
                try:
                    self._call("POST", f"{self.session}/element/{e}/click", {})
                    return True
                except RuntimeError:
                    continue
            return False
        self.until(attempt, f"nothing to click at {xpath}", seconds)

    def type(self, xpath, text):
        def attempt():
            for e in self.find(xpath):
                try:
                    self._call("POST", f"{self.session}/element/{e}/clear", {})
                    self._call("POST", f"{self.session}/element/{e}/value", {"text": text})
                    return True
                except RuntimeError:
                    continue
            return False
        self.until(attempt, f"nowhere to type at {xpath}", 15)

    def until(self, condition, otherwise, seconds=20):
        end = time.time() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.time() > end:
                raise RuntimeError(f"{otherwise}; the page at {self.url()} says: {self.text()[:600]!r}")
            time.sleep(0.2)

    def windows(self):
        return self._call("GET", self.session + "/window/handles")

    def switch(self, window):
        self._call("POST", self.session + "/window", {"handle": window})

    def log(self, kind):
        return self._call("POST", self.session + "/se/log", {"type": kind})

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self._call("GET", self.session + "/screenshot")))

    def sign_in(self, until, user, password, seconds=40):
        """Fills in what an issuer shows, until the address begins with until."""
        filled, end = False, time.time() + seconds
        while not self.url().startswith(until):
            if not filled and self.find("//*[@name='password']"):
                if self.find("//select[@name='username']"):
                    self.click(f"//option[normalize-space()='{user}']")
                else:
                    self.type("//input[@name='username']", user)
                self.type("//input[@name='password']", password)
                filled = True
                self.click("//form//*[@type='submit'] | //form//button[@value='allow']")
            elif self.find("//*[@name='accept']"):  # consent, or a device's code
                self.click("//*[@name='accept']")
            elif time.time() > end:
                raise RuntimeError(f"not back from {self.url()}: {self.text()[:600]!r}")
            time.sleep(0.3)
