// One run: engines, router and agents as processes of their own, from their start to their end.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { findGpu } from '../../dist/cluster/gpus.js'
import { COMPRESSION, GPUS, POLICIES, STREAM_INTERVAL } from './settings.js'

/** { latencyMs by workflow, calls, beyondEngineMs, kvPeak, realS, busy }: latencies in the latency model's time. */
export async function run({ policy, seed, workflows, rate, compression = COMPRESSION }) {
  const started = performance.now()
  const children = []
  const start = (script, options) => {
    const file = fileURLToPath(new URL(script, import.meta.url))
    const child = spawn(process.execPath, [file, JSON.stringify(options)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    children.push(child)
    return child
  }
  const listening = async (script, options) => `http://127.0.0.1:${await firstLine(start(script, options))}`
  try {
    const engines = await Promise.all(
      GPUS.map((gpu) => {
        const { latency, kvTokens, maxSequences } = findGpu(gpu)
        return listening('engine.js', {
          latency,
          kvTokens,
          maxSequences,
          compression,
          streamInterval: STREAM_INTERVAL,
        })
      }),
    )
    const instances = engines.map((url, i) => ({ id: `${GPUS[i]}-${i}`, url, gpu: GPUS[i] }))
    const { router } = POLICIES[policy]
    const url = await listening('router.js', { instances, router, compression })
    const seen = JSON.parse(await firstLine(start('agents.js', { url, compression, seed, workflows, rate })))

    const state = await stateOf(url)
    if (state.activeCalls + state.queued + state.workflows > 0)
      throw new Error(`The router kept something: ${JSON.stringify(state)}`)
    const ends = await Promise.all(engines.map(stateOf))
    const served = ends.map((end) => end.served)
    if (served.reduce((sum, n) => sum + n, 0) !== seen.calls)
      throw new Error(`${seen.calls} calls, but the engines served ${served}`)
    const { cpuMs, ...more } = seen
    const realS = (performance.now() - started) / 1000
    return {
      ...more,
      served,
      kvPeak: Math.max(...ends.map(({ kvPeak }) => kvPeak)),
      realS,
      cpuS: { agents: cpuMs / 1000, router: state.cpuMs / 1000 },
    }
  } finally {
    for (const child of children) child.kill('SIGKILL')
  }
}

async function stateOf(url) {
  return (await fetch(`${url}/state`)).json()
}

/** What a process prints first; it may print it in pieces. */
function firstLine(child) {
  return new Promise((resolve, reject) => {
    let text = ''
    child.stdout.setEncoding('utf8').on('data', (data) => {
      text += data
      const end = text.indexOf('\n')
      if (end >= 0) resolve(text.slice(0, end))
    })
    child.once('close', (status) => reject(new Error(`${child.spawnargs[1]} ended with ${status}`)))
  })
}
