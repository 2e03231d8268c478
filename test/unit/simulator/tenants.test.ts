import assert from 'node:assert/strict'
import { chessTrace, jain, type SimulateOptions, simulate, sweep } from '../../../lib/index.ts'
import { type NativeRun, native } from '../../../lib/native.ts'
import { decodeRecord, RECORD_BYTES } from '../../../lib/scheduler/records.ts'
import { readTenants, TENANT_COLUMNS } from '../../../lib/simulator/tenants.ts'
import type { TraceTable } from '../../../lib/traces/table.ts'
import { policy, random, runOptions, type Scenario, scenario, simulator } from '../../support/runs.ts'
import { readText, workflow } from '../traces/shared.ts'

const cluster = 'hexgen-hetero-2'

/** The ceil(q n)-th smallest. */
function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => (a === b ? 0 : a < b ? -1 : 1))
  return sorted[Math.max(1, Math.ceil(q * sorted.length)) - 1]!
}

/** Runs with random tenants, and compares every number of theirs with the plain definition. */
function checkTenants(
  seed: number,
  run: Partial<NativeRun>,
  change: (input: Scenario) => void = () => {},
): number {
  const next = random(seed)
  const input = scenario(seed)
  change(input)
  const workflows = input.columns.firstCall.length - 1
  const count = 1 + Math.floor(next() * 4)
  const tenant = Uint16Array.from({ length: workflows }, () => Math.floor(next() * count))
  const tenants = Math.max(...tenant) + 1
  const tenantScales = Array.from({ length: tenants }, () => 0.2 + 4 * next())
  const sloMs = Float64Array.from(tenant, () => (next() < 0.2 ? 1 + 3000 * next() : Number.NaN))
  Object.assign(input.columns, { tenant, ...(next() < 0.5 && { sloMs }) })
  const declared = (w: number) => !Number.isNaN(input.columns.sloMs?.[w] ?? Number.NaN)
  const latencyMs = new Float64Array(workflows)
  const baseMs = new Float64Array(workflows)
  const rows = new Float64Array(tenants * TENANT_COLUMNS.length).fill(-1)
  const sloBase = next() < 0.5 ? 'template' : 'exclusive'
  const options = runOptions({ ...policy(seed), tenantScales, sloBase, ...run })
  const result = simulator(input).run(options, { latencyMs, baseMs, tenants: rows })
  assert.equal(result.status, 0, native.statusReasons[result.status])

  const names = tenantScales.map((sloScale, t) => ({ name: `t${t}`, sloScale }))
  let total = 0
  let missed = 0
  for (const found of readTenants(rows, names)) {
    const t = Number(found.name.slice(1))
    const own = [...tenant.keys()].filter((w) => tenant[w] === t)
    const latencies = own.map((w) => latencyMs[w]!)
    const ratios = own.map((w) => latencyMs[w]! / baseMs[w]!)
    total += own.length
    assert.deepEqual(
      [found.workflows, found.completed],
      [own.length, latencies.filter(Number.isFinite).length],
    )
    assert.equal(found.p50Ms, quantile(latencies, 0.5))
    assert.equal(found.p95Ms, quantile(latencies, 0.95))
    assert.equal(found.p99Ms, quantile(latencies, 0.99))
    const near = (a: number, b: number) => assert(a === b || Math.abs(a / b - 1) < 1e-9, `${a} ${b}`)
    const mean = (values: number[]) => values.reduce((sum, x) => sum + x, 0) / own.length
    near(found.meanMs, mean(latencies))
    near(found.sloScale95, quantile(ratios, 0.95))
    near(found.normalisedMean, mean(ratios))
    const allowed = (w: number) => (declared(w) ? 1 : tenantScales[t]!) * baseMs[w]!
    // Deadlines are whole nanoseconds.
    const met = own.filter((w) => latencyMs[w]! <= allowed(w) + 1e-6).length
    near(found.attainment, met / own.length)
    missed += own.length - met
  }
  assert.equal(total, workflows)
  return missed
}

