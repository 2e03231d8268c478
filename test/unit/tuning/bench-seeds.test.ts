import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { native } from '../../../lib/native.ts'
import { Problems } from '../../../lib/report/problems.ts'
import { checkAutoTune } from '../../../lib/tuning/auto-options.ts'

const bench = (file: string) => import(new URL(`../../../bench/autotuner/${file}`, import.meta.url).href)

describe('the evidence for the auto-tuner', () => {
  // It needs a build, as `npm test` makes it.
  let choosing: Awaited<ReturnType<typeof bench>>
  let seeds: Awaited<ReturnType<typeof bench>>
  before(async () => {
    choosing = await bench('choose.js')
    seeds = await bench('seeds.js')
  })

  it('is reported on streams that choosing never saw', () => {
    const { MOST_REPETITIONS, SEED_PARTS, SEED_SETS, seedOf, streamOf } = seeds
    const owner = new Map<number, string>()
    for (const set of SEED_SETS) {
      for (const part of SEED_PARTS) {
        for (let i = 0; i < MOST_REPETITIONS; i += 1) {
          for (let phase = 0; phase < 8; phase += 1) {
            const stream = streamOf(seedOf(set, part, i), phase)
            assert(!owner.has(stream), `${set} ${part} ${i} ${phase} is ${owner.get(stream)}`)
            owner.set(stream, `${set} ${part} ${i} ${phase}`)
          }
        }
      }
    }
    for (const bad of [-1, 0.5, MOST_REPETITIONS, Number.NaN])
      assert.throws(() => seedOf('report', 'phases', bad))
    assert.throws(() => seedOf('test', 'phases', 0))
  })

  it('is of the value that choosing found', function () {
    const file = new URL('../../../bench/autotuner/chosen.json', import.meta.url)
    if (!existsSync(file)) {
      console.log('      skipped: no chosen.json. `npm run autotuner -- --choose` writes it.')
      this.skip()
    }
    const found = JSON.parse(readFileSync(file, 'utf8'))
    assert.equal(choosing.chosen(found.rows).minGain, found.minGain)
    const options = checkAutoTune(true, native.parameters, new Problems())
    assert.equal(options!.native.minGain, found.minGain)
  })

  it('takes the least regret among those that seldom switch', () => {
    const row = (minGain: number, regret: number, switches: number) => ({ minGain, regret, switches })
    assert.equal(choosing.chosen([row(1, 0.01, 0.6), row(2, 0.02, 0.5), row(3, 0.02, 0.1)]).minGain, 3)
    assert.equal(choosing.chosen([row(1, 0.01, 3), row(2, 0.9, 2)]).minGain, 2)
  })
})
