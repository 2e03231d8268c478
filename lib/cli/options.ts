import { type Command, Option } from 'commander'
import { loadAddon } from '../load-addon.ts'
import type { RunOptions } from '../simulator/options.ts'
import { PAIR_NAMES } from '../simulator/read-pairs.ts'
import { addTraceFlags, addWorkloadFlag, numeric, type TraceFlags } from './trace.ts'

const DEFAULT_CLUSTER = 'hexgen-hetero-2'

/** What commander hands over: text, not yet checked. */
export interface Flags extends TraceFlags {
  cluster: string
  policy?: string
  rate?: unknown
  arrivals?: string
  alpha?: unknown
  beta?: unknown
  order?: string
  placement?: string
  binding?: string
  placementSeed?: unknown
  parameter?: Record<string, unknown>
  migrate?: boolean
  mode?: string
  chunkTokens?: unknown
  decodeShare?: unknown
  knowledge?: string
  template?: string
  feedback?: string
  sloScale?: unknown
  workers?: unknown
  seed?: unknown
  json?: boolean
  cv?: unknown
  burstSize?: unknown
  burstGapMs?: unknown
  rateStep?: string
  tenants?: string
  tenantSplit?: string
  prefixCache?: unknown
  error?: string
  latency?: string
  model?: string
  gpu?: string
  tp?: unknown
  sloBase?: string
  deadlines?: string
  reserve?: string
  staging?: string
  decodeAdmission?: string
  links?: string
  backfill?: boolean
  lateDecode?: boolean
  overlap?: unknown
  planning?: string
  planLatencyMs?: unknown
  remaining?: unknown
}

/** The flags that tune and simulate share. Values are checked by the API, all at once. */
export function addRunFlags(command: Command): Command {
  return addTraceFlags(addWorkloadFlag(command))
    .option(
      '--cluster <name|file>',
      'cluster preset or JSON file (schemas/cluster.schema.json)',
      DEFAULT_CLUSTER,
    )
    .option('--rate <n>', 'workflows per second (default: 0.5)', numeric)
    .option(
      '--arrivals <kind>',
      'poisson, gamma, bursts, fixed or trace (default: trace where it has them, else poisson)',
    )
    .option(
      '--policy <name>',
      'preset of order, placement and binding: vllm, hexgen-flow, laxity; prefill-decode: hexagent, laxity',
    )
    .option('--order <name>', 'queue order (default: urgency)')
    .option('--placement <name>', 'placement (default: workload-balanced)')
    .option('--binding <kind>', 'at-reveal or at-credit (default: what the placement needs)')
    .option(
      '--beta <n>',
      'scale of the queue term, s² (default: the template’s mean stage time squared, else that of the calls so far)',
      numeric,
    )
    .option(
      '--parameter <name=value>',
      'further parameter of order or placement, e.g. gamma=0.3 or ageingMs=60000; repeatable',
      parameter,
    )
    .option('--placement-seed <n>', 'seed of placements that draw (default: 1)', numeric)
    .option('--migrate', 'waiting calls may move to an instance that would finish them much sooner')
    .option('--no-migrate', 'they may not, whatever the preset says')
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
    .option('--template <kind>', 'what the stage template expects: mean or pessimistic (default: mean)')
    .option('--feedback <kind>', 'boundary or lease (default: boundary)')
    .option(
      '--prefix-cache <tokens>',
      'prefix cache of every instance, 0 = none (default: what the cluster says)',
      numeric,
    )
    .option(
      '--error <parts>',
      'prediction errors: length=lognormal:S|mean-absolute:M|uniform:X|bias:X|heavy-tail, correlation=R, time=gpu:S, batch=F; with commas between',
    )
    .option('--slo-scale <n>', 'deadline = arrival + scale × base (default: 5)', numeric)
    .option(
      '--slo-base <kind>',
      'template, exclusive or horizon (default: horizon on prefill-decode clusters, else template or exclusive)',
    )
    .option(
      '--deadlines <kind>',
      'what the scheduler is told of: slo or none (default: none where the base is the final horizon, else slo)',
    )
    .option('--workers <n>', 'threads; 0 = none (default: none for small jobs, else cores − 1)', numeric)
    .option('--seed <n>', 'seed of the arrivals (default: 1)', numeric)
    .option('--latency <kind>', 'constants or calibrated (default: the cluster’s own)')
    .option('--model <id>', 'model of every instance with a GPU, calibrated (see `laxity estimate`)')
    .option('--gpu <id>', 'GPU of every such instance, calibrated')
    .option('--tp <n>', 'tensor parallelism of every such instance, calibrated', numeric)
    .option(
      '--reserve <when>',
      'prefill-decode: room for decode at the lease or later: early, late (default: early)',
    )
    .option(
      '--staging <kind>',
      'prefill-decode: where KV waits for that room: none, unlimited (default: none)',
    )
    .option(
      '--decode-admission <who>',
      'prefill-decode: who gives it: scheduler, engine (default: scheduler)',
    )
    .option('--links <kind>', 'prefill-decode: contended or free (default: contended)')
    .option('--backfill', 'prefill-decode: calls behind one without room may go first')
    .option('--late-decode', 'prefill-decode: choose the decode instance again at the first token')
    .option(
      '--overlap <share>',
      'prefill-decode: KV moved when the prefill ends, 0 to 1 (default: 0)',
      numeric,
    )
    .option(
      '--planning <kind>',
      'prefill-decode, policies that plan: sync, async or async-paper (default: sync)',
    )
    .option('--plan-latency-ms <n>', 'with async: from the decide that makes a plan to its arrival', numeric)
    .option(
      '--remaining <kind>',
      'what is told of the time after a call: exact, sigma of an estimate, or predictor:sigma',
      numeric,
    )
    .addOption(new Option('--json', 'one JSON document on standard output'))
    .option('--cv <n>', 'with --arrivals gamma: coefficient of variation of the gaps (default: 2)', numeric)
    .option('--burst-size <n>', 'with --arrivals bursts: mean workflows per burst (default: 20)', numeric)
    .option('--burst-gap-ms <n>', 'with --arrivals bursts: gap inside a burst (default: 60)', numeric)
    .option('--rate-step <from:length:factor>', 'from ms on and for ms, factor times the rate')
    .option('--tenants <list>', 'name=scale@share,…: tenants, their SLO scales and parts of the workflows')
    .option(
      '--tenant-split <how>',
      'blocks, interleaved or trace (default: trace where it names several, else blocks)',
    )
    .addHelpText('after', registeredNames)
}

