import type { ErrorSummary } from '../../lib/model/calibration-file.ts'
import { errorsOf } from '../../lib/model/features.ts'
import { fitRobust } from '../../lib/model/robust-fit.ts'
import { native } from '../../lib/native.ts'
import { type Row, readTable } from './data.ts'

/** The rows of one kernel on one GPU, in the columns of `native.kernelTimes`. */
export interface KernelRows {
  gpu: 'a100' | 'h100' | 'h200' | 'l40s'
  /** Name in the addon's kernel sets, and in the published constants. */
  constants: string
  documented: string
  kind: 'gemm' | 'prefill' | 'decode' | 'mixture'
  columns: Float64Array
  width: number
  measured: Float64Array
  /** Rows that are held out together. */
  group: string[]
}

const GPUS = [
  { gpu: 'a100', set: 'a100_sxm', id: 'a100-80', l2: 40e6 },
  { gpu: 'h100', set: 'h100_sxm', id: 'h100', l2: 50e6 },
  { gpu: 'h200', set: 'h200_sxm', id: 'h200', l2: 50e6 },
  { gpu: 'l40s', set: 'l40s', id: 'l40s', l2: 96e6 },
] as const
type Gpu = (typeof GPUS)[number]

const MB = 1e6
const HEAD = 128
const SOFTNESS = 0.15

/** All kernels with fitted constants, by the recipe in the reference's ORIGINS.md. */
export function kernelRows(): KernelRows[] {
  const gemm = byGpu(readTable('gemm.csv.gz'))
  const prefill = byGpu(readTable('attn_prefill.csv.gz'))
  const decode = byGpu(readTable('attn_decode.csv.gz'))
  const moe = byGpu(readTable('moe.csv.gz'))
  const all: KernelRows[] = []
  for (const gpu of GPUS) {
    const known = native.hardware.kernelSets[gpu.gpu]!
    all.push(gemmRows(gpu, gemm.get(gpu.set)!, 'bfloat16', 'gemm16', 2))
    if (known.gemm8) all.push(gemmRows(gpu, gemm.get(gpu.set)!, 'fp8', 'gemm8', 1))
    all.push(prefillRows(gpu, prefill.get(gpu.set)!), decodeRows(gpu, decode.get(gpu.set)!))
    all.push(mixtureRows(gpu, moe.get(gpu.set)!, 'bfloat16', 'mixture16', 2))
    if (known.mixture8) all.push(mixtureRows(gpu, moe.get(gpu.set)!, 'fp8_block', 'mixture8', 1))
  }
  return all
}

/** The GPU's name in the published constants. */
export function documentedName(gpu: KernelRows['gpu']): string {
  return GPUS.find((entry) => entry.gpu === gpu)!.set
}

/** Errors of the built-in constants over all rows. */
export function builtInErrors(rows: KernelRows): ErrorSummary {
  const constants = native.hardware.kernelSets[rows.gpu]![rows.constants]!
  return errorsOf(times(rows, constants), rows.measured)
}

/** Refits on 70 % of the groups and returns the errors on the others. */
export function heldOut(rows: KernelRows, seed: number): ErrorSummary {
  const groups = [...new Set(rows.group)]
  const left = new Set(shuffled(groups, seed).slice(0, Math.round(0.3 * groups.length)))
  const train: number[] = []
  const test: number[] = []
  for (const [row, group] of rows.group.entries()) (left.has(group) ? test : train).push(row)
  const constants = fit(pick(rows, train))
  const held = pick(rows, test)
  return errorsOf(times(held, constants), held.measured)
}

/** The first start is the recipe's; the others help where that ends in a worse minimum. */
const FITS: Record<KernelRows['kind'], { starts: number[][]; low: number[]; high: number[] }> = {
  // compute, memory, launch µs (and p, which is fixed)
  gemm: {
    starts: [
      [0.7, 0.8, 5],
      [0.5, 0.6, 10],
    ],
    low: [0.2, 0.3, 1],
    high: [0.98, 0.97, 120],
  },
  // compute, memory, launch µs, extra tokens
  prefill: {
    starts: [
      [0.5, 0.6, 8, 200],
      [0.6, 0.4, 12, 500],
      [0.7, 0.8, 12, 100],
    ],
    low: [0.1, 0.2, 1, 1],
    high: [0.98, 0.97, 30, 2000],
  },
  // memory, launch µs, bytes per head
  decode: {
    starts: [
      [0.75, 8, 300],
      [0.85, 12, 4000],
    ],
    low: [0.3, 1, 1],
    high: [0.97, 30, 20_000],
  },
  // compute, memory, launch µs, pad, skew, per token ns
  mixture: {
    starts: [
      [0.5, 0.8, 20, 32, 0.8, 30],
      [0.3, 0.7, 30, 16, 0.8, 60],
      [0.4, 0.8, 8, 4, 0.7, 100],
    ],
    low: [0.1, 0.3, 2, 1, 0.1, 1],
    high: [0.97, 0.97, 80, 128, 1, 200],
  },
}

export function fit(rows: KernelRows): number[] {
  const { starts, low, high } = FITS[rows.kind]
  const fixed = rows.kind === 'gemm' ? [native.hardware.kernelSets[rows.gpu]![rows.constants]![3]!] : []
  const { parameters } = fitRobust({
    starts,
    low,
    high,
    logarithmic: true,
    measured: rows.measured,
    softness: SOFTNESS,
    model: (trial) => times(rows, [...trial, ...fixed]),
    iterations: 40,
  })
  return [...parameters, ...fixed]
}

function times(rows: KernelRows, constants: readonly number[]): Float64Array {
  const out = new Float64Array(rows.measured.length)
  native.kernelTimes(rows.kind, Float64Array.from(constants), rows.columns, out)
  return out
}

