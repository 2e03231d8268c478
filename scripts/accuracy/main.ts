// Writes docs/accuracy.md from the public measurements beside the repository: `npm run accuracy`.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { ErrorSummary } from '../../lib/model/calibration-file.ts'
import { native } from '../../lib/native.ts'
import { firstTokens, hexgenTokens, vidurGemms } from './checks.ts'
import { available, type Documented, readDocumented } from './data.ts'
import { builtInErrors, documentedName, heldOut, kernelRows } from './kernels.ts'
import { errorsUnder, globalRows, leaveOneOut, refit, servingRows } from './serving.ts'

const DRAWS = 10

if (!available()) {
  console.error('The measurements (../shared/reference/calibration) are absent.')
  process.exit(2)
}

const path = fileURLToPath(new URL('../../docs/accuracy.md', import.meta.url))
writeFileSync(path, await page())
console.log(`${path} written`)

async function page(): Promise<string> {
  const documented = readDocumented()
  return `# Accuracy of the latency model

Written by \`npm run accuracy\` from public measurements (NVIDIA aiconfigurator's kernel and serving tables, Apache-2.0;
vidur's profiles, MIT; HexGen-Flow's published constants). Calibration \`${native.hardware.calibration}\`. Errors are relative:
mean = mean absolute, bias = mean signed (below zero: the model is too fast).

${serving()}
${await wrong()}
${kernels(documented)}
${await elsewhere()}`
}

function serving(): string {
  const rows = servingRows()
  const which = globalRows(rows)
  const none = errorsUnder(native.hardware.stacks.none!, rows, which)
  const standard = errorsUnder(native.hardware.stacks.default!, rows, which)
  const stack = refit(rows, which)
  const refitted = errorsUnder(stack, rows, which)
  const everything = rows.engine.map((_, row) => row)
  const left = (['model', 'gpu', 'engine'] as const).flatMap((key) =>
    [...leaveOneOut(rows, which, key)].map(([value, errors]) =>
      line(`${key} ${value} left out of the fit`, errors),
    ),
  )
  return `## Time per output token: ${which.length} serving measurements

H100 and H200; vLLM, TensorRT-LLM, SGLang; Llama-3.1-8B and 70B, Qwen3-32B, Qwen3-235B-A22B; TP 1–8; concurrency 2–512.
Kernels were fitted on their own measurements; only the three numbers of the serving stack are fitted to these rows.

${header('what')}
${line('sum of the kernels, no stack', none)}
${line('default stack', standard)}
${line(`the same, fitted again (scale ${stack.scale.toFixed(4)}, ${stack.fixedMs.toFixed(3)} ms + ${stack.perSequenceMs.toFixed(4)} ms per sequence)`, refitted)}
${left.join('\n')}
${line('default stack, with the rows left out above', errorsUnder(native.hardware.stacks.default!, rows, everything))}

Left out: 21 rows (vLLM, Llama-3.1-8B) that show no prefill interference, consistent with prefix-cache hits on repeated
inputs, and 38 rows (vLLM, Qwen3-235B-A22B) of a build with a slow mixture path.
`
}

async function wrong(): Promise<string> {
  const first = [...(await firstTokens())].map(([engine, errors]) =>
    line(`${engine}, concurrency up to 8`, errors),
  )
  return `## Where the model is wrong

| what | how wrong |
| --- | --- |
| time to first token | not claimed: see below; the published fit of it had 26–44 % held out |
| mixture of experts on A100 | held-out kernels 24 % too fast in the published draw; expect 20–25 % |
| A100, L40S and every transferred GPU, end to end | no serving rows of a modern engine: the stack is that of H100 and H200 |
| large GEMMs (512 tokens and more) | too fast against vidur's profiles of 2023: see below |
| prefill on top of a cached prefix | physics, not fitted: no measured row has one |
| A100-40, L40, A40, A6000 | kernel efficiencies of another GPU |
| all-reduce without NVLink | a bus of 12 GB/s is assumed |
| not modelled | expert parallelism across nodes, pipeline parallelism, speculative decoding, jitter, throttling |

The prefill alone (default stack, chunks of 8,192) against measured times to first token. What is missing is the benchmark's
burst at the start, queueing and the API:

${header('engine')}
${first.join('\n')}
`
}

function kernels(documented: Documented): string {
  const misses: string[] = []
  const lines = kernelRows().map((rows) => {
    const published = documented.kernels[documentedName(rows.gpu)]![rows.documented]!
    const draws = Array.from({ length: DRAWS }, (_, seed) => heldOut(rows, seed + 1))
    const mean = draws.reduce((total, { mape }) => total + mape, 0) / DRAWS
    const bias = draws.reduce((total, draw) => total + draw.bias, 0) / DRAWS
    const all = builtInErrors(rows)
    const above = mean - published.mape_test
    if (above > 1) misses.push(`${rows.gpu} ${rows.documented} (by ${above.toFixed(1)})`)
    const cells = [
      `${rows.gpu} ${rows.documented}`,
      String(rows.measured.length),
      percent(all.mape),
      percent(published.mape_test),
      percent(mean),
      signed(bias),
    ]
    return `| ${cells.join(' | ')} |`
  })
  return `## Kernels

Held out: 30 % of the groups of shapes, never seen by the fit. "Published" is the one draw that came with the constants;
"refitted" the mean of ${DRAWS} seeded draws here, fitted by this package from the published starting points. Which groups are held
out moves the error by several points. More than one point above the published draw: ${misses.join(', ')}.

| kernel | rows | built-in constants, all rows | held out, published | held out, refitted | bias |
| --- | ---: | ---: | ---: | ---: | ---: |
${lines.join('\n')}
`
}

async function elsewhere(): Promise<string> {
  const gemms = [...vidurGemms()].flatMap(([gpu, { all, large }]) => [
    line(`vidur GEMMs, ${gpu}${gpu === 'a40' ? ' (efficiencies of L40S)' : ''}`, all),
    line(`  with at least 512 tokens`, large),
  ])
  const tokens = (await hexgenTokens()).map(({ gpu, id, measured, estimated }) => {
    const error = signed(100 * (estimated / measured - 1))
    return `| ${gpu} | ${id} × 4 | ${measured.toFixed(1)} | ${estimated.toFixed(1)} | ${error} |`
  })
  return `## Measurements that nothing was fitted to

${header('what')}
${gemms.join('\n')}

HexGen-Flow's published time per token of Llama-3.1-70B (its GPUs and parallelism are not stated: the nearest is shown, batch 1,
2,000 tokens of context, no stack):

| GPU | taken as | published ms | estimated ms | error |
| --- | --- | ---: | ---: | ---: |
${tokens.join('\n')}
`
}

function header(what: string): string {
  return `| ${what} | rows | mean | median | bias |\n| --- | ---: | ---: | ---: | ---: |`
}

function line(what: string, { rows, mape, median, bias }: ErrorSummary): string {
  return `| ${what} | ${rows} | ${percent(mape)} | ${percent(median)} | ${signed(bias)} |`
}

function percent(value: number): string {
  return `${value.toFixed(2)} %`
}

function signed(value: number): string {
  return `${value > 0 ? '+' : value < 0 ? '−' : ''}${Math.abs(value).toFixed(1)} %`
}
