"""What an agent does in a session, with the public Python client.

    python scenario.py MODE stdio BRIG
    python scenario.py MODE http URL TOKENFILE

MODE is legacy or auto (the revision without sessions where the server has it).
"""

import asyncio
import base64
import os
import sys
import time

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

PLOT = """
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
plt.plot([1, 4, 9])
plt.savefig("plot.png")
plt.show()
"""


def check(what, is_so, seen=None):
    if not is_so:
        sys.exit(f"FAILED: {what}: {seen}")


def said(result):
    return [c.text for c in result.content if c.type == "text"]


def images(result):
    return [base64.b64decode(c.data) for c in result.content if c.type == "image"]


async def session(client):
    async def run(**arguments):
        r = await client.call_tool("run_python_sandboxed", arguments)
        check("the run is answered", not r.is_error and r.structured_content, r)
        return r

    tools = {t.name for t in (await client.list_tools()).tools}
    check("all tools are listed", tools >= {
        "run_python_sandboxed", "run_wait", "run_cancel", "list_files", "read_file", "write_file", "sandbox_status"}, tools)
    status = await client.call_tool("sandbox_status", {})
    check("the status is told", status.structured_content["runs_code"] is True, status)

    r = await run(code="x = 41\nprint('hello')\nx + 1")
    check("output and result", (r.structured_content["stdout"], r.structured_content["result"]) == ("hello\n", "42"), r)
    check("the stamp is in words", "Sandbox: Ran in" in said(r)[0] and "No person was asked" in said(r)[0], said(r)[0])
    r = await run(lines=["y = x * 2", "print(y)"])
    check("variables stay", r.structured_content["stdout"] == "82\n", r)
    r = await run(code="1/0")
    check("an exception is told", r.structured_content["cause"] == "exception" and "ZeroDivisionError" in said(r)[0], r)

    r = await run(code=PLOT, timeout_seconds=120)
    if r.structured_content["state"] != "ended":
        r = await client.call_tool("run_wait", {"run": r.structured_content["run"]})
    check("a plot is an image", images(r) and images(r)[0].startswith(b"\x89PNG"), r)
    check("no image in the structured content", len(str(r.structured_content)) < 20000)

    w = await client.call_tool("write_file", {"path": "data/in.csv", "text": "a,b\n1,2\n3,4\n"})
    check("a file is written", w.structured_content["bytes"] == 12, w)
    r = await run(code="open('data/out.txt', 'w').write(open('data/in.csv').read().upper())")
    f = await client.call_tool("read_file", {"path": "data/out.txt"})
    check("a file comes back", f.structured_content["text"] == "A,B\n1,2\n3,4\n", f)
    names = {e["path"] for e in (await client.call_tool("list_files", {})).structured_content["files"]}
    check("files are listed", names >= {"data/in.csv", "data/out.txt", "plot.png"}, names)
    p = await client.call_tool("read_file", {"path": "plot.png"})
    check("an image file is an image", images(p) and images(p)[0].startswith(b"\x89PNG"), p)
    none = await client.call_tool("read_file", {"path": "../secret"})
    check("nothing leads out", none.is_error, none)

    r = await run(code="print('B' + 'x' * 3_000_000 + 'E')")
    out = r.structured_content["stdout"]
    check("long output is bounded", len(out) < 16000 and out.startswith("Bx") and out.endswith("xE\n"), (len(out), out[-50:]))
    check("what is left out is counted", r.structured_content["stdout_bytes"] == 3_000_003
          and r.structured_content["left_out_bytes"] > 2_900_000, r.structured_content["left_out_bytes"])
    links = [c.uri for c in r.content if c.type == "resource_link"]
    check("the rest is linked", links and str(links[0]).startswith("brig://"), links)
    rest = await client.read_resource(str(links[0]))
    check("the rest can be read", len(rest.contents[0].text) > 400_000, len(rest.contents[0].text))

    r = await run(code="import time\nprint('begun', flush=True)\ntime.sleep(3)\nprint('done')", wait_seconds=1)
    check("a long run is answered with its id", r.structured_content["state"] == "running" and "begun" in r.structured_content["stdout"], r)
    r = await client.call_tool("run_wait", {"run": r.structured_content["run"]})
    check("and can be waited for", r.structured_content["cause"] == "ok" and r.structured_content["stdout"] == "begun\ndone\n", r)

    told = []

    async def progress(done, total, message):
        told.append((done, message))

    began = time.monotonic()
    call = asyncio.create_task(client.call_tool(
        "run_python_sandboxed", {"code": "import time\nwhile True: time.sleep(0.1)", "timeout_seconds": 300}, progress_callback=progress))
    await asyncio.sleep(4)
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        pass
    r = await run(code="'alive'")
    check("a cancelled call ends its run", r.structured_content["result"] == "'alive'" and time.monotonic() - began < 60, r)
    check("progress is told", told and told == sorted(told), told)

    r = await run(code="import time\ntime.sleep(300)", wait_seconds=0, timeout_seconds=400)
    c = await client.call_tool("run_cancel", {"run": r.structured_content["run"]})
    check("a run can be cancelled by its id", c.structured_content["cause"] in ("cancelled", "interrupted"), c)

    other = await run(code="'x' in dir()", session="another")
    check("another session is another", other.structured_content["result"] == "False", other)


async def main():
    mode, how, *target = sys.argv[1:]
    if how == "stdio":
        server = StdioServerParameters(command=target[0], args=["mcp"], env=dict(os.environ))
        async with Client(server, mode=mode) as client:
            await session(client)
    else:
        token = open(target[1]).read().strip()
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as h:
            async with Client(streamable_http_client(target[0], http_client=h), mode=mode) as client:
                await session(client)
                print(f"revision {client.protocol_version}", end=" ")
    print(f"Python client, {mode}, {how}: all held")


asyncio.run(main())
