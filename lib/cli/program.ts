import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import type { CalibrateFlags } from './calibrate.ts'
import type { CapacityFlags } from './capacity.ts'
import type { CompareFlags } from './compare.ts'
import { addCompareFlags, addGridFlags, REFERENCE_HELP } from './compare-options.ts'
import type { Context } from './context.ts'
import type { EstimateFlags } from './estimate.ts'
import { addRunFlags, addSetupFlags } from './options.ts'
import type { ReplayFlags } from './replay.ts'
import type { ReportFlags } from './report.ts'
import type { SimulateFlags } from './simulate.ts'
import type { StudyFlags } from './study.ts'
import { addTraceFlags, numeric, TRACE_HELP, type TraceFlags } from './trace.ts'
import type { TraceEventsFlags } from './trace-events.ts'
import type { TuneFlags } from './tune.ts'
import type { WorkerFlags } from './worker.ts'

const REPORT_HELP = 'also write an HTML page with figures (see `laxity report`)'

/** The command line. Commands load what they need when they run, so that help is immediate. */
export function createProgram(context: Context): Command {
  const program = new Command('laxity')
    .description('Schedules whole agentic workflows on LLM clusters: simulate a policy, tune its dispatch.')
    .version(version())
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
    .addHelpText(
      'after',
      examples([
        'demo',
        'tune trace.json --cluster hexgen-hetero-1 --rate 0.5',
        'simulate chess:3 --policy vllm --mix',
        'compare --workload mixed --load 0.9 --policy hexagent --policy workflow-fcfs/least-loaded',
      ]),
    )

  addRunFlags(
    program
      .command('tune')
      .description('Find the best dispatch weight alpha for a trace.')
      .argument('[trace]', TRACE_HELP),
  )
    .option('--alpha <grid>', 'from:to:step, or a list (default: 0:1:0.1)')
    .option('--replications <n>', 'streams of arrivals per alpha (default: 16)', numeric)
    .option(
      '--bound',
      'also what no scheduler can be below, and how far each alpha is from it (docs/bounds.md)',
    )
    .option('--objective <name>', 'p95, p99, mean, sloScale95 or attainment@SCALE (default: p95)')
    .option('--search <kind>', 'grid, or halving: more replications for the better half (default: grid)')
    .option('--report <file>', REPORT_HELP)
    .addHelpText(
      'after',
      examples([
        'tune trace.json',
        'tune trace.jsonl.gz --cluster my-cluster.json --arrivals trace',
        'tune chess:3 --rate 1 --alpha 0:0.5:0.05 --objective attainment@5 --json',
        'tune chess:3 --search halving --arrivals bursts --burst-size 20 --burst-gap-ms 60',
        'tune mac-sql --rate 5 --arrivals gamma --cv 2',
        'tune --workload mixed --workflows 300 --rate 2',
        'tune chess:3 --rate 1 --report report.html',
      ]),
    )
    .action(async (trace: string | undefined, flags: TuneFlags) => {
      const { tune } = await import('./tune.ts')
      await tune(trace, flags, context)
    })

  addRunFlags(
    program
      .command('simulate')
      .description('Simulate one policy on a trace.')
      .argument('[trace]', TRACE_HELP),
  )
    .option('--alpha <n>', 'dispatch weight from 0 to 1 (default: 0.3)', numeric)
    .option('--per-workflow', 'a row for every workflow')
    .option('--mix', 'which stages each instance served')
    .option('--time-plans', 'measure the thread CPU time of plans')
    .option('--per-call', 'with --json: what happened to every call, for `laxity report`')
    .option('--report <file>', REPORT_HELP)
    .option('--log <file>', 'write the event log, for `laxity replay`')
    .option('--auto-tune', 'tune alpha while the run goes on, in virtual time')
    .option('--tune-parameter <name>', 'tune this parameter instead, e.g. gamma')
    .option('--tune-values <grid>', 'its candidates: from:to:step, or a list (for alpha: 0:1:0.1)')
    .addHelpText(
      'after',
      examples([
        'simulate trace.json --alpha 0.2',
        'simulate chess:3 --policy vllm --rate 1 --mix',
        'simulate trace.jsonl --prefix-cache 200000 --error length=mean-absolute:0.2,time=gpu:0.1',
        'simulate chess:1:20 --log run.jsonl --per-workflow --json',
        'simulate chess:3 --tenants relaxed=2,strict=1',
        'simulate chess:3 --policy laxity --json --per-call > result.json',
        'simulate conversation_trace.jsonl.gz --format mooncake-chains',
        'simulate chess:1:2000 --rate 0.6 --rate-step 1000000:600000:1.8 --auto-tune',
        'simulate agents:50 --context full --prefix-cache 500000',
      ]),
    )
    .action(async (trace: string | undefined, flags: SimulateFlags) => {
      const { simulateCommand } = await import('./simulate.ts')
      await simulateCommand(trace, flags, context)
    })

  addTraceFlags(
    program
      .command('convert')
      .description('Write a trace as laxity JSONL (gzipped where the name ends in .gz).')
      .argument('<in>', TRACE_HELP)
      .argument('<out>', 'file, or - for standard output'),
  )
    .addHelpText(
      'after',
      examples([
        'convert trace.json trace.jsonl.gz',
        'convert chess:2:1000 -',
        'convert bfcl:50 tools.jsonl --context full',
        'convert AzureLLMInferenceTrace_code.csv azure.jsonl.gz',
        'convert conversation_trace.jsonl chains.jsonl --format mooncake-chains',
      ]),
    )
    .action(async (input: string, output: string, flags: TraceFlags) => {
      const { convert } = await import('./convert.ts')
      await convert(input, output, flags, context)
    })

  program
    .command('replay')
    .description('Feed a log to the scheduler again and compare every decision.')
    .argument('<log>', 'written by `laxity simulate --log` or by a live scheduler')
    .option(
      '--policy <name>',
      'of a live log: its workflows under another policy (a preset, or edf/eftxp), simulated',
    )
    .option('--json', 'one JSON document on standard output')
    .addHelpText(
      'after',
      examples(['replay run.jsonl', 'replay run.jsonl --json', 'replay live.jsonl --policy hexgen-flow']),
    )
    .action(async (log: string, flags: ReplayFlags) => {
      const { replay } = await import('./replay.ts')
      await replay(log, flags, context)
    })

  program
    .command('report')
    .description('Write one HTML page with figures of results: it needs no network.')
    .argument('<result...>', 'files that `tune`, `simulate --per-call` or `compare` wrote with --json')
    .option('-o, --output <file>', 'the page (default: beside the first result, as .html)')
    .addHelpText(
      'after',
      examples([
        'report result.json -o report.html',
        'report tune.json fcfs.json laxity.json -o report.html   # runs in one figure',
      ]),
    )
    .action(async (results: string[], flags: ReportFlags) => {
      const { reportCommand } = await import('./report.ts')
      await reportCommand(results, flags, context)
    })

  program
    .command('trace-events')
    .description('Write the calls of a run as trace events, for Perfetto or chrome://tracing.')
    .argument('<result>', 'a file that `simulate --json --per-call` wrote')
    .option('-o, --output <file>', 'the events (default: beside the result, as .trace.json)')
    .addHelpText('after', examples(['trace-events result.json -o trace.json']))
    .action(async (result: string, flags: TraceEventsFlags) => {
      const { traceEventsCommand } = await import('./trace-events.ts')
      await traceEventsCommand(result, flags, context)
    })

  program
    .command('demo')
    .description('The sweep on a built-in CHESS-like workload: a table, the curve, the best alpha, a report.')
    .option('--report <file>', REPORT_HELP, 'laxity-demo.html')
    .addHelpText('after', examples(['demo']))
    .action(async ({ report }: { report: string }) => {
      const { tune } = await import('./tune.ts')
      await tune('chess:3:110', { cluster: 'hexgen-hetero-2', rate: 0.5, report }, context)
    })

  const comparison = program
    .command('compare')
    .description('Compare policies on the same workflows and arrivals: tails, intervals, utilisation.')
  addCompareFlags(comparison, numeric)
    .option('--report <file>', REPORT_HELP)
    .addHelpText(
      'after',
      examples([
        'compare --workload mixed --load 0.9 --policy hexagent --policy workflow-fcfs/least-loaded',
        'compare --workload chess:1 --cluster hexgen-hetero-2 --load 0.6 --load 0.9 --seeds 10',
        'compare --workload bfcl --workload lats --context new,full --paper --json',
        'compare --workload trace.jsonl --cluster hexagent-h200 --model qwen3-235b-a22b --links contended --links free --csv',
        'compare --workload chess:2 --feedback boundary,lease --json',
      ]),
    )
    .action(async (flags: CompareFlags) => {
      const { compareCommand } = await import('./compare.ts')
      await compareCommand(flags, context)
    })

  const bound = program
    .command('bound')
    .description('What no scheduler can be below on a finite run, and how far policies are from it.')
  addGridFlags(bound, numeric)
    .option('--reference <kind>', REFERENCE_HELP)
    .addHelpText(
      'after',
      examples([
        'bound --workload mixed --load 0.9 --workflows 200',
        'bound --workload chess:1 --cluster hexgen-hetero-2 --workflows 200 --reference search:500',
        'bound --workload bfcl --cluster hexagent-h200 --policy hexagent --load 0.8,1 --json',
      ]),
    )
    .action(async (flags: CompareFlags) => {
      const { boundCommand } = await import('./bound.ts')
      await boundCommand(flags, context)
    })

  addSetupFlags(
    program
      .command('estimate')
      .description('What prefill, decode and KV transfer cost for a model on a GPU.'),
  )
    .option('--utilisation <n>', 'share of the memory that the engine may use (default: 0.9)', numeric)
    .option('--to <gpu>', 'where KV is sent (default: the same hardware)')
    .option('--to-tp <n>', 'tensor parallelism there', numeric)
    .option('--against <rows>', 'CSV of measured rows: print the errors')
    .addHelpText(
      'after',
      examples([
        'estimate --model llama-3.1-70b --gpu h100 --tp 4',
        'estimate --model path/to/config.json --gpu a100-80 --tp 8 --json',
        'estimate --model qwen3-32b --gpu h100 --precision fp8 --against rows.csv',
      ]),
    )
    .action(async (flags: EstimateFlags) => {
      const { estimate, requireFlags } = await import('./estimate.ts')
      requireFlags(flags)
      await estimate(flags, context)
    })

  addSetupFlags(
    program
      .command('calibrate')
      .description('Fit the serving stack (scale, fixed, per sequence) to your own measured rows.')
      .argument('<rows>', 'CSV: batch,context,newTokens,ms or concurrency,inputTokens,outputTokens,tpotMs'),
  )
    .option('--output <file>', 'the calibration (default: beside the rows, as .calibration.json)')
    .option('--name <name>', 'its name (default: that of the rows)')
    .addHelpText(
      'after',
      examples([
        'calibrate rows.csv --model llama-3.1-70b --gpu h100 --tp 4',
        'calibrate rows.csv --output mine.json --json   # model, gpu and tp as columns',
      ]),
    )
    .action(async (rows: string, flags: CalibrateFlags) => {
      const { calibrateCommand } = await import('./calibrate.ts')
      await calibrateCommand(rows, flags, context)
    })

  program
    .command('study')
    .description('Run a grid of simulations: clusters × workloads × rates × policies × parameters × seeds.')
    .argument('<study>', 'YAML or JSON (schemas/study.schema.json, docs/study.md)')
    .option('--out <folder>', 'results and tables (default: beside the study, as .results)')
    .option('--redis <url>', 'workers on other machines run it: see `laxity worker`')
    .option('--workers <n>', 'threads of a local run (default: cores − 1)', numeric)
    .option('--parquet', 'write runs.parquet beside runs.csv')
    .option('--yes', 'run large studies without being asked')
    .option('--report <file>', REPORT_HELP)
    .option('--json', 'one JSON document on standard output')
    .addHelpText(
      'after',
      examples([
        'study study.yaml',
        'study study.yaml --report report.html',
        'study study.yaml --parquet --redis redis://:password@queue:6379',
      ]),
    )
    .action(async (study: string, flags: StudyFlags) => {
      const { studyCommand } = await import('./study.ts')
      await studyCommand(study, flags, context)
    })

  program
    .command('worker')
    .description('Serve studies on a Redis: start any number, on any machine, at any time.')
    .option('--redis <url>', 'redis://[user:password@]host[:port][/database], or rediss:// for TLS')
    .option('--concurrency <n>', 'chunks at a time, each on a thread (default: 1)', numeric)
    .option('--lock-ms <n>', 'how long a chunk stays that of a silent worker (default: 30000)', numeric)
    .option('--quiet', 'say nothing of single chunks')
    .addHelpText('after', examples(['worker --redis redis://queue:6379 --concurrency 4']))
    .action(async (flags: WorkerFlags) => {
      const { workerCommand } = await import('./worker.ts')
      await workerCommand(flags, context)
    })

  const capacity = program
    .command('capacity')
    .description('What to buy, how much it carries, how to split it: questions that small studies answer.')
  const question = (name: string, text: string) =>
    addRunFlags(capacity.command(name).description(text).argument('<trace>', TRACE_HELP))
      .option('--alpha <n>', 'dispatch weight from 0 to 1 (default: 0.3)', numeric)
      .option('--seeds <n>', 'streams of arrivals, common to all alternatives (default: 8)', numeric)
      .option('--repeat <n>', 'the trace n times over, so that a run is long enough (default: 1)', numeric)
      .option('--redis <url>', 'workers on other machines run it: see `laxity worker`')
  const demand = (command: Command) =>
    command.option(
      '--attainment <share>',
      'share of workflows in time that is asked for (default: 0.95)',
      numeric,
    )

  demand(question('cheapest', 'The cheapest cluster of a price list that meets an attainment at a rate.'))
    .option('--prices <file>', 'YAML or JSON (schemas/prices.schema.json)')
    .addHelpText(
      'after',
      examples(['capacity cheapest chess:3 --prices prices.yaml --rate 0.5 --slo-scale 3']),
    )
    .action(async (trace: string, flags: CapacityFlags) => {
      const { cheapestCommand } = await import('./capacity.ts')
      await cheapestCommand(trace, flags, context)
    })

  demand(question('max-rate', 'The highest rate at which a cluster meets an attainment.'))
    .option('--from <rate>', 'lowest rate searched (default: 0.01)', numeric)
    .option('--to <rate>', 'highest rate searched (default: 1000)', numeric)
    .option('--tolerance <share>', 'how close the answer is bracketed (default: 0.01)', numeric)
    .addHelpText(
      'after',
      examples(['capacity max-rate chess:3 --cluster hexgen-hetero-1 --policy laxity --attainment 0.9']),
    )
    .action(async (trace: string, flags: CapacityFlags) => {
      const { maxRateCommand } = await import('./capacity.ts')
      await maxRateCommand(trace, flags, context)
    })

  question('split', 'The best prefill:decode split of n instances.')
    .option('--instances <n>', 'instances in all; --cluster says of which kind', numeric)
    .addHelpText('after', examples(['capacity split trace.jsonl --cluster pair.json --instances 8 --rate 2']))
    .action(async (trace: string, flags: CapacityFlags) => {
      const { splitCommand } = await import('./capacity.ts')
      await splitCommand(trace, flags, context)
    })

  return program
}

function examples(lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ laxity ${line}`).join('\n')}`
}

function version(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}
