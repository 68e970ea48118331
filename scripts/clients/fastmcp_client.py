#!/usr/bin/env python3
"""Drives FastMCP's client (package fastmcp); person.py says how it is told what to do."""

import asyncio
import logging
import re
import threading
import time
import urllib.request
import webbrowser

from fastmcp import Client
from fastmcp.client.auth import ClientCredentialsOAuthProvider, OAuth
from fastmcp.client.transports import StreamableHttpTransport

from person import env, report, sign_in

statuses = []


class Statuses(logging.Handler):
    """The client's errors hide the HTTP status; its HTTP library logs it."""

    def emit(self, record):
        found = re.search(r"HTTP/\S+ (\d{3})", record.getMessage())
        if found:
            statuses.append(int(found.group(1)))


http_log = logging.getLogger("httpx2")
http_log.setLevel(logging.INFO)
http_log.addHandler(Statuses())
http_log.propagate = False


def open_browser(address, *_, **__):
    """In place of the browser: signs in, and brings the code to the client's own listener."""
    def go():
        back = sign_in(address)
        for _ in range(40):
            try:
                urllib.request.urlopen(back).close()
                return
            except OSError:
                time.sleep(0.2)
    threading.Thread(target=go, daemon=True).start()
    return True


webbrowser.open = open_browser


def auth():
    if env("TOKEN"):
        return env("TOKEN")
    if env("CLIENT_SECRET"):
        return ClientCredentialsOAuthProvider(client_id=env("CLIENT_ID"), client_secret=env("CLIENT_SECRET"),
                                              issuer=env("ISSUER"),
                                              scopes="mcp:use")
    return OAuth(client_id=env("CLIENT_ID")) if env("CLIENT_ID") else OAuth()


async def call(client, name, arguments=None, **options):
    return (await client.call_tool(name, arguments or {}, **options)).content[0].text


async def session(client):
    print("tools", len(await client.list_tools()))
    assert await call(client, "echo", {"text": "hi"}) == "hi"
    first = await call(client, "whoami")
    print("whoami", first)
    steps = []

    async def on_progress(done, total, message):
        steps.append(done)
    await call(client, "progress", progress_handler=on_progress)
    print("progress", len(steps))
    assert len(steps) == 3, steps
    task = asyncio.create_task(call(client, "slow", {"seconds": 30}))
    await asyncio.sleep(1)
    task.cancel()
    try:
        await task
        raise SystemExit("the call was not cancelled")
    except asyncio.CancelledError:
        print(await call(client, "cancellations"))
    if env("HOLD"):
        await asyncio.sleep(float(env("HOLD")))
        again = await call(client, "whoami")
        print("again", again)
        assert again == first, "another process answers: the session was lost"


async def main():
    transport = StreamableHttpTransport(env("URL"), verify=env("CA"), auth=auth())
    async with Client(transport, mode=env("MODE", "auto")) as client:
        await session(client)
    print("OK")


try:
    asyncio.run(main())
except Exception as e:
    report(e, statuses)