function pick(rows: KernelRows, at: readonly number[]): KernelRows {
  const columns = new Float64Array(at.length * rows.width)
  for (const [i, row] of at.entries())
    columns.set(rows.columns.subarray(row * rows.width, (row + 1) * rows.width), i * rows.width)
  return {
    ...rows,
    columns,
    measured: Float64Array.from(at, (row) => rows.measured[row]!),
    group: at.map((row) => rows.group[row]!),
  }
}

function gemmRows(gpu: Gpu, table: Row[], dtype: string, constants: string, width: number): KernelRows {
  const peak = native.hardware.gpus[gpu.id]!
  const kept = table.filter((row) => {
    if (row.gemm_dtype !== dtype) return false
    // On L40S the benchmark hits the cache where a serving layer does not.
    const bytes = Number(row.n) * Number(row.k) * width
    return gpu.gpu !== 'l40s' || Number(row.m) >= 512 || bytes < 4 * MB || bytes > 96 * MB
  })
  const flops = width === 2 ? peak.flops16 : peak.flops8
  return {
    gpu: gpu.gpu,
    constants,
    documented: `gemm_${dtype}`,
    kind: 'gemm',
    width: 6,
    columns: columnsOf(kept, (row) => [flops, peak.bandwidth, ...numbers(row, 'm', 'n', 'k'), width]),
    measured: latencies(kept),
    group: kept.map(({ n, k }) => `${n} ${k}`),
  }
}

function prefillRows(gpu: Gpu, table: Row[]): KernelRows {
  const peak = native.hardware.gpus[gpu.id]!
  return {
    gpu: gpu.gpu,
    constants: 'prefill',
    documented: 'attn_prefill',
    kind: 'prefill',
    width: 8,
    columns: columnsOf(table, (row) => {
      const [batch, q, c] = numbers(row, 'batch_size', 'isl', 'step') as [number, number, number]
      const heads = numbers(row, 'num_heads', 'num_key_value_heads')
      const pairs = (batch * q * (2 * c + q)) / 2
      return [peak.flops16, peak.bandwidth, ...heads, HEAD, pairs, batch * q, batch * (c + q)]
    }),
    measured: latencies(table),
    group: table.map((row) => `${row.batch_size} ${row.num_heads} ${row.num_key_value_heads}`),
  }
}

function decodeRows(gpu: Gpu, table: Row[]): KernelRows {
  const peak = native.hardware.gpus[gpu.id]!
  const kept = table.filter((row) => {
    const [batch, step, heads] = numbers(row, 'batch_size', 'step', 'num_key_value_heads')
    const bytes = batch! * step! * 2 * heads! * HEAD * 2
    return bytes < 2 * MB || bytes > 2 * gpu.l2 // between them the second-level cache serves a part
  })
  return {
    gpu: gpu.gpu,
    constants: 'decode',
    documented: 'attn_decode',
    kind: 'decode',
    width: 7,
    columns: columnsOf(kept, (row) => {
      const [batch, step] = numbers(row, 'batch_size', 'step')
      const heads = numbers(row, 'num_heads', 'num_key_value_heads')
      return [peak.bandwidth, ...heads, HEAD, 2, batch!, batch! * step!]
    }),
    measured: latencies(kept),
    group: kept.map((row) => `${row.batch_size} ${row.num_heads} ${row.num_key_value_heads}`),
  }
}

function mixtureRows(gpu: Gpu, table: Row[], dtype: string, constants: string, width: number): KernelRows {
  const peak = native.hardware.gpus[gpu.id]!
  const kept = table.filter((row) => {
    const [inter, tp, ep] = numbers(row, 'inter_size', 'moe_tp_size', 'moe_ep_size')
    return row.moe_dtype === dtype && ep! <= 8 && inter! / tp! >= 96
  })
  const flops = width === 2 ? peak.flops16 : peak.flops8
  return {
    gpu: gpu.gpu,
    constants,
    documented: `moe_${dtype}`,
    kind: 'mixture',
    width: 11,
    columns: columnsOf(kept, (row) => {
      const [tokens, hidden, inter, tp, ep] = numbers(
        row,
        'num_tokens',
        'hidden_size',
        'inter_size',
        'moe_tp_size',
        'moe_ep_size',
      ) as [number, number, number, number, number]
      const experts = numbers(row, 'num_experts', 'topk')
      const skewed = row.distribution === 'balanced' ? 0 : 1
      return [flops, peak.bandwidth, tokens, hidden, inter / tp, ...experts, tp, ep, width, skewed]
    }),
    measured: latencies(kept),
    group: kept.map((row) => `${row.hidden_size} ${row.moe_tp_size} ${row.moe_ep_size}`),
  }
}

function byGpu(rows: Row[]): Map<string, Row[]> {
  const groups = new Map<string, Row[]>()
  for (const row of rows) {
    const list = groups.get(row.gpu!)
    if (list === undefined) groups.set(row.gpu!, [row])
    else list.push(row)
  }
  return groups
}

function numbers(row: Row, ...names: string[]): number[] {
  return names.map((name) => Number(row[name]))
}

function columnsOf(rows: readonly Row[], cells: (row: Row) => number[]): Float64Array {
  return Float64Array.from(rows.flatMap(cells))
}

function latencies(rows: readonly Row[]): Float64Array {
  return Float64Array.from(rows, ({ latency }) => Number(latency))
}

function shuffled<T>(values: readonly T[], seed: number): T[] {
  const order = [...values]
  let state = (seed * 2_654_435_761) >>> 0
  for (let i = order.length - 1; i > 0; i--) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    const j = Math.floor((state / 2 ** 32) * (i + 1))
    ;[order[i], order[j]] = [order[j]!, order[i]!]
  }
  return order
}
