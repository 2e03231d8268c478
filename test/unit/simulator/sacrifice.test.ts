import assert from 'node:assert/strict'
import { compare } from '../../../lib/compare/compare.ts'
import { compareReport } from '../../../lib/report/compare-report.ts'
import { simulationReport } from '../../../lib/report/simulation-report.ts'
import type { SimulateOptions } from '../../../lib/simulator/options.ts'
import { simulate } from '../../../lib/simulator/simulate.ts'
import { generateWorkload } from '../../../lib/traces/workload.ts'

const cluster = 'hexagent-hetero-1'
const trace = await generateWorkload('bfcl', { workflows: 300, seed: 5, context: 'full' })
const run = (options: Partial<SimulateOptions> = {}) =>
  simulate({ trace, cluster, rate: 5, seed: 5, policy: 'hexagent', workers: 0, laws: true, ...options })

describe('sacrifice', () => {
  it('is off by default, and does nothing where nothing is declared or the order is another', async () => {
    const plain = await run({ remaining: 'exact' })
    assert.equal(plain.sacrifice, undefined)
    const silent = await run({ parameters: { sacrifice: 0.05 } })
    assert.equal(silent.sacrifice!.sacrificed, 0)
    assert.deepEqual(silent.latencyMs, (await run()).latencyMs)
    const other = { policy: { order: 'fcfs', placement: 'earliest-finish' } }
    const elsewhere = await run({ ...other, parameters: { sacrifice: 0.05 } })
    assert.equal(elsewhere.sacrifice, undefined)
    assert.deepEqual(elsewhere.latencyMs, (await run(other)).latencyMs)
  })

  it('puts a bounded number of large workflows behind the others, and says what that cost and who paid', async () => {
    const plain = await run({ remaining: 'exact' })
    const result = await run({ remaining: 'exact', parameters: { sacrifice: 0.05 } })
    const { sacrificed, largest, largestOthers, largestWithout, sizes, tenants, share } = result.sacrifice!
    assert.equal(share, 0.05)
    assert(sacrificed > 0 && sacrificed <= 15, `${sacrificed} of 300`)
    const ratios = [...result.workflows()].map(({ scale }) => scale)
    assert.equal(largest, Math.max(...ratios))
    assert(largestOthers < largest)
    assert.equal(largestWithout, Math.max(...[...plain.workflows()].map(({ scale }) => scale)))
    assert(result.metrics.sloScale95 < plain.metrics.sloScale95)
    // Only the largest quarter can be at or above the quantile 1 − 1.5 × 5 %, but for how the window begins.
    assert.equal(
      sizes.reduce((sum, size) => sum + size.workflows, 0),
      300,
    )
    assert.equal(
      sizes.reduce((sum, size) => sum + size.sacrificed, 0),
      sacrificed,
    )
    assert.equal(sizes[0]!.sacrificed + sizes[1]!.sacrificed, 0)
    assert.deepEqual(tenants, [])
    const text = simulationReport(result, { perWorkflow: false, mix: false })
    assert.match(text, new RegExp(`sacrifice, at most 5(\\.0)? %: ${sacrificed} of 300 workflows`))
    assert.match(text, /largest latency \/ base .*, without sacrifice/)
    assert.match(text, /size quarter 4/)
  })

  it('names the tenants that pay', async () => {
    const { sacrifice } = await run({
      remaining: 'exact',
      parameters: { sacrifice: 0.05 },
      tenants: [
        { name: 'one', sloScale: 2 },
        { name: 'two', sloScale: 2 },
      ],
      tenantSplit: 'interleaved',
    })
    assert.deepEqual(
      sacrifice!.tenants.map(({ name, workflows }) => [name, workflows]),
      [
        ['one', 150],
        ['two', 150],
      ],
    )
    assert.equal(
      sacrifice!.tenants.reduce((sum, tenant) => sum + tenant.sacrificed, 0),
      sacrifice!.sacrificed,
    )
  })

  it('is in the rows and the report of a comparison, over the seeds', async () => {
    const result = await compare({
      workload: 'bfcl',
      context: 'full',
      cluster,
      policy: ['hexagent', 'workflow-fcfs/least-loaded'],
      load: 1.2,
      workflows: 120,
      seeds: 2,
      remaining: 'exact',
      parameters: { sacrifice: 0.05 },
      workers: 0,
    })
    const [own, other] = result.rows
    assert.equal(other!.sacrifice, undefined)
    const { sizes, sacrificed } = own!.sacrifice!
    assert.equal(
      sizes.reduce((sum, size) => sum + size.workflows, 0),
      240,
    )
    assert(sacrificed <= 12)
    assert.match(
      compareReport(result),
      new RegExp(`hexagent: sacrifice, at most .*: ${sacrificed} of 240 workflows`),
    )
  })
})
