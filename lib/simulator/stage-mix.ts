import type { ResolvedCluster } from '../cluster/resolve.ts'
import type { TraceTable } from '../traces/table.ts'
import type { CallColumns } from './result.ts'

/** What each instance served: of its calls, the share of every stage (or paper stage group). */
export interface StageMix {
  /** Row names: stage groups where the trace has them, else stages. */
  stages: string[]
  instances: {
    index: number
    label: string
    calls: number
    /** Per cent by stage; they sum to 100, or are all 0 on an instance that served nothing. */
    shares: number[]
  }[]
}

/** Counts finished calls. */
export function stageMix(trace: TraceTable, cluster: ResolvedCluster, calls: CallColumns): StageMix {
  const nameOf = trace.stages.map((stage, id) => trace.stageGroups?.[id] || stage)
  const stages = [...new Set(nameOf)]
  const rowOfStage = Uint16Array.from(nameOf, (name) => stages.indexOf(name))
  const width = stages.length
  const counts = new Float64Array(cluster.instances.length * width)
  const { stage } = trace.columns
  for (let call = 0; call < trace.calls; call++) {
    const instance = calls.instance[call]!
    if (!Number.isFinite(calls.finishedMs[call]) || instance >= cluster.instances.length) continue
    const cell = instance * width + rowOfStage[stage[call]!]!
    counts[cell] = counts[cell]! + 1
  }
  const instances = cluster.instances.map(({ label }, index) => {
    const own = Array.from(counts.subarray(index * width, (index + 1) * width))
    const total = own.reduce((sum, count) => sum + count, 0)
    const shares = own.map((count) => (total === 0 ? 0 : (100 * count) / total))
    return { index, label, calls: total, shares }
  })
  return { stages, instances }
}
