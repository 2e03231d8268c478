import { type CallTable, isFinished } from './call-table.ts'

/** Equal parts of a run's time, and per instance what went on in each. */
export interface LoadSeries {
  /** Middle of each part, ns. */
  atNs: Float64Array
  /** By instance: mean number of calls that were ready and not leased yet. */
  waiting: Float64Array[]
  /** By instance: the most of them at once in each part. */
  mostWaiting: Float64Array[]
  /** By instance: tokens in the KV cache at the middle of each part. */
  kvTokens: Float64Array[]
}

/**
 * Waiting calls count at the instance that served them in the end; those that were never leased count nowhere. A call
 * holds its prompt from the lease on and one more share of its output from the first token to the finish, linearly; the
 * engine's reservations and cached prefixes are not in the columns. Both are exact for the columns, not samples of a run.
 */
export function loadSeries(table: CallTable, parts: number): LoadSeries {
  const { instance, readyNs, leasedNs, finishedNs, firstTokenNs, promptTokens, outputTokens } = table
  const calls = Uint32Array.from(instance.keys()).filter((call) => isFinished(table, call))
  let from = Number.POSITIVE_INFINITY
  let to = Number.NEGATIVE_INFINITY
  for (const call of calls) {
    from = Math.min(from, readyNs[call]!)
    to = Math.max(to, finishedNs[call]!)
  }
  const width = (to - from) / parts
  const atNs = Float64Array.from({ length: parts }, (_, k) => from + (k + 0.5) * width)

  /** The first part whose middle is not before t. */
  const partAt = (t: number): number => {
    let part = Math.max(0, Math.min(parts, Math.ceil((t - from) / width - 0.5)))
    while (part > 0 && atNs[part - 1]! >= t) part--
    while (part < parts && atNs[part]! < t) part++
    return part
  }

  const waiting: Float64Array[] = []
  const mostWaiting: Float64Array[] = []
  const kvTokens: Float64Array[] = []
  for (let i = 0; i < table.instances.length; i++) {
    const own = calls.filter((call) => instance[call] === i)
    const starts = Float64Array.from(own, (call) => readyNs[call]!).sort()
    const ends = Float64Array.from(own, (call) => leasedNs[call]!).sort()
    const depth = stepSeries(starts, ends, from, width, parts)
    waiting.push(depth.mean)
    mostWaiting.push(depth.most)

    // A sum of lines: each adds `level` + `slope` × (part − its first part) over its parts, as differences.
    const level = new Float64Array(parts + 1)
    const slope = new Float64Array(parts + 1)
    for (const call of own) {
      const token = Math.max(leasedNs[call]!, firstTokenNs[call]!)
      const [a, b, c] = [partAt(leasedNs[call]!), partAt(token), partAt(finishedNs[call]!)]
      level[a]! += promptTokens[call]!
      level[c]! -= promptTokens[call]!
      if (c <= b) continue
      const perNs = outputTokens[call]! / (finishedNs[call]! - token)
      // Written about part 0, so that lines add up.
      const zero = (atNs[0]! - token) * perNs
      level[b]! += zero
      level[c]! -= zero
      slope[b]! += perNs * width
      slope[c]! -= perNs * width
    }
    const tokens = new Float64Array(parts)
    let l = 0
    let s = 0
    for (let k = 0; k < parts; k++) {
      l += level[k]!
      s += slope[k]!
      tokens[k] = Math.max(0, l + s * k)
    }
    kvTokens.push(tokens)
  }
  return { atNs, waiting, mostWaiting, kvTokens }
}

/** Mean and maximum, by part, of how many intervals are open; both ends sorted, an end before a start at the same time. */
function stepSeries(
  starts: Float64Array,
  ends: Float64Array,
  from: number,
  width: number,
  parts: number,
): { mean: Float64Array; most: Float64Array } {
  const mean = new Float64Array(parts)
  const most = new Float64Array(parts)
  let open = 0
  let at = from
  let part = 0
  let s = 0
  let e = 0
  const advance = (t: number) => {
    while (part < parts) {
      const end = part + 1 === parts ? Number.POSITIVE_INFINITY : from + (part + 1) * width
      const until = Math.min(t, end)
      mean[part]! += (open * (until - at)) / width
      if (until > at) most[part] = Math.max(most[part]!, open)
      at = until
      if (t < end) return
      part++
    }
  }
  while (e < ends.length) {
    const isStart = s < starts.length && starts[s]! < ends[e]!
    advance(isStart ? starts[s]! : ends[e]!)
    if (isStart) s++
    else if (s > e) e++
    else {
      // Ready and leased at the same instant: it never waited.
      s++
      e++
      continue
    }
    open = s - e
  }
  return { mean, most }
}
