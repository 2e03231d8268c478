import { type CallTable, isFinished } from './call-table.ts'

/** One call of a critical path; gap + wait + prefill + decode over the path is the workflow's latency. */
export interface CriticalCall {
  /** Row of the calls. */
  call: number
  /** From the critical parent's finish (or the arrival) to ready: a tool ran, or nothing. */
  gapNs: number
  waitNs: number
  prefillNs: number
  decodeNs: number
}

/**
 * The calls that set a workflow's latency, first to last: from the call that finished last back to the parent that
 * finished last, and so on. Equal finishes: the lower position. Undefined where some call did not finish.
 */
export function criticalPath(table: CallTable, workflow: number): CriticalCall[] | undefined {
  const { firstCall, parentOffset, parents, readyNs, leasedNs, firstTokenNs, finishedNs } = table
  const first = firstCall[workflow]!
  const end = firstCall[workflow + 1]!
  if (first === end) return undefined
  let last = first
  for (let call = first; call < end; call++) {
    if (!isFinished(table, call)) return undefined
    if (finishedNs[call]! > finishedNs[last]!) last = call
  }

  const path: CriticalCall[] = []
  for (let call: number | undefined = last; call !== undefined; ) {
    let parent: number | undefined
    for (let p = parentOffset[call]!; p < parentOffset[call + 1]!; p++) {
      const candidate: number = first + parents[p]!
      const isLater: boolean =
        parent === undefined ||
        finishedNs[candidate]! > finishedNs[parent]! ||
        (finishedNs[candidate]! === finishedNs[parent]! && candidate < parent)
      if (isLater) parent = candidate
    }
    const from = parent === undefined ? table.workflows.arrivalNs[workflow]! : finishedNs[parent]!
    const token = Math.max(leasedNs[call]!, firstTokenNs[call]!)
    path.push({
      call,
      gapNs: readyNs[call]! - from,
      waitNs: leasedNs[call]! - readyNs[call]!,
      prefillNs: token - leasedNs[call]!,
      decodeNs: finishedNs[call]! - token,
    })
    call = parent
  }
  return path.reverse()
}

/** The workflow at a quantile of latency: the ceil(q n)-th smallest of n, where it completed; ties by row. */
export function workflowAt(table: CallTable, quantile: number): number | undefined {
  const { latencyNs } = table.workflows
  const order = Uint32Array.from(latencyNs.keys()).sort((a, b) => {
    const [x, y] = [latencyNs[a]!, latencyNs[b]!]
    return x === y ? a - b : x < y ? -1 : 1
  })
  for (let at = Math.ceil(quantile * order.length) - 1; at >= 0; at--) {
    if (Number.isFinite(latencyNs[order[at]!])) return order[at]
  }
  return undefined
}
