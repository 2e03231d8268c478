// Cost against size: planning, dispatch and simulation. One curve per series; exponents are fitted in performance/curves.js.
// Sizes that would take over two minutes each are left out, and said. Thread CPU time; the longest simulations in processes of
// their own, whose peak memory is told.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { dispatchRow } from './dispatch.js'
import { affordable, round, spread } from './measure.js'
import { planTraffic, simulationTraffic, times } from './performance/traffic.js'
import { planSamples } from './planner.js'
import { chess, rateAt, simulated, simulatorOf } from './simulations.js'

const LIMIT_S = 120
const INSTANCES = [4, 16, 64, 256, 1024, 4096]
const CALLS = [16, 64, 256, 1024, 4096, 16_384, 100_000]
const WAITING = [100, 1000, 10_000, 100_000]
/** 21 calls each: to 10⁷ calls. */
const WORKFLOWS = [50, 500, 5000, 50_000, 480_000]

export async function run(say, { quick }) {
  const rows = []
  const limitS = quick ? 5 : LIMIT_S
  const most = (sizes, limit) => (quick ? sizes.filter((size) => size <= limit) : sizes)
  const curve = async (plot, series, axis, sizes, measure) => {
    await affordable(
      sizes,
      limitS,
      async (size) => {
        say(`${series}: ${size} ${axis} …`)
        rows.push({ ...(await measure(size)), point: { plot, series, axis, x: size } })
      },
      (size, s) => {
        say(`${series}: ${size} ${axis} left out: about ${Math.ceil(s)} s`)
        rows.push({ skipped: { plot, series, axis, x: size, seconds: Math.ceil(s) } })
      },
    )
  }
  const plan = (name, options) => {
    const { samples, entries } = planSamples(options, quick ? 5 : 15)
    return {
      name,
      unit: 'µs',
      ...spread(samples),
      traffic: planTraffic(options.calls, options.instances, entries),
    }
  }
  const planCalls = (mode, onePass, tight) =>
    curve(
      'planner-calls',
      `${mode}, 16x16, ${tight ? 'tight' : 'light'} KV`,
      'waiting calls',
      most(CALLS, 4096),
      (calls) =>
        plan(`${mode}, ${calls} calls, 16x16, ${tight ? 'tight' : 'light'}`, {
          calls,
          instances: 16,
          onePass,
          tight,
        }),
    )
  const planInstances = (mode, onePass, calls, tight) =>
    curve(
      'planner-instances',
      `${mode}, ${calls} calls, ${tight ? 'tight' : 'light'} KV`,
      'instances of each kind',
      most(INSTANCES, 256),
      (instances) =>
        plan(`${mode}, ${calls} calls, ${instances}x${instances}, ${tight ? 'tight' : 'light'}`, {
          calls,
          instances,
          onePass,
          tight,
        }),
    )
  for (const tight of [0, 1]) {
    await planCalls('greedy', 0, tight)
    await planCalls('one pass', 1, tight)
    await planInstances('greedy', 0, 128, tight)
    await planInstances('one pass', 1, 512, tight)
  }

  const dispatch = (policy, instances, waiting) => {
    const turns = policy !== 'laxity' ? 10_000 : instances > 256 || waiting > 10_000 ? 5 : 200
    return dispatchRow(policy, instances, waiting, quick ? Math.ceil(turns / 10) : turns, quick ? 3 : 7)
  }
  for (const policy of ['hexgen-flow', 'laxity']) {
    await curve(
      'dispatch-instances',
      `${policy}, 10,000 waiting`,
      'instances',
      most(INSTANCES, 256),
      (instances) => dispatch(policy, instances, 10_000),
    )
    await curve(
      'dispatch-waiting',
      `${policy}, 64 instances`,
      'waiting calls',
      most(WAITING, 10_000),
      (waiting) => dispatch(policy, 64, waiting),
    )
    await curve(
      'dispatch-waiting',
      `${policy}, 4,096 instances`,
      'waiting calls',
      most(WAITING.slice(1), 1000),
      (waiting) => dispatch(policy, 4096, waiting),
    )
  }

  const rate = await rateAt(0.7)
  await curve(
    'simulator',
    'hexgen-flow, 4 instances, load 0.7',
    'calls simulated',
    most(WORKFLOWS, 5000),
    (workflows) => {
      const child = spawnSync(
        process.execPath,
        [fileURLToPath(import.meta.url), String(workflows), String(rate)],
        { encoding: 'utf8' },
      )
      if (child.status !== 0) throw new Error(child.stderr)
      const { calls, cpuMs, peakMiB } = JSON.parse(child.stdout)
      return {
        name: `a run of ${calls} calls, per call`,
        unit: 'ns',
        ...spread(cpuMs, (ms) => (1e6 * ms) / calls),
        traffic: times(1 / calls, simulationTraffic(calls, 4)),
        note: `${round(peakMiB)} MiB at most`,
        x: calls,
      }
    },
  )
  // The curve's abscissa is calls; a run is chosen by its workflows.
  for (const row of rows) {
    if (row.x === undefined) continue
    row.point.x = row.x
    delete row.x
  }
  return rows
}

// As its own process: one long run, whose peak memory is that of the process.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [workflows, rate] = process.argv.slice(2).map(Number)
  const sim = await simulatorOf(await chess(workflows))
  const runs = workflows > 20_000 ? 2 : workflows > 2000 ? 5 : 15
  const results = Array.from({ length: runs }, () => simulated(sim, { rate }))
  const peakMiB = process.resourceUsage().maxRSS / 1024
  console.log(JSON.stringify({ calls: results[0].calls, cpuMs: results.map(({ cpuMs }) => cpuMs), peakMiB }))
}
