import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { TENANT_COLUMNS, type TenantName } from '../simulator/tenants.ts'
import { writeError } from './journal.ts'
import type { RowLayout } from './rows.ts'
import type { Store } from './store.ts'
import { coordinatesOf, type Study } from './study.ts'

/** Rows of a batch: text and lists of a Parquet row group. */
const BATCH = 20_000

/** A column of the output: its name, and its value in a run's row. */
export interface OutputColumn {
  name: string
  type: 'text' | 'number'
  value(run: number, row: Float64Array): string | number | null
}

/** The columns of `runs`: coordinates, then results. */
export function runColumns(study: Study, layout: RowLayout): OutputColumn[] {
  const at = coordinates(study)
  const text = (name: string, label: (run: number) => string): OutputColumn => ({
    name,
    type: 'text',
    value: label,
  })
  const number = (name: string, value: OutputColumn['value']): OutputColumn => ({
    name,
    type: 'number',
    value,
  })
  const result = (name: string, index: number) => number(name, (_, row) => row[index]!)
  return [
    number('run', (run) => run),
    text('cluster', (run) => study.clusters[at(run).cluster]!.label),
    text('workload', (run) => study.workloads[at(run).workload]!.label),
    number('rate', (run) => study.rates[at(run).rate]!),
    text('policy', (run) => study.policies[at(run).policy]!.label),
    ...study.parameters.map(({ name, values }, p) => number(name, (run) => values[at(run).parameters[p]!]!)),
    number('seed', (run) => study.seeds[at(run).seed]!),
    ...layout.columns.map(result),
    ...study.scales.map((scale, i) => result(`attainment@${scale}`, layout.attainment + i)),
    result('fairnessAttainment', layout.fairness),
    result('fairnessNormalisedLatency', layout.fairness + 1),
  ]
}

function coordinates(study: Study) {
  let last = -1
  let at = coordinatesOf(study, 0)
  return (run: number) => {
    if (run !== last) at = coordinatesOf(study, run)
    last = run
    return at
  }
}

/**
 * Writes what is finished, in grid order: `runs.csv`, `tenants.csv` where there are tenants, `runs.parquet` if asked. A
 * file appears only when it is complete. Returns the paths.
 *
 * @throws LaxityError ERR_LAXITY_FILE
 */
export async function writeOutputs(
  folder: string,
  study: Study,
  layout: RowLayout,
  store: Store,
  tenants: (run: number) => readonly TenantName[],
  parquet: boolean,
): Promise<string[]> {
  const columns = runColumns(study, layout)
  const paths = [await writeText(join(folder, 'runs.csv'), csvLines(columns, store, layout.width))]
  if (layout.tenantCount > 0) {
    paths.push(await writeText(join(folder, 'tenants.csv'), tenantLines(layout, store, tenants)))
  }
  if (parquet) paths.push(await writeParquet(join(folder, 'runs.parquet'), columns, store, layout.width))
  return paths
}

async function writeText(path: string, lines: AsyncIterable<string>): Promise<string> {
  return replacing(path, (temporary) => pipeline(Readable.from(lines), createWriteStream(temporary)))
}

async function replacing(path: string, write: (temporary: string) => Promise<unknown>): Promise<string> {
  const temporary = `${path}.tmp`
  try {
    await write(temporary)
    await rename(temporary, path)
    return path
  } catch (error) {
    await rm(temporary, { force: true })
    throw writeError(error, path)
  }
}

async function* csvLines(columns: OutputColumn[], store: Store, width: number): AsyncGenerator<string> {
  yield `${columns.map(({ name }) => cell(name)).join(',')}\n`
  for await (const { from, to, rows } of store.chunks()) {
    const lines: string[] = []
    for (let run = from; run < to; run++) {
      const row = rows.subarray((run - from) * width, (run - from + 1) * width)
      lines.push(columns.map((column) => cell(column.value(run, row))).join(','))
    }
    yield `${lines.join('\n')}\n`
  }
}

/** Shortest digits that read back as the same number; nothing for what a run does not have. */
function cell(value: string | number | null): string {
  if (value === null) return ''
  if (typeof value === 'number') return Number.isNaN(value) ? '' : String(value)
  return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value
}

async function* tenantLines(
  layout: RowLayout,
  store: Store,
  tenants: (run: number) => readonly TenantName[],
): AsyncGenerator<string> {
  yield `run,tenant,${TENANT_COLUMNS.join(',')}\n`
  for await (const { from, to, rows } of store.chunks()) {
    let text = ''
    for (let run = from; run < to; run++) {
      const row = rows.subarray((run - from) * layout.width, (run - from + 1) * layout.width)
      for (const [t, { name }] of tenants(run).slice(0, layout.tenantCount).entries()) {
        const first = layout.tenants + t * TENANT_COLUMNS.length
        const values = row.subarray(first, first + TENANT_COLUMNS.length)
        // A tenant without workflows has no row.
        if (values[0]! > 0) text += `${run},${cell(name)},${Array.from(values, cell).join(',')}\n`
      }
    }
    if (text !== '') yield text
  }
}

async function writeParquet(
  path: string,
  columns: OutputColumn[],
  store: Store,
  width: number,
): Promise<string> {
  const { ParquetWriter, fileWriter } = await import('hyparquet-writer')
  return replacing(path, async (temporary) => {
    const fields = columns.map(({ name, type }) => ({
      name,
      repetition_type: 'OPTIONAL' as const,
      ...(type === 'text'
        ? { type: 'BYTE_ARRAY' as const, converted_type: 'UTF8' as const }
        : { type: 'DOUBLE' as const }),
    }))
    const schema = [{ name: 'root', num_children: fields.length }, ...fields]
    const writer = new ParquetWriter({ writer: fileWriter(temporary), schema, createdBy: 'laxity' })
    let data: (string | number | null)[][] = columns.map(() => [])
    const flush = async () => {
      if (data[0]!.length === 0) return
      const columnData = columns.map(({ name }, i) => ({ name, data: data[i]! }))
      await writer.write({ columnData, rowGroupSize: BATCH })
      data = columns.map(() => [])
    }
    for await (const { from, to, rows } of store.chunks()) {
      for (let run = from; run < to; run++) {
        const row = rows.subarray((run - from) * width, (run - from + 1) * width)
        for (const [i, column] of columns.entries()) {
          const value = column.value(run, row)
          data[i]!.push(typeof value === 'number' && Number.isNaN(value) ? null : value)
        }
        if (data[0]!.length >= BATCH) await flush()
      }
    }
    await flush()
    await writer.finish()
  })
}
