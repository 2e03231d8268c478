import { type Command, Option } from 'commander'
import { describe, expected, LaxityError } from '../errors.ts'
import type { ContextPreset } from '../traces/context.ts'
import type { TraceFormat } from '../traces/read.ts'
import type { TraceTable } from '../traces/table.ts'
import type { WorkloadName } from '../traces/workload.ts'

/** What a `<trace>` argument accepts. */
export const TRACE_HELP =
  'laxity JSONL or a format of --format, gzipped or not; `-` = standard input; or a generated one: chess:1, chess:2, chess:3, mac-sql, sharegpt, bfcl, lats, mixed, chains, agents, each with :workflows or without'

const FORMAT_HELP =
  'jsonl, hexgen, azure, mooncake (single calls), mooncake-chains, weka, bfcl, toolbench or lats (default: by content; Mooncake as single calls)'

/** Which trace, as commander hands it over. */
export interface TraceFlags {
  format?: string | undefined
  workload?: string
  workflows?: unknown
  context?: string
  chainCalls?: unknown
}

/** Numbers become numbers; anything else stays text, so that the message about it shows what was typed. */
export function numeric(text: string): unknown {
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : text
}

/** The flags that say more about a `<trace>` argument. */
export function addTraceFlags(command: Command): Command {
  return command
    .option('--format <name>', FORMAT_HELP)
    .option('--workflows <n>', 'of a generated trace (default: as published)', numeric)
    .addOption(
      new Option(
        '--context <preset>',
        'what prompts hold: new (tokens that are not in the history) or full (history too, as cached tokens); default: new for generated traces of agents, as recorded for files',
      ),
    )
    .option('--chain-calls <n>', 'calls of a workflow of the generated trace chains (default: 8)', numeric)
}

/** The flag that names a generated trace in place of the argument. */
export function addWorkloadFlag(command: Command): Command {
  return command.option('--workload <name>', 'a generated trace, in place of <trace>')
}

/**
 * Opens a `<trace>` argument, or what `--workload` names. Generated workloads are always the same: seeds of a run draw
 * its arrivals only.
 */
export async function openTrace(
  argument: string | undefined,
  signal: AbortSignal,
  flags: TraceFlags = {},
): Promise<TraceTable> {
  if (argument !== undefined && flags.workload !== undefined) {
    throw wrong('workload', '`workload` stands in place of the trace: give one of them')
  }
  const name = flags.workload ?? argument
  if (name === undefined) throw wrong('trace', "missing required argument 'trace' (or `--workload`)")
  if (
    flags.workload !== undefined ||
    /^(chess|mac-sql|sharegpt|bfcl|lats|mixed|chains|agents)(:|$)/.test(name)
  ) {
    return generate(name, flags)
  }
  for (const field of ['workflows', 'chainCalls'] as const) {
    if (flags[field] !== undefined) throw wrong(field, `\`${field}\` has no meaning for a trace file`)
  }
  const { format, context } = flags
  const { readContext, withContext } = await import('../traces/context.ts')
  const preset = context === undefined ? undefined : readContext(context)
  const { readTrace } = await import('../traces/read.ts')
  const options = { signal, ...(format !== undefined && { format: format as TraceFormat }) }
  const table =
    name === '-'
      ? await readTrace(process.stdin, { ...options, source: '<stdin>' })
      : await readTrace(name, options)
  return preset === undefined ? table : withContext(table, preset)
}

/** A trace in JSON documents: its size, and what its prompts hold where it says so. */
export function traceFields({
  workflows,
  calls,
  context,
}: Pick<TraceTable, 'workflows' | 'calls' | 'context'>) {
  return { workflows, calls, ...(context !== undefined && { context }) }
}

async function generate(name: string, flags: TraceFlags): Promise<TraceTable> {
  const field = flags.workload === undefined ? 'trace' : 'workload'
  if (flags.format !== undefined) throw wrong('format', '`format` has no meaning for a generated trace')
  const { generateWorkload, WORKLOADS } = await import('../traces/workload.ts')
  const match = /^(.*?)(?::(\d{1,9}))?$/.exec(name)!
  // The 3 of chess:3 is no number of workflows.
  const whole = WORKLOADS.includes(name as WorkloadName)
  const workload = whole ? name : match[1]!
  const size = whole ? undefined : match[2]
  if (!WORKLOADS.includes(workload as WorkloadName)) {
    const message = expected(`one of ${WORKLOADS.join(', ')}, with :workflows or without,`, field, name)
    throw wrong(field, message)
  }
  if (size !== undefined && flags.workflows !== undefined) {
    throw wrong('workflows', `\`workflows\` is given twice: ${describe(name)} has them`)
  }
  // What the generator checks has passed no check yet.
  return generateWorkload(workload as WorkloadName, {
    workflows: size === undefined ? (flags.workflows as number | undefined) : Number(size),
    context: flags.context as ContextPreset | undefined,
    chainCalls: flags.chainCalls as number | undefined,
  })
}

function wrong(field: string, message: string): LaxityError {
  return new LaxityError('ERR_LAXITY_OPTION', message, field)
}