describe('metrics by tenant', () => {
  it('are those of its own workflows, in 2000 random runs', () => {
    let missed = 0
    for (let seed = 1; seed <= 2000; seed++) missed += checkTenants(seed, {})
    assert(missed > 2000, `${missed} missed deadlines`)
  })

  it('are so under the clock of the public simulator', () => {
    const run = {
      order: 'fcfs',
      placement: 'round-robin',
      binding: 'at-reveal',
      knowledge: 'online',
    } as const
    for (let seed = 1; seed <= 100; seed++) {
      checkTenants(
        seed,
        { ...run, compat: 'hexgen-ticks', laws: false },
        ({ columns, cluster: { instances } }) => {
          delete columns.toolGapMs
          const mode = { mode: 'prefill-first', chunkTokens: 0, decodeShare: 0 } as const
          for (const instance of instances) Object.assign(instance, mode, { kvTokens: 100_000 })
        },
      )
    }
  })

  it('count a workflow that did not complete as infinite', () => {
    const input = scenario(3)
    const workflows = input.columns.firstCall.length - 1
    // The first workflow never fits.
    input.columns.promptTokens[0] = 90_000_000
    for (const instance of input.cluster.instances) instance.kvTokens = 50_000_000
    const tenant = Uint16Array.from({ length: workflows }, (_, w) => (w === 0 ? 1 : 0))
    Object.assign(input.columns, { tenant })
    const rows = new Float64Array(2 * TENANT_COLUMNS.length)
    const { status } = simulator(input).run(runOptions({ laws: false }), { tenants: rows })
    assert.equal(status, 0)
    const names = [0, 1].map((t) => ({ name: String(t), sloScale: 5 }))
    const [rest, broken] = readTenants(rows, names)
    assert.deepEqual([broken!.workflows, broken!.completed, broken!.attainment], [1, 0, 0])
    assert.deepEqual([broken!.meanMs, broken!.p50Ms, broken!.normalisedMean], [Infinity, Infinity, Infinity])
    assert(Number.isFinite(rest!.meanMs) && rest!.completed === workflows - 1)
  })

  it('refuses columns and scales that are too short', () => {
    const input = scenario(3)
    Object.assign(input.columns, { tenant: new Uint16Array(input.columns.firstCall.length - 1).fill(1) })
    const one = simulator(input)
    assert.throws(() => one.run(runOptions(), { tenants: new Float64Array(9) }), /`tenants` is too short/)
    const short = one.run(runOptions({ tenantScales: [5] }), {})
    assert.match(native.statusReasons[short.status]!, /outside its documented range/)
    assert.throws(() => one.run(runOptions({ tenantScales: [5, 0] }), {}), /`tenantScales` out of range/)
  })
})

describe('Jain', () => {
  it('is 1 for equals, 1 / n where one has all, and takes the limit of infinite values', () => {
    assert.equal(jain([3, 3, 3]), 1)
    assert.equal(jain([0, 5, 0, 0]), 0.25)
    assert.equal(jain([0, 0]), 1)
    assert.equal(jain([1e-300, 1e-300]), 1)
    assert.equal(jain([1e300, 1e300]), 1)
    assert.equal(jain([2, 1]), 9 / 10)
    assert.equal(jain([1, Infinity]), 0.5)
    assert.equal(jain([Infinity, Infinity, 4]), 2 / 3)
  })
})

