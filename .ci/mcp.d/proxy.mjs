// Puts brig's token on requests, for suites that cannot send a header. A request for
// this proxy becomes one for brig; one for any other host stays one, and is brig's
// to refuse.
//   node proxy.mjs ADDRESS TOKENFILE      prints the proxy's own port
import http from 'node:http'
import fs from 'node:fs'

const [address, tokenFile] = process.argv.slice(2)
const [host, port] = address.split(':')
const token = fs.readFileSync(tokenFile, 'utf8').trim()

const server = http.createServer((request, answer) => {
  const own = `:${server.address().port}`
  const headers = { ...request.headers, authorization: `Bearer ${token}` }
  for (const name of ['host', 'origin']) {
    if (headers[name]?.endsWith(own)) headers[name] = headers[name].slice(0, -own.length) + `:${port}`
  }
  const on = http.request({ host, port, method: request.method, path: request.url, headers }, (from) => {
    answer.writeHead(from.statusCode, from.headers)
    answer.flushHeaders()
    from.pipe(answer)
    from.on('error', () => answer.destroy())
  })
  on.on('error', () => answer.destroy())
  answer.on('close', () => on.destroy())
  request.pipe(on)
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
