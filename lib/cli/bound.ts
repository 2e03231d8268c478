import { type CompareResult, compare } from '../compare/compare.ts'
import type { CompareOptions } from '../compare/options.ts'
import { type CompareFlags, compareFlagOptions } from './compare.ts'
import type { Context } from './context.ts'
import { progressBar } from './progress.ts'

/** What no scheduler can be below, with the runs of the policies asked for beside it. */
export async function boundCommand(flags: CompareFlags, context: Context): Promise<void> {
  const bar = progressBar()
  let result: CompareResult
  try {
    result = await compare({
      ...(compareFlagOptions(flags) as unknown as CompareOptions),
      bound: true,
      signal: context.signal,
      onProgress: bar.update,
    })
  } finally {
    bar.stop()
  }
  await context.print(flags.json ? boundJson(result) : await boundText(result))
}

/** The document of `bound --json`; numbers that are not finite become null. */
function boundJson({ rows, saturation, timing }: CompareResult): string {
  const short = rows.map((row) => ({
    policy: row.policy,
    workload: row.workload,
    context: row.context,
    cluster: row.cluster,
    model: row.model,
    load: row.load,
    ratePerS: row.ratePerS,
    knowledge: row.knowledge,
    error: row.error,
    seeds: row.seeds,
    workflows: row.workflows,
    req95: row.req95,
    req99: row.req99,
    ...row.bound,
    perSeed: row.perSeed.map(({ seed, req95, req99, evictions, bound }) => ({
      seed,
      req95,
      req99,
      evictions,
      ...bound,
    })),
  }))
  return `${JSON.stringify({ command: 'bound', rows: short, saturation, timing })}\n`
}

async function boundText(result: CompareResult): Promise<string> {
  const { boundReport } = await import('../report/bound-report.ts')
  return boundReport(result)
}
