import { open, rm, truncate } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import { LaxityError, quote } from '../errors.ts'
import { type NativeRun, native } from '../native.ts'
import { adoptCall, adoptEnd, adoptWorkflow, settleAdopted } from './adoption.ts'
import type { CallRecord } from './call.ts'
import type { Core } from './core.ts'
import { DECISION, Decisions } from './decisions.ts'
import type { LiveInstance } from './instances.ts'
import type { LiveLogHeader } from './journal.ts'
import { LOG_VERSION, notReplayable, plain } from './log.ts'
import { type EventObject, encodeRecord, RECORD_BYTES } from './records.ts'

const HEADER_START = '{"laxity":"log"'

interface Line {
  object: EventObject & Record<string, unknown>
  /** Byte after it. */
  end: number
  number: number
}

/**
 * Replays a live log into a scheduler that has just been made with the same options. Whatever follows the last whole
 * decision is cut off the file: nobody was told of it.
 *
 * @param onRecords gets the records of each instant after it was applied
 * @returns the leases that are open; undefined where the process died before its first instant was on disk: then the file is
 * gone, and nobody was told anything
 * @throws LaxityError ERR_LAXITY_LOG where the log is not of this scheduler, or cannot be replayed
 */
export async function restoreInto(
  core: Core,
  path: string,
  onRecords?: (records: Uint8Array) => void,
): Promise<CallRecord[] | undefined> {
  try {
    return await replayInto(core, path, onRecords)
  } catch (cause) {
    // What was built so far is dropped with the scheduler.
    throw notReplayable(cause, path)
  }
}

async function replayInto(
  core: Core,
  path: string,
  onRecords?: (records: Uint8Array) => void,
): Promise<CallRecord[] | undefined> {
  const { header, groups, end } = await readGroups(path)
  if (header !== undefined) checkHeader(core, header, path)
  if (header === undefined || groups.length === 0) {
    await rm(path)
    return undefined
  }
  let first = true
  let lastNs = 0
  for (const group of groups) {
    lastNs = Number(group.at(-1)!.object.t)
    if (first) {
      // The instances, which the constructor has just added.
      const made = core.native.takeLog()
      const logged = recordsOf(group, path)
      if (Buffer.compare(made, logged) !== 0)
        throw new LaxityError(
          'ERR_LAXITY_LOG',
          'The log began with another cluster than the one given',
          `${path}:2`,
        )
      first = false
    } else {
      apply(core, group, path)
    }
    onRecords?.(recordsOf(group, path))
  }
  core.native.takeLog()
  core.continueAt(Math.max(lastNs, Math.round((Date.now() - header.live.wallMs) * 1e6)))
  await truncate(path, end)
  return settleAdopted(core)
}

/** One instant: its events, then its decisions, which must be made again. */
function apply(core: Core, group: readonly Line[], path: string): void {
  const bytes = new Uint8Array(RECORD_BYTES)
  const decisions: Line[] = []
  let closed: number[] = []
  for (const line of group) {
    const { object } = line
    if (object.kind === 'decision') {
      decisions.push(line)
      continue
    }
    if (object.kind === 'decide') {
      if (core.writer.pending === 0) core.writer.timer(Number(object.t))
      continue
    }
    // First, since it checks the ranges of what is adopted.
    bytes.fill(0)
    encode(bytes, 0, line, path)
    const field = (name: string) => object[name] as number
    if (object.kind === 'instance' && field('change') === 0) {
      const given = object.given as LiveInstance
      if (core.instances.byId(given.id!) === undefined || field('instance') >= core.instances.list.length)
        core.instances.add(given)
    } else if (object.kind === 'openWorkflow') {
      adoptWorkflow(core, object)
    } else if (object.kind === 'reveal') {
      adoptCall(core, object)
    } else if (object.kind === 'closeWorkflow') {
      closed.push(field('workflow'))
    } else if (object.kind === 'setParameter') {
      core.options.parameters[native.parameters[field('parameter')]!] = field('value')
    } else if (object.kind === 'setPolicy') {
      core.options.policy = {
        order: native.orders[field('order')]!,
        placement: (core.paired ? native.pairPlacements : native.placements)[field('placement')]!,
        binding: field('binding') === 1 ? 'at-credit' : 'at-reveal',
        migrate: field('migrate') > 0 ? field('migrate') === 2 : core.options.policy.migrate,
      }
    }
    core.writer.raw(bytes)
  }
  for (const slot of closed) adoptEnd(core, slot)
  closed = []
  const made = core.replayed()
  const size = native.eventLayout.decisionBytes
  if (made.length !== decisions.length * size) differs(path, group[0]!)
  const memory = new SharedArrayBuffer(made.length)
  new Uint8Array(memory).set(made)
  const d = new Decisions(memory, 0)
  for (const [i, line] of decisions.entries()) {
    encode(bytes, 0, line, path)
    if (Buffer.compare(made.subarray(i * size, (i + 1) * size), bytes.subarray(16, 16 + size)) !== 0)
      differs(path, line)
    d.go(i)
    core.replayAt(Number(line.object.t))
    const call = core.calls.at(d.call)
    if (call === undefined) continue
    if (d.kind === DECISION.lease) core.attempts.adopt(call, d)
    else if (d.kind === DECISION.admitDecode) core.attempts.adoptRoom(call, d)
  }
  core.releaseAdopted()
}

