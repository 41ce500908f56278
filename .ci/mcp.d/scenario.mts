// What an agent does in a session, with the public TypeScript client.
//   node scenario.mts stdio BRIG
//   node scenario.mts http URL TOKENFILE
import fs from 'node:fs'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const [how, target, tokenFile]: string[] = process.argv.slice(2)

function check(what: string, isSo: unknown, seen?: unknown): void {
  if (isSo) return
  console.error(`FAILED: ${what}: ${JSON.stringify(seen)?.slice(0, 3000)}`)
  process.exit(1)
}

const client = new Client({ name: 'scenario', version: '1' })
const transport = how === 'stdio'
  ? new StdioClientTransport({ command: target, args: ['mcp'], env: process.env as Record<string, string> })
  : new StreamableHTTPClientTransport(new URL(target), {
      requestInit: { headers: { Authorization: `Bearer ${fs.readFileSync(tokenFile, 'utf8').trim()}` } },
    })
await client.connect(transport)

// The client holds structured content against the schema that the list gave.
const call = async (name: string, args: object, options = {}): Promise<any> =>
  client.callTool({ name, arguments: args as Record<string, unknown> }, undefined, options)
const run = async (args: object, options = {}): Promise<any> => {
  const r = await call('run_python_sandboxed', args, options)
  check('the run is answered', !r.isError && r.structuredContent, r)
  return r
}

const tools = (await client.listTools()).tools.map((t) => t.name)
check('the tools are listed', ['run_python_sandboxed', 'list_files', 'read_file', 'write_file', 'sandbox_status'].every((t) => tools.includes(t)), tools)

let r = await run({ code: 'x = 41\nx + 1' })
check('a result', r.structuredContent.result === '42', r)
check('the stamp is in words', r.content[0].text.includes('Sandbox: Ran in'), r.content[0])

const plot = 'import matplotlib; matplotlib.use("Agg")\nimport matplotlib.pyplot as plt\nplt.plot([x, 2])\nplt.savefig("plot.png"); plt.show()'
r = await run({ code: plot, timeout_seconds: 120 })
if (r.structuredContent.state !== 'ended') r = await call('run_wait', { run: r.structuredContent.run })
const png = r.content.find((c: any) => c.type === 'image')
check('a plot is an image', png?.mimeType === 'image/png' && Buffer.from(png.data, 'base64').subarray(1, 4).toString() === 'PNG', r)

const w = await call('write_file', { path: 'in.txt', text: 'ünï\n' })
check('a file is written', w.structuredContent.bytes === 6, w)
await run({ code: "open('out.txt','w').write(open('in.txt').read() * 2)" })
const f = await call('read_file', { path: 'out.txt' })
check('a file comes back', f.structuredContent.text === 'ünï\nünï\n', f)

const told: number[] = []
const stop = new AbortController()
setTimeout(() => stop.abort('enough'), 4000)
const began = Date.now()
try {
  await run({ code: 'import time\nwhile True: time.sleep(0.1)', timeout_seconds: 300 },
    { signal: stop.signal, onprogress: (p: any) => told.push(p.progress) })
  check('the call was cancelled', false)
} catch (e) {
  check('the call was cancelled', String(e).includes('enough'), String(e))
}
r = await run({ code: 'x' })
check('a cancelled call ends its run', r.structuredContent.cause === 'ok' && Date.now() - began < 60000, r)
check('progress is told', told.length > 0 && told.every((n, i) => i === 0 || n > told[i - 1]), told)

if (transport instanceof StreamableHTTPClientTransport) await transport.terminateSession()
await client.close()
console.log(`TypeScript client, ${how}: all held`)
