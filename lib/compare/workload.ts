import { LaxityError, quote } from '../errors.ts'
import type { TraceColumns } from '../native.ts'
import { hint } from '../report/near.ts'
import { AGENTIC_WORKLOADS } from '../traces/agentic.ts'
import { sharedColumn } from '../traces/columns.ts'
import { type ContextPreset, withContext } from '../traces/context.ts'
import { MAX_CALLS, MAX_EDGES } from '../traces/limits.ts'
import { callId, type TraceTable, workflowId } from '../traces/table.ts'
import { generateWorkload, WORKLOADS, type WorkloadName } from '../traces/workload.ts'

const DEFAULT_WORKFLOWS = 1000

/** A workload of a comparison: a generator, which draws other workflows for every seed, or a trace, which cannot. */
export interface Workload {
  name: string
  /** `seed` 0 is that of the calibration. Without `workflows`: 1,000 of a generator, all of a trace. */
  open(workflows: number | undefined, seed: number, signal: AbortSignal): Promise<TraceTable>
}

/**
 * `context`: what prompts are to hold; undefined = the workload's default.
 *
 * @throws LaxityError ERR_LAXITY_OPTION for a name that is neither a generator's nor a path.
 */
export function findWorkload(given: string | TraceTable, context: ContextPreset | undefined): Workload {
  if (typeof given !== 'string') return recorded(given.source, context, async () => given)
  const name = given as WorkloadName
  if (!WORKLOADS.includes(name)) {
    if (!/[./\\]/.test(given)) {
      const message = `Unknown workload ${quote(given)}${hint(given, WORKLOADS)}`
      throw new LaxityError('ERR_LAXITY_OPTION', message, 'workload')
    }
    let table: Promise<TraceTable> | undefined
    return recorded(given, context, (signal) => {
      table ??= import('../traces/read.ts').then(({ readTrace }) => readTrace(given, { signal }))
      return table
    })
  }
  if (context !== undefined && !(AGENTIC_WORKLOADS as readonly string[]).includes(name)) {
    const message = `\`context\` has no meaning for the workload ${quote(given)}`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'context')
  }
  return {
    name,
    open: (workflows = DEFAULT_WORKFLOWS, seed) => generateWorkload(name, { workflows, seed, context }),
  }
}

function recorded(
  name: string,
  context: ContextPreset | undefined,
  read: (signal: AbortSignal) => Promise<TraceTable>,
): Workload {
  return {
    name,
    open: async (workflows, _seed, signal) => {
      const whole = await read(signal)
      const table = context === undefined ? whole : withContext(whole, context)
      return workflows === undefined ? table : takeWorkflows(table, workflows)
    },
  }
}

/** The same workflows, all present at t = 0. */
export function allAtOnce(table: TraceTable): TraceTable {
  const arrivalMs = sharedColumn(Float64Array, table.workflows)
  return { ...table, columns: { ...table.columns, arrivalMs } }
}

/** The first `count` workflows of a trace, from its beginning again where it has fewer; without recorded arrivals. */
export function takeWorkflows(table: TraceTable, count: number): TraceTable {
  if (count === table.workflows || table.workflows === 0) return table
  const { firstCall, parentOffset } = table.columns
  const source = (workflow: number) => workflow % table.workflows
  const taken = sharedColumn(Uint32Array, count + 1)
  let calls = 0
  let edges = 0
  for (let w = 0; w < count; w++) {
    const [first, end] = [firstCall[source(w)]!, firstCall[source(w) + 1]!]
    calls += end - first
    edges += parentOffset[end]! - parentOffset[first]!
    taken[w + 1] = calls
    if (calls <= MAX_CALLS && edges <= MAX_EDGES) continue
    const message = `Fewer \`workflows\`: ${count} of ${table.source} have more than ${MAX_CALLS} calls or ${MAX_EDGES} edges`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'workflows')
  }
  const rows = new Uint32Array(calls)
  const offsets = sharedColumn(Uint32Array, calls + 1)
  const parents = sharedColumn(Uint32Array, edges)
  let row = 0
  let edge = 0
  for (let w = 0; w < count; w++) {
    for (let call = firstCall[source(w)]!; call < firstCall[source(w) + 1]!; call++) {
      const own = table.columns.parents.subarray(parentOffset[call]!, parentOffset[call + 1]!)
      parents.set(own, edge)
      edge += own.length
      rows[row++] = call
      offsets[row] = edge
    }
  }
  const perWorkflow = Uint32Array.from({ length: count }, (_, w) => source(w))
  const { arrivalMs: _, ...given } = table.columns
  const columns: TraceColumns = { ...given, firstCall: taken, parentOffset: offsets, parents }
  for (const [name, column] of Object.entries(given) as [keyof TraceColumns, TraceColumns['parents']][]) {
    const axis = AXIS[name]
    if (column === undefined || axis === 'graph') continue
    Object.assign(columns, { [name]: picked(column, axis === 'call' ? rows : perWorkflow) })
  }
  // A workflow that comes again keeps its names, with its round behind them.
  const round = (w: number) => (w < table.workflows ? '' : `~${1 + Math.floor(w / table.workflows)}`)
  return {
    ...table,
    workflows: count,
    calls,
    columns,
    ...(table.workflowIds && {
      workflowIds: Array.from({ length: count }, (_, w) => workflowId(table, source(w)) + round(w)),
    }),
    ...(table.callIds && {
      callIds: Array.from({ length: count }, (_, w) =>
        Array.from({ length: taken[w + 1]! - taken[w]! }, (_, position) =>
          callId(table, source(w), position),
        ),
      ).flat(),
    }),
  }
}

/** What a column has a value for. */
const AXIS: Readonly<Record<keyof TraceColumns, 'workflow' | 'call' | 'graph'>> = {
  firstCall: 'graph',
  parentOffset: 'graph',
  parents: 'graph',
  arrivalMs: 'workflow',
  tenant: 'workflow',
  sloMs: 'workflow',
  stage: 'call',
  model: 'call',
  promptTokens: 'call',
  cachedTokens: 'call',
  outputTokens: 'call',
  predictedTokens: 'call',
  toolGapMs: 'call',
}

function picked<T extends Uint16Array | Uint32Array | Float64Array>(column: T, rows: Uint32Array): T {
  const kind = column.constructor as unknown as Parameters<typeof sharedColumn<T>>[0]
  const own = sharedColumn(kind, rows.length)
  for (let i = 0; i < rows.length; i++) own[i] = column[rows[i]!]!
  return own
}