function differs(path: string, line: Line): never {
  throw new LaxityError(
    'ERR_LAXITY_LOG',
    'The scheduler decides otherwise than the log',
    `${path}:${line.number}`,
  )
}

function recordsOf(group: readonly Line[], path: string): Uint8Array {
  const records = new Uint8Array(group.length * RECORD_BYTES)
  for (const [i, line] of group.entries()) encode(records, i, line, path)
  return records
}

function encode(into: Uint8Array, index: number, line: Line, path: string): void {
  const at = index * RECORD_BYTES
  into.fill(0, at, at + RECORD_BYTES)
  const view = new DataView(into.buffer, into.byteOffset, into.byteLength)
  const problem = encodeRecord(view, at, line.object)
  if (problem !== undefined) throw new LaxityError('ERR_LAXITY_LOG', problem, `${path}:${line.number}`)
}

function checkHeader(core: Core, header: LiveLogHeader, path: string): void {
  const same = (name: string, a: unknown, b: unknown) => {
    if (!isDeepStrictEqual(JSON.parse(JSON.stringify(a, plain)), b))
      throw new LaxityError('ERR_LAXITY_LOG', `The log was written with another ${quote(name)}`, `${path}:1`)
  }
  const { policy, parameters, lookahead, tieSeed, pairs } = core.options
  const { run } = header
  // A preset's own parameters are among all the others.
  const parts = ({ order, placement, binding, migrate = false }: Partial<NativeRun>) => ({
    order,
    placement,
    binding,
    migrate,
  })
  same('policy', parts(policy), parts(run))
  same('parameters', parameters, run.parameters)
  same('lookahead', lookahead, run.lookahead)
  if (pairs !== undefined || run.pairs !== undefined) same('pairs', pairs ?? null, run.pairs ?? null)
  same('tieSeed', tieSeed, run.tieSeed)
  same('latencies', core.instances.latencies, header.cluster.latencies)
}

/**
 * The log by instants; the last is whole: its decide mark and all its decisions are there. Without a header where it ends
 * inside that.
 */
async function readGroups(
  path: string,
): Promise<{ header: LiveLogHeader | undefined; groups: Line[][]; end: number }> {
  const unreadable = (cause: Error): never => {
    throw new LaxityError('ERR_LAXITY_FILE', `Cannot read the log: ${cause.message}`, path, { cause })
  }
  const file = await open(path).catch(unreadable)
  try {
    const bytes = await file.readFile().catch(unreadable)
    let header: LiveLogHeader | undefined
    const groups: Line[][] = []
    let group: Line[] = []
    let wanted = -1
    let end = 0
    let number = 0
    for (let from = 0; ; ) {
      const to = bytes.indexOf(10, from)
      if (to < 0) break
      number += 1
      const place = `${path}:${number}`
      const object = parse(bytes.subarray(from, to), place)
      from = to + 1
      if (header === undefined) {
        header = object as unknown as LiveLogHeader
        if (
          (object as { laxity?: unknown }).laxity !== 'log' ||
          (object as { version?: unknown }).version !== LOG_VERSION
        )
          throw new LaxityError('ERR_LAXITY_LOG', `Expected a log of version ${LOG_VERSION}`, place)
        if (typeof header.live?.wallMs !== 'number')
          throw new LaxityError('ERR_LAXITY_LOG', 'Not the log of a live scheduler', place)
        end = from
        continue
      }
      group.push({ object, end: from, number })
      if (object.kind === 'decide') wanted = Number(object.count)
      else if (object.kind === 'decision') wanted -= 1
      if (wanted === 0) {
        groups.push(group)
        group = []
        wanted = -1
        end = from
      }
    }
    const start = bytes.subarray(0, HEADER_START.length).toString()
    if (header === undefined && !HEADER_START.startsWith(start))
      throw new LaxityError('ERR_LAXITY_LOG', 'Not the log of a live scheduler', path)
    return { header, groups, end }
  } finally {
    await file.close()
  }
}

function parse(line: Uint8Array, place: string): EventObject & Record<string, unknown> {
  try {
    const object: unknown = JSON.parse(Buffer.from(line).toString('utf8'))
    if (typeof object === 'object' && object !== null && !Array.isArray(object)) {
      for (const [name, value] of Object.entries(object)) {
        if (
          name !== 'kind' &&
          name !== 'id' &&
          !name.endsWith('Name') &&
          typeof value === 'string' &&
          /^-?\d{1,20}$/.test(value)
        )
          (object as Record<string, unknown>)[name] = BigInt(value)
      }
      return object as EventObject & Record<string, unknown>
    }
  } catch {}
  throw new LaxityError('ERR_LAXITY_SYNTAX', 'Expected one JSON object', place)
}
