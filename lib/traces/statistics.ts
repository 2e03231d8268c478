import type { TraceTable } from './table.ts'

/** Totals of a trace. */
export interface TraceStatistics {
  workflows: number
  calls: number
  /** Calls of the largest workflow. */
  largestWorkflow: number
  promptTokens: number
  cachedTokens: number
  outputTokens: number
}

export function traceStatistics(table: TraceTable): TraceStatistics {
  const { firstCall, promptTokens, cachedTokens, outputTokens } = table.columns
  let largestWorkflow = 0
  for (let w = 0; w < table.workflows; w++) {
    largestWorkflow = Math.max(largestWorkflow, firstCall[w + 1]! - firstCall[w]!)
  }
  return {
    workflows: table.workflows,
    calls: table.calls,
    largestWorkflow,
    promptTokens: sum(promptTokens),
    cachedTokens: cachedTokens === undefined ? 0 : sum(cachedTokens),
    outputTokens: sum(outputTokens),
  }
}

function sum(column: Uint32Array): number {
  let total = 0
  for (const value of column) total += value
  return total
}
