import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../../../bench/optimality/', import.meta.url))
const load = (name: string) => import(join(folder, name))

interface Protocol {
  seeds: number[]
  workloads: string[]
  loads: number[]
  clusters: { name: string; config: { instances: { role: string; gpu: string; count: number }[] } }[]
}

const SPECIFIER = /\b(?:from|import)\s*\(?\s*(['"`])([^'"`]+)\1/g

/** Every module of the folder that one reaches, by any import in its text. */
function reach(name: string, found = new Set<string>()): Set<string> {
  if (found.has(name)) return found
  found.add(name)
  const path = join(folder, name)
  for (const [, , target] of readFileSync(path, 'utf8').matchAll(SPECIFIER)) {
    if (!target!.startsWith('.')) continue
    const own = relative(folder, join(dirname(path), target!))
    if (!own.startsWith('..')) reach(own, found)
  }
  return found
}

/** Modules whose text has a way to load what no import names. */
const hidden = (names: Iterable<string>) =>
  [...names].filter((name) =>
    /import\s*\((?!\s*['"])|require\s*\(/.test(readFileSync(join(folder, name), 'utf8')),
  )

describe('the held-out protocol', () => {
  it('choosing cannot reach what is reported on, nor reporting what was chosen on', () => {
    const choosing = reach('choose.js')
    const reporting = reach('report.js')
    for (const name of ['choosing.js', 'variants.js', 'cells.js']) assert(choosing.has(name), name)
    for (const name of ['reporting.js', 'page.js', 'cells.js']) assert(reporting.has(name), name)
    for (const name of ['reporting.js', 'report.js', 'page.js', 'main.js']) assert(!choosing.has(name), name)
    for (const name of ['choosing.js', 'choose.js', 'variants.js', 'main.js'])
      assert(!reporting.has(name), name)
    assert.deepEqual(hidden([...choosing, ...reporting]), [])
    for (const name of choosing) assert(!/REPORTING\b/.test(readFileSync(join(folder, name), 'utf8')), name)
  })

  it('seeds and cluster shapes are disjoint, and as many as asked for', async () => {
    const { CHOOSING } = (await load('choosing.js')) as { CHOOSING: Protocol }
    const { REPORTING } = (await load('reporting.js')) as { REPORTING: Protocol }
    assert(CHOOSING.seeds.every((seed) => seed >= 1 && seed <= 299))
    assert(REPORTING.seeds.every((seed) => seed >= 800))
    assert(new Set(REPORTING.seeds).size >= 5)
    assert.equal(REPORTING.workloads.length * REPORTING.loads.length, 15)
    assert.equal(REPORTING.clusters.length, 3)
    const shape = ({ config }: Protocol['clusters'][number]) =>
      config.instances
        .map(({ role, gpu, count }) => `${role} ${gpu} ${count}`)
        .sort()
        .join()
    const chosen = new Set(CHOOSING.clusters.map(shape))
    for (const cluster of REPORTING.clusters) assert(!chosen.has(shape(cluster)), cluster.name)
  })

  it('a seed outside the range is refused before anything is drawn with it', async () => {
    const { Cells } = await load('cells.js')
    const { CHOOSING_SEEDS, REPORTING_SEEDS } = await load('protocol.js')
    const cell = { cluster: { name: 'none' }, workload: 'chains', load: 1, workflows: 5 }
    for (const [seeds, wrong] of [
      [CHOOSING_SEEDS, REPORTING_SEEDS.from],
      [REPORTING_SEEDS, CHOOSING_SEEDS.from],
      [CHOOSING_SEEDS, 300],
      [REPORTING_SEEDS, 700],
    ]) {
      const cells = new Cells({ files: [], seeds, say: () => {} })
      await assert.rejects(cells.run({ ...cell, seed: wrong }, { policy: 'hexagent' }), /Seed \d+ is not of/)
      await assert.rejects(cells.bound({ ...cell, seed: wrong }), /Seed \d+ is not of/)
    }
  })

  it('every variant has been tried and is counted', async () => {
    const { VARIANTS, UNIFIED } = (await load('variants.js')) as Record<
      'VARIANTS' | 'UNIFIED',
      { name: string; options: object }[]
    >
    const tried = JSON.parse(readFileSync(join(folder, 'tried.json'), 'utf8'))
    for (const { name, options } of [...VARIANTS.slice(1), ...UNIFIED.slice(1)])
      assert.deepEqual(tried[name]?.options, options, name)
    const { page } = await load('page.js')
    const { REPORTING } = await load('reporting.js')
    const req = { BASE: [1, 1, 1], hexagent: [1, 1, 1], 'laxity, no hint': [1, 1, 1] }
    const measured = ['a', 'b'].flatMap((workload) =>
      [1, 2].map((seed) => ({
        cluster: 'report-prefill',
        kind: 'prefill-bound, heterogeneous',
        workload,
        load: 1,
        seed,
        bound: [1, 1, 1],
        use: { prefill: 1, decode: 1, kv: 1 },
        evicted: false,
        req,
      })),
    )
    const protocol = {
      ...REPORTING,
      clusters: REPORTING.clusters.slice(0, 1),
      workloads: ['a', 'b'],
      loads: [1],
    }
    const screened = JSON.parse(readFileSync(join(folder, 'screened.json'), 'utf8'))
    const text = page({ protocol, measured, baselines: [], rules: ['laxity, no hint'], tried, screened })
    assert(text.includes(`${Object.keys(tried).length} variants were tried`))
    assert(screened.length > 0 && text.includes(`${screened.length} more were screened`))
    for (const { name } of screened) assert(text.includes(`| ${name} |`), name)
    const current = new Set([...VARIANTS.slice(1), ...UNIFIED.slice(1)].map(({ name }) => name))
    for (const name of Object.keys(tried))
      assert(current.has(name) || name.startsWith('former: '), `${name} is in tried.json and nowhere else`)
  })
})

describe('the paired change', () => {
  it('against values by hand', async () => {
    const { pairedChange } = await load('statistics.js')
    // Two strata of two draws; the loads of a draw are averaged first: ln 2, ln 4 and 0, 0.
    const ratios = [
      ['a', 1, 2],
      ['a', 1, 2],
      ['a', 2, 4],
      ['b', 1, 1],
      ['b', 2, 1],
    ] as const
    const { percent, error } = pairedChange(
      ratios.map(([workload, seed, own]) => ({ workload, seed, own, first: 1 })),
    )
    const centre = 0.75 * Math.LN2
    assert(Math.abs(percent - 100 * (Math.exp(centre) - 1)) < 1e-9)
    // Variance of ln 2, ln 4 is (ln 2)² / 2, of its mean a half; over two strata the root of the sum, halved.
    assert(Math.abs(error - (100 * Math.exp(centre) * (Math.LN2 / 2)) / 2) < 1e-9)
  })
})
