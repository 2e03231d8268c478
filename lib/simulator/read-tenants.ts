import { describe, expected, quote } from '../errors.ts'
import { hint } from '../report/near.ts'
import { sharedColumn } from '../traces/columns.ts'
import { MAX_NAME, MAX_NAMES } from '../traces/limits.ts'
import { DEFAULT_NAME, type TraceTable } from '../traces/table.ts'
import type { TenantName } from './tenants.ts'
import type { OptionReader } from './validate.ts'

/** A tenant and its SLO scale. */
export interface TenantOptions {
  /** A tenant of the trace, or a new one that gets workflows by `tenantSplit`. */
  name: string
  /** Deadline = arrival + sloScale × base of its workflows; default: that of the run. */
  sloScale?: number | undefined
  /** Its part of the workflows, relative to the others; default 1. */
  share?: number | undefined
}

/**
 * `trace`: the tenants that the trace names. Others replace them. `blocks`: one after the other in trace order, as in
 * HexGen-Flow's test (the first half of the workflows, then the second). `interleaved`: each workflow goes to the tenant
 * that is furthest behind its share, of equals to the first listed.
 */
export type TenantSplit = 'trace' | 'blocks' | 'interleaved'

export interface CheckedTenants {
  list: TenantOptions[]
  split: TenantSplit | undefined
}

const SPLITS = ['trace', 'blocks', 'interleaved'] as const
const KEYS = ['name', 'sloScale', 'share']
const LARGEST_SCALE = 1e6
const LARGEST_SHARE = 1e6

/** Checks what needs no trace; problems are left in the reader. */
export function readTenantOptions(reader: OptionReader): CheckedTenants | undefined {
  const split = reader.oneOf('tenantSplit', SPLITS, undefined)
  const given = reader.raw('tenants')
  if (given === undefined) {
    if (split !== undefined && split !== 'trace') reader.add('`tenantSplit` needs `tenants`', 'tenantSplit')
    return undefined
  }
  const list = typeof given === 'string' ? parseTenants(given, reader) : readList(given, reader)
  if (list === undefined) return undefined
  const names = new Set<string>()
  for (const { name } of list) {
    if (names.size === names.add(name).size) reader.add(`Tenant ${quote(name)} is named twice`, 'tenants')
  }
  if (list.length > MAX_NAMES) reader.add(`More than ${MAX_NAMES} tenants`, 'tenants')
  if (split === 'trace' && list.some(({ share }) => share !== undefined)) {
    reader.add('Shares in `tenants` have no meaning with the tenants of the trace', 'tenants')
  }
  return { list, split }
}

/** `name=scale@share,…`, with scale and share optional. */
function parseTenants(text: string, reader: OptionReader): TenantOptions[] | undefined {
  const number = String.raw`\d+(?:\.\d+)?`
  const pattern = new RegExp(`^([^=@,]+)(?:=(${number}))?(?:@(${number}))?$`)
  const list: TenantOptions[] = []
  for (const part of text.split(',')) {
    const match = pattern.exec(part.trim())
    if (match === null) {
      reader.add(
        `Expected name=scale@share, separated by commas, for \`tenants\`, got ${describe(text)}`,
        'tenants',
      )
      return undefined
    }
    const [, name, scale, share] = match
    list.push({
      name: name!.trim(),
      ...(scale !== undefined && { sloScale: Number(scale) }),
      ...(share !== undefined && { share: Number(share) }),
    })
  }
  return list.every((tenant) => checkTenant(reader, tenant as unknown as Record<string, unknown>, 'tenants'))
    ? list
    : undefined
}

function readList(given: unknown, reader: OptionReader): TenantOptions[] | undefined {
  if (!Array.isArray(given) || given.length === 0) {
    reader.wrong('a list of at least one tenant', 'tenants', given)
    return undefined
  }
  const good = given.map((tenant: unknown, i) => {
    const place = `tenants[${i}]`
    if (typeof tenant !== 'object' || tenant === null || Array.isArray(tenant)) {
      reader.wrong('an object', place, tenant)
      return false
    }
    for (const key of Object.keys(tenant)) {
      if (!KEYS.includes(key))
        reader.add(`Unknown option \`${place}.${key}\`${hint(key, KEYS)}`, `${place}.${key}`)
    }
    return checkTenant(reader, tenant as Record<string, unknown>, place)
  })
  return good.every((ok) => ok) ? (given as TenantOptions[]) : undefined
}

