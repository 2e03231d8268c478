import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'

// Public measurement tables that stand beside the repository and are no part of it.

export function reference(path: string): string {
  return fileURLToPath(new URL(`../../../shared/reference/${path}`, import.meta.url))
}

export function available(): boolean {
  return existsSync(reference('calibration/silicon_e2e.csv.gz'))
}

export type Row = Readonly<Record<string, string>>

/** These tables have no quoted cells. */
export function readTable(name: string): Row[] {
  const bytes = readFileSync(reference(`calibration/${name}`))
  const text = (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8')
  const [header, ...lines] = text.trimEnd().split(/\r?\n/)
  const names = header!.split(',')
  return lines.map((line) => {
    const cells = line.split(',')
    return Object.fromEntries(names.map((column, at) => [column, cells[at] ?? '']))
  })
}

export interface DocumentedFit {
  mape_test: number
  bias_test: number
  n_train: number
  n_test: number
}

export interface Documented {
  kernels: Record<string, Record<string, DocumentedFit>>
  validation: {
    global_stack: {
      stack: [number, number, number]
      mape: number
      median: number
      raw_mape: number
      leave_one_model_out: Record<string, { mape: number }>
      leave_one_gpu_out: Record<string, { mape: number }>
      leave_one_engine_out: Record<string, { mape: number }>
    }
  }
}

export function readDocumented(): Documented {
  return JSON.parse(readFileSync(reference('calibration.json'), 'utf8')) as Documented
}
