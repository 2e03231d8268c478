import type { TraceTable } from '../../../lib/traces/table.ts'

export interface TestCall {
  model?: number
  prompt: number
  output: number
}

/** A trace of chains, over shared memory as the readers make it. */
export function chains(
  workflows: readonly (readonly TestCall[])[],
  extra: Partial<TraceTable> = {},
): TraceTable {
  const rows = workflows.flat()
  const firstCall = shared(Uint32Array, workflows.length + 1)
  const parentOffset = shared(Uint32Array, rows.length + 1)
  const parents = shared(Uint32Array, rows.length - workflows.length)
  let row = 0
  let edge = 0
  for (const [w, calls] of workflows.entries()) {
    for (const position of calls.keys()) {
      if (position > 0) parents[edge++] = position - 1
      parentOffset[++row] = edge
    }
    firstCall[w + 1] = row
  }
  const models = 1 + Math.max(...rows.map(({ model = 0 }) => model))
  return {
    source: 'chains',
    workflows: workflows.length,
    calls: rows.length,
    columns: {
      firstCall,
      stage: shared(Uint16Array, rows.length),
      model: Uint16Array.from(rows, ({ model = 0 }) => model),
      promptTokens: Uint32Array.from(rows, ({ prompt }) => prompt),
      outputTokens: Uint32Array.from(rows, ({ output }) => output),
      parentOffset,
      parents,
    },
    stages: ['step'],
    models: models === 1 ? ['default'] : Array.from({ length: models }, (_, id) => `model-${id}`),
    tenants: ['default'],
    ...extra,
  }
}

function shared<T>(
  kind: { new (buffer: SharedArrayBuffer): T; BYTES_PER_ELEMENT: number },
  length: number,
): T {
  return new kind(new SharedArrayBuffer(length * kind.BYTES_PER_ELEMENT))
}
