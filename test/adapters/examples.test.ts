import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Runs against the built package, as a user would: `npm test` builds it. */
describe('the examples run', function () {
  this.timeout(60_000)
  const children: ChildProcess[] = []
  let backends = ''
  const start = (args: string[], env: NodeJS.ProcessEnv = {}) => {
    const child = spawn(process.execPath, args, {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    children.push(child)
    return child
  }
  const line = (child: ChildProcess) =>
    new Promise<string>((resolve) => child.stdout!.once('data', (data) => resolve(String(data).trim())))
  before(async () => {
    const ports = await Promise.all(
      [1, 2].map(() => line(start(['--import', 'tsx', 'test/support/engine.ts', '5', '2']))),
    )
    backends = ports.map((port) => `http://127.0.0.1:${port}`).join(',')
  })
  after(() => {
    for (const child of children) child.kill('SIGKILL')
  })

  for (const name of ['hono-proxy', 'express-proxy', 'fastify-proxy']) {
    it(name, async () => {
      const child = start([`examples/live/${name}.js`], { BACKENDS: backends, PORT: '0' })
      const port = /\d+$/.exec(await line(child))![0]
      const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
        method: 'POST',
        body: JSON.stringify({ model: 'any', messages: [{ role: 'user', content: 'hi' }], max_tokens: 3 }),
      })
      assert.equal(response.status, 200)
      const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
      assert.equal(choices[0]!.message.content, 'word word word ')
      if (name === 'express-proxy') {
        const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
        assert.match(page, /laxity_outcomes_total\{outcome="ok"\} 1/)
      } else {
        const snapshot = (await (await fetch(`http://127.0.0.1:${port}/dashboard`)).json()) as {
          leasesGranted: number
        }
        assert.equal(snapshot.leasesGranted, 1)
      }
    })
  }

  for (const protocol of ['sglang', 'vllm']) {
    it(`pair-proxy (${protocol})`, async () => {
      const legs = await Promise.all(
        ['prefill', 'decode'].map((role) =>
          line(start(['--import', 'tsx', 'test/support/pair-engine.ts', role, '5', '2', '10000', '60000'])),
        ),
      )
      const [prefill, decode] = legs.map((ports) => ports.split(' ')) as [string[], string[]]
      const child = start(['examples/live/pair-proxy.js'], {
        PREFILL: `http://127.0.0.1:${prefill[0]}`,
        DECODE: `http://127.0.0.1:${decode[0]}`,
        BOOTSTRAP: prefill[1]!,
        PROTOCOL: protocol,
        PORT: '0',
      })
      const port = /\d+$/.exec(await line(child))![0]
      assert.equal((await fetch(`http://127.0.0.1:${port}/ready`)).status, 200)
      const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
        method: 'POST',
        body: JSON.stringify({ model: 'any', messages: [{ role: 'user', content: 'hi' }], max_tokens: 3 }),
      })
      assert.equal(response.status, 200)
      assert.equal(response.headers.get('x-laxity-decode'), `http://127.0.0.1:${decode[0]}`)
      const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
      assert.equal(choices[0]!.message.content, 'w w w ')
    })
  }

  for (const name of ['agent', 'langchain', 'undici-agent']) {
    it(name, async () => {
      assert.equal(
        await line(start([`examples/live/${name}.js`], { BACKENDS: backends })),
        'word '.repeat(20).trim(),
      )
    })
  }

  it('ai-sdk', async () => {
    const child = start(['examples/live/ai-sdk.js'], { BACKENDS: backends })
    let text = ''
    child.stdout!.on('data', (data) => {
      text += data
    })
    assert.equal(await new Promise((resolve) => child.once('exit', resolve)), 0)
    assert.equal(text, `${Array.from({ length: 20 }, (_, i) => `w${i} `).join('')}\n`)
  })
})
