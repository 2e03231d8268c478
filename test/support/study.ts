import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chessTrace } from '../../lib/index.ts'
import { parsePositioned } from '../../lib/study/positions.ts'
import { resolveStudy } from '../../lib/study/resolve.ts'
import type { Study } from '../../lib/study/study.ts'
import { macSqlTrace } from '../../lib/traces/mac-sql.ts'
import type { TraceTable } from '../../lib/traces/table.ts'

/** A folder that is gone after the suite. */
export function temporaryFolder(): () => string {
  let folder = ''
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'laxity-study-'))
  })
  after(() => rmSync(folder, { recursive: true, force: true }))
  return () => folder
}

/** Small generated traces by name; `chess:N` and `mac-sql:N`. */
export async function openSmall(argument: string): Promise<TraceTable> {
  const [kind, size] = argument.split(':')
  const workflows = Number(size ?? 10)
  if (kind === 'chess') return chessTrace({ workflows, preset: 3, seed: 1 })
  if (kind === 'mac-sql') return macSqlTrace({ workflows, seed: 1 })
  throw new Error(`no such trace: ${argument}`)
}

export async function studyOf(content: object, file = 'study.json'): Promise<Study> {
  const source = await parsePositioned(JSON.stringify(content, null, 2), file)
  return resolveStudy(source, { folder: tmpdir(), openTrace: openSmall })
}

/** Every kind of coordinate, some dozen runs of a millisecond. */
export const SMALL = {
  clusters: ['hexgen-hetero-1', { name: 'two', instances: [{ gpu: 'a100', count: 2 }] }],
  workloads: ['chess:6', { trace: 'mac-sql:5', name: 'sql, "quoted"' }],
  rates: [0.3, 2],
  policies: ['hexgen-flow', { policy: 'laxity', migrate: false }],
  parameters: { alpha: [0.2, 0.7], gamma: [0.5] },
  seeds: [4, 1, 9],
  scales: [5, 2],
  options: { tenants: 'a=2@1,b=4@2', knowledge: 'online' },
}
