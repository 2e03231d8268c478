import type { Command } from 'commander'
import { parameter, registeredNames } from './options.ts'

/** The flags of compare. Those that are repeatable span a grid. */
export function addCompareFlags(command: Command, numeric: (text: string) => unknown): Command {
  return addGridFlags(command, numeric)
    .option('--bound', 'also what no scheduler can be below, and each policy’s ratio to it (docs/bounds.md)')
    .option('--csv', 'comma-separated rows on standard output')
}

/** Those that `bound` has as well. */
export function addGridFlags(command: Command, numeric: (text: string) => unknown): Command {
  const several = (flags: string, text: string) => command.option(flags, `${text}; repeatable`, collect)
  several('--workload <name|file>', 'a generated workload or a trace file')
  several('--cluster <name|file>', `preset or JSON file (default: hexagent-hetero-1)`)
  several('--model <id>', 'model of every instance with a GPU, calibrated (default: the cluster’s own)')
  several('--load <n>', 'arrivals in parts of what the cluster sustains (default: 0.9)')
  several(
    '--policy <name>',
    'preset or ORDER/PLACEMENT[/BINDING]; the first is the one compared with (default: hexagent and workflow-fcfs × least-loaded; on unified clusters laxity, hexgen-flow and vllm)',
  )
  several('--knowledge <kind>', 'online, template, declared or oracle (default: online)')
  several('--feedback <kind>', 'boundary or lease (default: boundary)')
  several('--links <kind>', 'contended or free (default: contended)')
  several('--reserve <when>', 'room for decode at the lease or later: early, late (default: early)')
  several('--decode-admission <who>', 'who gives it: scheduler, engine (default: scheduler)')
  several('--staging <kind>', 'where KV waits for that room: none, unlimited (default: none)')
  several('--planning <kind>', 'policies that plan: sync, async, async-paper (default: sync)')
  several(
    '--plan-latency-ms <n>',
    'with async: from the decide that makes a plan to its arrival (default: 0)',
  )
  several(
    '--remaining <kind>',
    'what is told of the time after a call: none, exact, sigma of an estimate, predictor:sigma (default: none)',
  )
  several('--context <preset>', 'what prompts hold: new, full (default: the workload’s own)')
  return command
    .option('--paper', 'as the HexAGenT paper simulates: links free, staging unlimited')
    .option('--workflows <n>', 'per run (default: 1000, or all of a trace)', numeric)
    .option('--seeds <n>', 'how many, each with its own workflows and arrivals (default: 3)', numeric)
    .option('--slo-base <kind>', 'what Req95 and Req99 multiply: template, exclusive, horizon')
    .option(
      '--slo-scale <n>',
      'deadlines of orders that use them: arrival + scale × base (default: 5)',
      numeric,
    )
    .option(
      '--deadlines <kind>',
      'what the scheduler is told of: slo or none (default: none where the base is the final horizon, else slo)',
    )
    .option('--error <parts>', 'prediction errors, as for simulate')
    .option('--prefix-cache <tokens>', 'prefix cache of every instance that prefills, 0 = none', numeric)
    .option('--parameter <name=value>', 'further parameter of order or placement; repeatable', parameter)
    .option('--backfill', 'calls behind one without room for decode may go first')
    .option('--late-decode', 'choose the decode instance again at the first token')
    .option('--overlap <share>', 'KV moved when the prefill ends, 0 to 1 (default: 0)', numeric)
    .option('--workers <n>', 'threads; 0 = none (default: none for small jobs, else cores − 1)', numeric)
    .option('--json', 'one JSON document on standard output')
    .addHelpText('after', registeredNames)
}

function collect(text: string, before: string[] = []): string[] {
  return [...before, text]
}
