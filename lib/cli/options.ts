import { type Command, Option } from 'commander'
import type { RunOptions } from '../simulator/options.ts'

const DEFAULT_CLUSTER = 'hexgen-hetero-2'

/** What commander hands over: text, not yet checked. */
export interface Flags {
  cluster: string
  policy?: string
  rate?: unknown
  arrivals?: string
  alpha?: unknown
  beta?: unknown
  order?: string
  placement?: string
  binding?: string
  mode?: string
  chunkTokens?: unknown
  decodeShare?: unknown
  knowledge?: string
  feedback?: string
  sloScale?: unknown
  workers?: unknown
  seed?: unknown
  json?: boolean
}

/** Numbers become numbers; anything else stays text, so that the message about it shows what was typed. */
export function numeric(text: string): unknown {
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : text
}

/** The flags that tune and simulate share. Values are checked by the API, all at once. */
export function addRunFlags(command: Command): Command {
  return command
    .option(
      '--cluster <name|file>',
      'cluster preset or JSON file (schemas/cluster.schema.json)',
      DEFAULT_CLUSTER,
    )
    .option('--rate <n>', 'workflows per second (default: 0.5)', numeric)
    .option('--arrivals <kind>', 'poisson, fixed or trace (default: trace where it has them, else poisson)')
    .option('--policy <name>', 'preset of order, placement and binding: vllm, hexgen-flow, laxity')
    .option('--order <name>', 'queue order (default: urgency)')
    .option('--placement <name>', 'placement (default: workload-balanced)')
    .option('--binding <kind>', 'at-reveal or at-credit (default: what the placement needs)')
    .option(
      '--beta <n>',
      'scale of the queue term, s² (default: the template’s mean stage time squared, else that of the calls so far)',
      numeric,
    )
    .option(
      '--mode <name>',
      'engine mode of every instance: prefill-first, chunked, decode-share (default: its own)',
    )
    .option('--chunk-tokens <n>', 'chunked: tokens of an iteration (default: 512)', numeric)
    .option('--decode-share <n>', 'decode-share: speed of decode beside a prefill (default: 0.5)', numeric)
    .option(
      '--knowledge <kind>',
      'online, template, declared or oracle (default: template where there is one)',
    )
    .option('--feedback <kind>', 'boundary or lease (default: boundary)')
    .option('--slo-scale <n>', 'deadline = arrival + scale × base (default: 5)', numeric)
    .option('--workers <n>', 'threads; 0 = none (default: none for small jobs, else cores − 1)', numeric)
    .option('--seed <n>', 'seed of the arrivals (default: 1)', numeric)
    .addOption(new Option('--json', 'one JSON document on standard output'))
}

/** The shared flags as options of the API, without trace and cluster. The API checks the types it is given. */
export function runOptions(flags: Flags): Omit<RunOptions, 'trace' | 'cluster'> {
  const { rate, arrivals, policy, beta, order, placement, binding } = flags
  const { mode, chunkTokens, decodeShare, knowledge, feedback, sloScale, workers, seed } = flags
  const options: Partial<Record<keyof RunOptions, unknown>> = {
    rate,
    arrivals,
    policy,
    beta,
    order,
    placement,
    binding,
    mode,
    chunkTokens,
    decodeShare,
    knowledge,
    feedback,
    sloScale,
    workers,
    seed,
  }
  return options as Omit<RunOptions, 'trace' | 'cluster'>
}