/** Orders and placements, asked of the core when help is shown; nothing where it does not load. */
export function registeredNames(): string {
  try {
    const { orders, placements, pairPlacements } = loadAddon()
    return `\nOrders: ${orders.join(', ')}\nPlacements: ${placements.join(', ')}\nOn prefill-decode clusters: ${pairPlacements.join(', ')}`
  } catch {
    return ''
  }
}

/** Flags that are options of the API under the same name. */
const SHARED = [
  'rate',
  'arrivals',
  'cv',
  'burstSize',
  'burstGapMs',
  'rateStep',
  'tenants',
  'tenantSplit',
  'policy',
  'order',
  'placement',
  'binding',
  'beta',
  'placementSeed',
  'migrate',
  'mode',
  'chunkTokens',
  'decodeShare',
  'prefixCache',
  'latency',
  'model',
  'gpu',
  'tp',
  'knowledge',
  'template',
  'feedback',
  'error',
  'sloScale',
  'sloBase',
  'deadlines',
  'workers',
  'seed',
  ...PAIR_NAMES,
  'planning',
  'planLatencyMs',
  'remaining',
] as const satisfies readonly (keyof RunOptions & keyof Flags)[]

/** The shared flags as options of the API, without trace and cluster. The API checks the types it is given. */
export function runOptions(flags: Flags): Omit<RunOptions, 'trace' | 'cluster'> {
  const options = Object.fromEntries(SHARED.map((name) => [name, flags[name]]))
  if (flags.parameter !== undefined) options.parameters = flags.parameter
  return options as Omit<RunOptions, 'trace' | 'cluster'>
}

/** Collects `name=value`; a value that is no number stays text for the message about it. */
export function parameter(text: string, before: Record<string, unknown> = {}): Record<string, unknown> {
  const [name = '', value = ''] = text.split(/=(.*)/s)
  return { ...before, [name]: numeric(value) }
}

/** The flags that estimate and calibrate share: which model on which hardware. */
export function addSetupFlags(command: Command): Command {
  return command
    .option('--model <id|file>', 'llama-3.1-70b, qwen3-235b-a22b, …, or a Hugging Face config.json')
    .option('--gpu <id>', 'a100-40, a100-80, h100, h200, l40, l40s, a40, a6000, or one of --hardware')
    .option('--tp <n>', 'tensor parallelism: 1, 2, 4 or 8 (default: 1)', numeric)
    .option('--precision <kind>', 'of the weights: bf16 or fp8 (default: bf16)')
    .option('--kv-precision <kind>', 'of the KV cache: bf16 or fp8 (default: bf16)')
    .option(
      '--calibration <name|file>',
      'serving stack: default, vllm, trtllm, sglang, none, or a file from calibrate',
    )
    .option('--hardware <file>', 'your own GPUs and models (schemas/hardware.schema.json)')
    .addOption(new Option('--json', 'one JSON document on standard output'))
}
