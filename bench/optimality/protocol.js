// The only seeds that choosing and reporting may draw from. Neither side imports the other (test/unit/optimality).
export const CHOOSING_SEEDS = { from: 1, to: 299 }
/** 700 to 704 were reported before the present rules were chosen, so they are nobody's now. */
export const REPORTING_SEEDS = { from: 800, to: 999 }

/** Seeds `from`, … of a range. */
export function take({ from, to }, count) {
  if (from + count - 1 > to) throw new RangeError(`There are ${to - from + 1} seeds, not ${count}`)
  return Array.from({ length: count }, (_, i) => from + i)
}

export const MODEL = 'llama-3.1-70b'
const TP = 4

/** Instances that prefill and decode. */
export function unified(name, kind, gpus) {
  const instances = Object.entries(gpus).map(([gpu, count]) => ({
    gpu,
    model: MODEL,
    tp: TP,
    count,
    role: 'unified',
  }))
  return { name, kind, config: { name, instances } }
}

/** A pool of instances: GPU and how many; with `kv` the share of a decode instance's KV that it keeps. */
export function cluster(name, kind, { prefill, decode, kvTokens = {} }) {
  const pool = (role, gpus) =>
    Object.entries(gpus).map(([gpu, count]) => ({
      gpu,
      model: MODEL,
      tp: TP,
      count,
      role,
      ...(role === 'decode' && kvTokens[gpu] && { kvTokens: kvTokens[gpu] }),
    }))
  return { name, kind, config: { name, instances: [...pool('prefill', prefill), ...pool('decode', decode)] } }
}