describe('tenants of a run', () => {
  let trace: TraceTable
  before(async () => {
    trace = await chessTrace({ workflows: 41, preset: 3, seed: 2 })
  })

  async function counts(options: Partial<SimulateOptions>): Promise<[string, number, number][]> {
    const { tenants } = await simulate({ trace, cluster, ...options })
    return tenants.map(({ name, sloScale, workflows }) => [name, sloScale, workflows])
  }

  it('get blocks of the workflows, by their shares', async () => {
    const paper = await simulate({ trace, cluster, tenants: 'relaxed=2,strict=1' })
    assert.deepEqual(
      [...paper.workflows()].map(({ tenant }) => tenant),
      Array.from({ length: 41 }, (_, w) => (w < 21 ? 'relaxed' : 'strict')),
    )
    assert.deepEqual(await counts({ tenants: 'a=2@1, b@2 ,c=0.5@1', sloScale: 3 }), [
      ['a', 2, 10],
      ['b', 3, 21],
      ['c', 0.5, 10],
    ])
  })

  it('get interleaved workflows: never more than one from their share', async () => {
    const tenants = [
      { name: 'a', share: 1 },
      { name: 'b', share: 3, sloScale: 9 },
    ]
    const result = await simulate({ trace, cluster, tenants, tenantSplit: 'interleaved' })
    let a = 0
    for (const { index, tenant } of result.workflows()) {
      if (tenant === 'a') a++
      assert(Math.abs(a - (index + 1) / 4) <= 0.75)
    }
    assert.equal(a, 10)
    const equal = await simulate({ trace, cluster, tenants: 'x,y', tenantSplit: 'interleaved' })
    assert.deepEqual(
      [...equal.workflows()].map(({ tenant }) => tenant),
      Array.from({ length: 41 }, (_, w) => (w % 2 === 0 ? 'x' : 'y')),
    )
  })

  it('are those of the trace where it names several', async () => {
    const own = await readText(
      ['p', 'q', 'p'].map((tenant, w) => workflow(`w${w}`, undefined, { tenant })).join(''),
    )
    const found = async (options: Partial<SimulateOptions>) => {
      const { tenants } = await simulate({ trace: own, cluster, ...options })
      return tenants.map(({ name, sloScale, workflows }) => [name, sloScale, workflows])
    }
    assert.deepEqual(await found({}), [
      ['p', 5, 2],
      ['q', 5, 1],
    ])
    assert.deepEqual(await found({ tenants: 'q=2' }), [
      ['p', 5, 2],
      ['q', 2, 1],
    ])
    assert.deepEqual(await found({ tenants: 'a=1,b=2', tenantSplit: 'blocks' }), [
      ['a', 1, 2],
      ['b', 2, 1],
    ])
    await assert.rejects(found({ tenants: 'r=2' }), {
      code: 'ERR_LAXITY_OPTION',
      message: /Unknown tenant "r" in `tenants` \(known: p, q\)/,
    })
  })

  it('leave a run without tenants as it was', async () => {
    const plain = await simulate({ trace, cluster, rate: 1, log: true })
    const { tenants, fairness } = plain
    assert.deepEqual([tenants, fairness], [[], undefined])
    assert(!('tenant' in plain.workflow(0)))
    const same = await simulate({ trace, cluster, rate: 1, tenants: 'a=5,b=5' })
    assert.deepEqual(same.latencyMs, plain.latencyMs)
    assert.deepEqual(same.metrics, plain.metrics)
  })

  it('have their deadlines, to the nanosecond', async () => {
    const result = await simulate({ trace, cluster, tenants: 'relaxed=2,strict=1', log: true })
    const view = new DataView(result.log!.buffer, result.log!.byteOffset, result.log!.byteLength)
    let opened = 0
    for (let at = 0; at < view.byteLength; at += RECORD_BYTES) {
      const record = decodeRecord(view, at) as unknown as {
        kind: string
        t: bigint
        deadline: bigint
        tenant: number
      }
      if (record.kind !== 'openWorkflow') continue
      const { baseMs, tenant } = result.workflow(opened++)
      const scale = tenant === 'relaxed' ? 2 : 1
      assert.equal(record.tenant, scale === 2 ? 0 : 1)
      assert.equal(Number(record.deadline - record.t), Math.round(scale * Math.round(baseMs * 1e6)))
    }
    assert.equal(opened, 41)
  })

  it('have means over the replications in a sweep', async () => {
    const options = { trace, cluster, tenants: 'relaxed=4,strict=3', rate: 1 } as const
    const { points } = await sweep({ ...options, replications: 3, alphas: [0.2, 0.8] })
    for (const point of points) {
      const runs = await Promise.all(
        [0, 1, 2].map((replication) => simulate({ ...options, alpha: point.alpha, replication })),
      )
      const mean = (value: (run: (typeof runs)[0]) => number) =>
        runs.reduce((sum, run) => sum + value(run), 0) / runs.length
      for (const [t, tenant] of point.tenants!.entries()) {
        assert.equal(
          tenant.p95Ms,
          mean((run) => run.tenants[t]!.p95Ms),
        )
        assert.equal(
          tenant.attainment,
          mean((run) => run.tenants[t]!.attainment),
        )
        assert.equal(tenant.workflows, t === 0 ? 21 : 20)
      }
      assert.equal(
        point.fairness!.attainment,
        mean((run) => run.fairness!.attainment),
      )
      assert.equal(
        point.fairness!.normalisedLatency,
        mean((run) => run.fairness!.normalisedLatency),
      )
    }
    const pooled = await sweep({ ...options, replications: 3, alphas: [0.2, 0.8], workers: 2 })
    assert.deepEqual(pooled.points, points)
  })

  const wrong: [options: Record<string, unknown>, message: RegExp][] = [
    [{ tenants: '' }, /Expected name=scale@share, .* for `tenants`, got "" \(string\)/],
    [{ tenants: 'a=x' }, /`tenants`, got "a=x"/],
    [{ tenants: 'a=1,,b=2' }, /`tenants`, got "a=1,,b=2"/],
    [{ tenants: 'a=-1' }, /`tenants`, got "a=-1"/],
    [{ tenants: 'a=0' }, /Expected sloScale a positive number up to 1000000 for `tenants`, got 0/],
    [{ tenants: 'a=1,a=2' }, /Tenant "a" is named twice/],
    [{ tenants: [] }, /a list of at least one tenant for `tenants`, got an array/],
    [{ tenants: 3 }, /`tenants`, got 3/],
    [{ tenants: [null] }, /Expected an object for `tenants\[0\]`, got null/],
    [{ tenants: [{ name: '' }] }, /`tenants\[0\].name`, got "" \(string\)/],
    [{ tenants: [{ name: 'a', sloScale: Number.NaN }] }, /`tenants\[0\].sloScale`, got NaN/],
    [{ tenants: [{ name: 'a', share: 0 }] }, /`tenants\[0\].share`, got 0/],
    [
      { tenants: [{ name: 'a', scale: 2 }] },
      /Unknown option `tenants\[0\].scale`; did you mean "share"|known/,
    ],
    [{ tenantSplit: 'blocks' }, /`tenantSplit` needs `tenants`/],
    [{ tenants: 'a,b', tenantSplit: 'thirds' }, /Unknown tenantSplit "thirds"/],
    [{ tenants: 'a@1,b@2', tenantSplit: 'trace' }, /Shares in `tenants` have no meaning/],
    [{ tenants: 'a@1,b@1000' }, /Tenant "a" of `tenants` would get none of 41 workflows/],
  ]
  for (const [options, message] of wrong) {
    it(`refuses ${JSON.stringify(options)}`, () =>
      assert.rejects(simulate({ trace, cluster, ...options } as SimulateOptions), {
        code: 'ERR_LAXITY_OPTION',
        message,
      }))
  }
})