function checkTenant(reader: OptionReader, tenant: Record<string, unknown>, place: string): boolean {
  const before = reader.problems.count
  const wrong = (what: string, field: string) => {
    // On the command line the whole list is one option.
    const at = place === 'tenants' ? place : `${place}.${field}`
    const full = place === 'tenants' ? `${field} ${what}` : what
    reader.add(expected(full, at, tenant[field]), at)
  }
  const { name, sloScale, share } = tenant
  if (typeof name !== 'string' || name.length < 1 || name.length > MAX_NAME) {
    wrong(`a text of 1 to ${MAX_NAME} characters`, 'name')
  }
  const positive = (value: unknown, high: number) =>
    value === undefined || (typeof value === 'number' && value > 0 && value <= high)
  if (!positive(sloScale, LARGEST_SCALE)) wrong(`a positive number up to ${LARGEST_SCALE}`, 'sloScale')
  if (!positive(share, LARGEST_SHARE)) wrong(`a positive number up to ${LARGEST_SHARE}`, 'share')
  return reader.problems.count === before
}

/** The trace with its tenants, and their scales by tenant id; undefined where all have the run's. */
export interface Tenancy {
  trace: TraceTable
  tenants: TenantName[]
  scales: number[] | undefined
}

/** Applies checked tenants to a trace; its other columns are shared, not copied. Problems are left in the reader. */
export function assignTenants(
  reader: OptionReader,
  checked: CheckedTenants | undefined,
  table: TraceTable,
  sloScale: number,
): Tenancy {
  const known = table.tenants ?? [DEFAULT_NAME]
  if (checked === undefined) {
    return { trace: table, tenants: known.map((name) => ({ name, sloScale })), scales: undefined }
  }
  const { list } = checked
  const split =
    checked.split ?? (known.length > 1 && list.every(({ share }) => share === undefined) ? 'trace' : 'blocks')
  if (split === 'trace') {
    for (const { name } of list) {
      if (!known.includes(name)) {
        reader.add(`Unknown tenant ${quote(name)} in \`tenants\`${hint(name, known)}`, 'tenants')
      }
    }
    const tenants = known.map((name) => ({
      name,
      sloScale: list.find((tenant) => tenant.name === name)?.sloScale ?? sloScale,
    }))
    return { trace: table, tenants, scales: tenants.map((tenant) => tenant.sloScale) }
  }
  const shares = list.map(({ share }) => share ?? 1)
  const tenant = split === 'blocks' ? blocks(table.workflows, shares) : interleaved(table.workflows, shares)
  const used = new Set(tenant)
  const idle = list.find((_, t) => !used.has(t))
  if (idle !== undefined) {
    reader.add(
      `Tenant ${quote(idle.name)} of \`tenants\` would get none of ${table.workflows} workflows`,
      'tenants',
    )
  }
  const tenants = list.map((one) => ({ name: one.name, sloScale: one.sloScale ?? sloScale }))
  return {
    trace: { ...table, columns: { ...table.columns, tenant }, tenants: list.map(({ name }) => name) },
    tenants,
    scales: tenants.map((one) => one.sloScale),
  }
}

/** Tenant t ends before workflow round(n × the sum of shares up to t). */
function blocks(workflows: number, shares: readonly number[]): Uint16Array {
  const total = sum(shares)
  const tenant = sharedColumn(Uint16Array, workflows)
  let before = 0
  let from = 0
  for (const [t, share] of shares.entries()) {
    before += share
    const to = t === shares.length - 1 ? workflows : Math.round((workflows * before) / total)
    tenant.fill(t, from, to)
    from = to
  }
  return tenant
}

function interleaved(workflows: number, shares: readonly number[]): Uint16Array {
  const total = sum(shares)
  const tenant = sharedColumn(Uint16Array, workflows)
  const got = new Float64Array(shares.length)
  for (let w = 0; w < workflows; w++) {
    let behind = 0
    let most = Number.NEGATIVE_INFINITY
    for (const [t, share] of shares.entries()) {
      const deficit = (share * (w + 1)) / total - got[t]!
      if (deficit > most) [behind, most] = [t, deficit]
    }
    tenant[w] = behind
    got[behind]!++
  }
  return tenant
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
