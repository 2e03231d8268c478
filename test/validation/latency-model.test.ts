import assert from 'node:assert/strict'
import { createEstimator } from '../../lib/model/estimate.ts'
import { native } from '../../lib/native.ts'
import { readDocumented, readTable } from '../../scripts/accuracy/data.ts'
import {
  builtInErrors,
  documentedName,
  heldOut,
  type KernelRows,
  kernelRows,
} from '../../scripts/accuracy/kernels.ts'
import { errorsUnder, globalRows, refit, servingRows } from '../../scripts/accuracy/serving.ts'
import { skipWithout } from '../support/shared.ts'

function within(actual: number, wanted: number, relative: number, what: string): void {
  assert(Math.abs(actual / wanted - 1) <= relative, `${what}: ${actual}, wanted ${wanted}`)
}

describe('the latency model against the reference', () => {
  before(function () {
    skipWithout(this, 'reference/calibration/sanity.csv')
  })

  it('reproduces every regression value to 1e-6, in the closed form and in the tables', async () => {
    const rows = readTable('sanity.csv')
    assert.equal(rows.length, 13)
    for (const row of rows) {
      const value = (name: string) => Number(row[name])
      const [model, gpu, tp] = [row.model!, row.gpu!, value('tp')]
      const at = `${model} on ${tp} × ${gpu}`
      const estimator = await createEstimator({ model, gpu, tp })
      assert.equal(estimator.kvCapacityTokens, value('kv_capacity_tokens'), at)
      const table = new native.Latency({ latencies: [{ kind: 'roofline', ...estimator.setup.spec }] })
      const out = new Float64Array(1)
      for (const batch of [1, 16, 64]) {
        const wanted = value(`decode_ms_b${batch}_ctx2000`)
        within(estimator.decodeMs(batch, batch * 2000), wanted, 1e-6, `${at}, decode ${batch}`)
        table.decode(Uint32Array.of(batch), Float64Array.of(batch * 2000), out)
        within(out[0]!, wanted, 1e-6, `${at}, tabulated decode ${batch}`)
      }
      const prefills: [newTokens: number, cachedTokens: number, column: string][] = [
        [512, 0, 'prefill_ms_512'],
        [2048, 0, 'prefill_ms_2048'],
        [8192, 0, 'prefill_ms_8192'],
        [2048, 2048, 'prefill_ms_4096_of_which_2048_cached'],
      ]
      for (const [newTokens, cachedTokens, column] of prefills) {
        within(estimator.prefillMs({ newTokens, cachedTokens }), value(column), 1e-6, `${at}, ${column}`)
        table.prefill(Uint32Array.of(newTokens), Uint32Array.of(cachedTokens), out)
        within(out[0]!, value(column), 1e-6, `${at}, tabulated ${column}`)
      }
      const mixed = value('mixed_ms_b32_ctx2000_chunk512_at1024')
      const prompts = [{ newTokens: 512, cachedTokens: 1024 }]
      within(estimator.iterationMs({ batch: 32, context: 64_000, prompts }), mixed, 1e-6, `${at}, mixed`)
      within(table.mixed(32, 64_000, 512, 1024), mixed, 1e-6, `${at}, tabulated mixed`)
    }
  })

  it('meets 908 serving measurements with the published errors: 13.54, 10.87 and 7.93 %', () => {
    const rows = servingRows()
    const which = globalRows(rows)
    assert.equal(which.length, 908)
    const none = errorsUnder(native.hardware.stacks.none!, rows, which)
    const standard = errorsUnder(native.hardware.stacks.default!, rows, which)
    assert(Math.abs(none.mape - 13.54) <= 0.3, `no stack: ${none.mape} %`)
    assert(Math.abs(standard.mape - 10.87) <= 0.3, `default stack: ${standard.mape} %`)
    assert(Math.abs(standard.median - 7.93) <= 0.3, `default stack: median ${standard.median} %`)
  })

  it('fits the same serving stack from those rows', () => {
    const rows = servingRows()
    const which = globalRows(rows)
    const stack = refit(rows, which)
    const [scale, fixedMs, perSequenceMs] = readDocumented().validation.global_stack.stack
    within(stack.scale, scale, 1e-3, 'scale')
    within(stack.fixedMs, fixedMs, 1e-3, 'fixed')
    within(stack.perSequenceMs, perSequenceMs, 1e-3, 'per sequence')
    assert(Math.abs(errorsUnder(stack, rows, which).mape - 10.87) <= 0.3)
  })
})

/**
 * Kernels whose mean held-out error is more than a point above the published one, which is that of a single draw and below
 * the error of the published constants over all rows. They are measured against the latter; docs/accuracy.md names them.
 */
const ABOVE_ONE_DRAW = ['h100 gemm_fp8', 'h100 attn_decode', 'h200 attn_decode', 'l40s moe_fp8_block']

describe('kernels, refitted on ten seeded draws of their groups', function () {
  this.timeout(120_000)
  before(function () {
    skipWithout(this, 'reference/calibration/gemm.csv.gz')
  })

  let kernels: KernelRows[] = []
  before(() => {
    kernels = kernelRows()
  })

  it('are all there, row for row as published', () => {
    const documented = readDocumented()
    assert.equal(kernels.length, 22)
    for (const rows of kernels) {
      const { n_train, n_test } = documented.kernels[documentedName(rows.gpu)]![rows.documented]!
      assert.equal(rows.measured.length, n_train + n_test, `${rows.gpu} ${rows.documented}`)
    }
  })

  for (const gpu of ['a100', 'h100', 'h200', 'l40s'] as const) {
    it(`${gpu}: at most a point above the published held-out error`, () => {
      const documented = readDocumented().kernels[documentedName(gpu)]!
      for (const rows of kernels.filter((kernel) => kernel.gpu === gpu)) {
        const name = `${gpu} ${rows.documented}`
        let sum = 0
        for (let seed = 1; seed <= 10; seed++) sum += heldOut(rows, seed).mape
        const mean = sum / 10
        const published = documented[rows.documented]!.mape_test
        const above = mean > published + 1
        assert.equal(above, ABOVE_ONE_DRAW.includes(name), `${name}: ${mean} %, published ${published} %`)
        if (above) {
          const all = builtInErrors(rows).mape
          assert(mean <= all + 1, `${name}: ${mean} %, built-in constants over all rows ${all} %`)
        }
      }
    })
  }
})
