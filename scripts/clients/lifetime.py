#!/usr/bin/env python3
"""The official Python SDK and a session's lifetime; what lifetime.mjs does in TypeScript."""

import asyncio
import os
import re
import urllib.parse

import httpx2
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

target = urllib.parse.urlsplit(os.environ["URL"])
wires, swallow = set(), False


def want(ok, what):
    if not ok:
        raise AssertionError(what)
    print("ok   ", what)


async def wire(reader, writer):
    """A wire that can swallow what the server sends, and break."""
    up_reader, up_writer = await asyncio.open_connection(target.hostname, target.port)
    wires.add(writer)

    async def pass_on(source, sink, inwards):
        try:
            while data := await source.read(65536):
                if inwards:  # the server answers to its own port alone
                    data = re.sub(rb"(?im)^(host: 127\.0\.0\.1):\d+", rb"\1:%d" % target.port, data, count=1)
                if inwards or not swallow:
                    sink.write(data)
                    await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()
            wires.discard(writer)
    await asyncio.gather(pass_on(reader, up_writer, True), pass_on(up_reader, writer, False))


async def call(client, name, arguments=None, **options):
    return str(await client.call_tool(name, arguments or {}, **options))


async def answers(base):
    async def sample(context, params):
        return types.CreateMessageResult(role="assistant", model="none", content=types.TextContent(type="text", text="sampled-here"))

    async def elicit(context, params):
        return types.ElicitResult(action="accept", content={"username": "elicited-here", "email": "a@example.org"})
    steps = []

    async def on_progress(done, total, message):
        steps.append(done)
    async with Client(base + "/every", mode="legacy", sampling_callback=sample, elicitation_callback=elicit) as client:
        await call(client, "test_tool_with_progress", progress_callback=on_progress)
        want(len(steps) >= 2, "progress")
        want("sampled-here" in await call(client, "test_sampling", {"prompt": "x"}), "sampling is answered")
        want("elicited-here" in await call(client, "test_elicitation", {"message": "x"}), "elicitation is answered")


async def streams(base):
    global swallow
    got, sessions = [], set()

    async def seen(message):
        if "list_changed" in str(message):
            got.append(message)

    async def note(response):
        if response.headers.get("mcp-session-id"):
            sessions.add(response.headers["mcp-session-id"])

    async def raw(method, body=None):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": min(sessions)}
        async with httpx2.AsyncClient() as http:
            return await http.request(method, os.environ["URL"] + "/mcp", content=body, headers=headers)

    async def changed():
        await raw("POST", '{"jsonrpc":"2.0","id":"raw","method":"tools/call","params":{"name":"changed","arguments":{"text":"x"}}}')
    async with httpx2.AsyncClient(timeout=30, event_hooks={"response": [note]}) as http:
        async with Client(streamable_http_client(base + "/mcp", http_client=http), mode="legacy", message_handler=seen) as client:
            await asyncio.sleep(0.5)
            await changed()
            await asyncio.sleep(0.5)
            want(len(got) == 1, "a message on the GET stream")
            swallow = True  # what is sent now is lost on the way
            await changed()
            await asyncio.sleep(0.3)
            for w in list(wires):
                w.transport.abort()
            swallow = False
            for _ in range(100):
                if len(got) >= 2:
                    break
                await asyncio.sleep(0.1)
            want(len(got) == 2, "the message that was lost with its stream is given back after a reconnect")
            await changed()
            await asyncio.sleep(1)
            want(len(got) == 3, "and each only once")
            try:
                async with asyncio.timeout(0.5):
                    await call(client, "slow", {"text": "x", "ms": 5000})
                want(False, "cancel")
            except TimeoutError:
                want(True, "cancel")
            want("still here" in await call(client, "echo", {"text": "still here"}), "the session lives on after it")
            await raw("DELETE")
            try:
                await call(client, "echo", {"text": "x"})
                want(False, "a session that ended is an error to the client")
            except Exception as e:
                want("session" in str(e).lower() or "404" in str(e), "a session that ended is an error to the client")
    async with Client(base + "/mcp", mode="legacy") as client:
        want("anew" in await call(client, "echo", {"text": "anew"}), "which begins anew")


async def main():
    server = await asyncio.start_server(wire, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await answers(base)
    await streams(base)
    os._exit(0)  # whatever the wires still do


asyncio.run(main())
