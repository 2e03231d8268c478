// docs/proxy.md from the runs.
import { availableParallelism, cpus } from 'node:os'
import { fixed, mean, table } from '../hexagent/tables.js'
import { CLUSTER, GPUS, LOAD, PRESET, STREAM_INTERVAL, simulated, workload } from './settings.js'
import { p95Ratio, quantile } from './statistics.js'

const SCALES = [2, 3, 4, 5, 6, 8]
const seconds = (ms) => fixed(ms / 1000, 1)

export async function page({ results, workflows, seeds, compression, saturationPerS, rate }) {
  const names = Object.keys(results)
  const latencies = (name) => results[name].map((run) => run.latencyMs)
  const all = (name) => latencies(name).flat()
  const [own, ...others] = names

  const callMs = mean(others.flatMap((name) => results[name].map((run) => run.engineMs)))
  const beyond = mean(others.flatMap((name) => results[name].map((run) => run.beyondEngineMs.p50)))
  const gapMs = beyond * compression
  const predicted = {}
  let baseMs = 0
  for (const name of names) {
    const runs = []
    for (let seed = 1; seed <= seeds; seed += 1) {
      const result = await simulated(name, await workload(seed, workflows, rate), gapMs)
      runs.push(...result.latencyMs)
      baseMs = result.baseMs[0]
    }
    predicted[name] = runs
  }

  const main = table(
    ['policy', 'mean, s', 'P50, s', 'P95, s', 'P99, s', 'P95 in the simulator, s'],
    names.map((name) => [
      `\`${name}\``,
      seconds(mean(all(name))),
      ...[0.5, 0.95, 0.99].map((q) => seconds(quantile(all(name), q))),
      seconds(quantile(predicted[name], 0.95)),
    ]),
  )
  const ratios = table(
    ['`laxity` against', 'P95 ratio', '95 % interval', 'by seed', 'in the simulator'],
    others.map((name) => {
      const { ratio, low, high } = p95Ratio(latencies(own), latencies(name))
      const bySeed = latencies(own).map((run, k) => quantile(run, 0.95) / quantile(latencies(name)[k], 0.95))
      return [
        `\`${name}\``,
        fixed(ratio, 3),
        `${fixed(low, 3)} – ${fixed(high, 3)}`,
        bySeed.map((value) => fixed(value, 3)).join(', '),
        fixed(quantile(predicted[own], 0.95) / quantile(predicted[name], 0.95), 3),
      ]
    }),
  )
  const attainment = table(
    ['policy', ...SCALES.map((scale) => `× ${scale}`)],
    names.map((name) => [
      `\`${name}\``,
      ...SCALES.map((scale) => {
        const met = all(name).filter((latency) => latency <= scale * baseMs).length
        return `${fixed((100 * met) / all(name).length, 1)} %`
      }),
    ]),
  )
  const processes = table(
    [
      'policy',
      'calls',
      'by instance',
      'real s',
      'router CPU, s',
      'agents CPU, s',
      'beyond the engine, real ms (P50 / P99)',
    ],
    names.map((name) => {
      const runs = results[name]
      const sum = (value) => runs.reduce((total, run) => total + value(run), 0)
      return [
        `\`${name}\``,
        sum((run) => run.calls),
        GPUS.map((gpu, i) => `${gpu} ${sum((run) => run.served[i])}`).join(', '),
        fixed(
          sum((run) => run.realS),
          0,
        ),
        fixed(
          sum((run) => run.cpuS.router),
          1,
        ),
        fixed(
          sum((run) => run.cpuS.agents),
          1,
        ),
        // Where the router queues, this is mostly its queue.
        name === own
          ? '–'
          : `${fixed(mean(runs.map((r) => r.beyondEngineMs.p50)), 1)} / ${fixed(mean(runs.map((r) => r.beyondEngineMs.p99)), 1)}`,
      ]
    }),
  )
  return `# A proxy before emulated GPUs

Written by \`npm run proxy -- --workflows ${workflows} --seeds ${seeds} --compression ${compression} --out docs/proxy.md\` on
${availableParallelism()} cores (${cpus()[0]?.model.trim() ?? 'unknown'}), Node ${process.version}.

Every part is a process of its own and everything between them is HTTP: agents that use the official \`openai\` client, the package's Hono proxy,
four emulated GPUs (${CLUSTER}: ${GPUS.join(', ')}) that stream at the latency model's speed, one chunk per ${STREAM_INTERVAL} tokens, with its KV capacity. Time is
compressed by ${compression} in all of them; times here are the model's. Workflows are CHESS-like (statistics of HexGen-Flow's trace ${PRESET}), ${workflows} in each of
${seeds} runs per policy, the runs interleaved, workflows and Poisson arrivals the same for every policy. The proxy knows the GPUs' speeds, and of a
request its session, stage and bytes; lengths of answers it learns by stage, deadlines are not declared.

Load ${LOAD}: ${fixed(rate, 3)} workflows/s of ${fixed(saturationPerS, 3)}, the rate at which ${CLUSTER} works off 90 % of 2,000 workflows that are all there at once
(\`laxity compare\`'s definition, in the simulator). Through the same code path, \`round-robin\` and \`least-connections\` are the package's placements
\`round-robin\` and \`least-loaded\` with \`passThrough\`: they send at once and the engines queue, first come, first served.

${main}

In the simulator: the same workflows and arrivals, with ${fixed(gapMs, 0)} ms between a call and those that follow it, which is what HTTP takes here.

P95 over the workflows of all runs; intervals from 10,000 resamples of workflows inside each run, paired by id. Workflows of one run share its
queues, so the ratios of the single runs stand beside them.

${ratios}

Attainment: the share of workflows that end within a multiple of the template's time alone (${seconds(baseMs)} s):

${attainment}

The machinery: of ${fixed(callMs, 0)} real ms that a mean call spends in its engine under the baselines, HTTP, proxy, client and late timers add
${fixed(beyond, 1)} (${fixed((100 * beyond) / callMs, 1)} %). Where that is more than a few percent the machine was too busy for the figures above to count.

${processes}
`
}
