// The page of measurements from one document (run.js).
import { readFileSync } from 'node:fs'
import { native } from '../../dist/native.js'
import { curvesOf } from './curves.js'
import { knownRows } from './known.js'
import { isRate } from './limits.js'
import { exponent, plot } from './plot.js'
import { CHARGES, REASONS, SCALING, SECTIONS, TRIED } from './sections.js'
import { machineLine, number, rangeOf } from './text.js'

const PLOTS = {
  'planner-calls': 'A plan against the number of waiting calls',
  'planner-instances': 'A plan against the number of instances',
  'dispatch-instances': 'A call through the scheduler against instances',
  'dispatch-waiting': 'A call through the scheduler against waiting calls',
  simulator: 'A simulated call against the length of the run',
}

const gate = JSON.parse(readFileSync(new URL('../gate/instructions.json', import.meta.url), 'utf8'))
/** CHESS-like workflows in the gate's simulations. */
const GATE_WORKFLOWS = 110

function table(header, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('\n')
}

/** Better than asked, worse, or nothing asked. */
const met = ({ target, value, unit }) =>
  target === undefined
    ? ''
    : `${number(target)}: ${(isRate(unit) ? value >= target : value <= target) ? 'met' : '**missed**'}`

function rowsTable(rows) {
  const some = (key) => rows.some((row) => row[key] !== undefined && row[key] !== '')
  const columns = [
    ['what', ({ name, note }) => `${name.trim()}${note ? ` (${note})` : ''}`],
    ['median', ({ value, unit }) => `${number(value)} ${unit}`],
    ['quartiles', (row) => rangeOf(row)],
    ...(some('limit')
      ? [
          ['limit', ({ limit }) => (limit === undefined ? '' : number(limit))],
          ['distance', ({ distance }) => (distance === undefined ? '' : `× ${number(distance)}`)],
        ]
      : []),
    ...(some('target') ? [['target', met]] : []),
  ]
  return table(
    columns.map(([title]) => title),
    rows.map((row) => columns.map(([, cell]) => cell(row))),
  )
}

/** Simulated calls per second: a table per policy, instances across, workflows down. */
function gridTables(rows) {
  const cells = rows.filter(({ grid }) => grid)
  const unique = (key) => [...new Set(cells.map(({ grid }) => grid[key]))]
  const tables = unique('policy').map((policy) => {
    const at = (instances, workflows) =>
      cells.find(
        ({ grid }) => grid.policy === policy && grid.instances === instances && grid.workflows === workflows,
      )
    const text = (row) =>
      row === undefined ? '–' : `${number(row.value)} (${rangeOf(row)}; × ${number(row.distance)})`
    const body = unique('workflows').map((workflows) => [
      number(workflows),
      ...unique('instances').map((instances) => text(at(instances, workflows))),
    ])
    return `\`${policy}\`, calls/s (quartiles; distance from the limit):\n\n${table(['workflows', ...unique('instances').map((n) => `${number(n)} instances`)], body)}`
  })
  const rest = rows.filter(({ grid }) => !grid)
  return [...tables, ...(rest.length > 0 ? [rowsTable(rest)] : [])].join('\n\n')
}

function scaling({ rows, seconds }, stem) {
  const curves = curvesOf(rows)
  const parts = [
    `## Scaling

\`npm run bench -- scaling\` (${number(seconds)} s). ${SCALING}`,
  ]
  for (const [name, title] of Object.entries(PLOTS)) {
    const own = curves.filter((curve) => curve.plot === name)
    if (own.length === 0) continue
    parts.push(
      `![${title}](${stem}-${name}.svg)`,
      table(
        ['series', 'from', 'to', 'k', 'k at the end', 'left out'],
        own.map(({ series, axis, unit, points, fit, tail, skipped }) => {
          const at = ({ x, y }) => `${number(x)}: ${number(y)} ${unit}`
          return [
            `${series}, by ${axis}`,
            at(points[0]),
            at(points.at(-1)),
            fit ? exponent(fit).replace(/^exponent /, '') : '',
            tail ? exponent(tail).replace(/^exponent /, '') : '',
            skipped.map(({ x, seconds }) => `${number(x)} (about ${number(seconds)} s)`).join(', '),
          ]
        }),
      ),
    )
  }
  const all = rows.filter(({ skipped }) => !skipped)
  parts.push(`Every point:\n\n${rowsTable(all)}`)
  return parts.join('\n\n')
}

export function plots(document) {
  const curves = curvesOf(document.suites.find(({ suite }) => suite === 'scaling')?.rows ?? [])
  return Object.entries(PLOTS)
    .map(([name, title]) => [name, title, curves.filter((curve) => curve.plot === name)])
    .filter(([, , own]) => own.length > 0)
    .map(([name, title, own]) => ({ name, svg: plot(title, own) }))
}

function known(document) {
  const rows = knownRows(document)
  const verdict = { true: 'met', false: '**not met**' }
  const why = [...new Set(rows.filter((row) => row.met === false && row.why).map((row) => row.why))]
  const facts = reasonFacts(document)
  return `## Numbers known before

A ratio counts only where both sides ran on one machine in one run: figures of papers and of other programs are for orientation. Those of
prototypes are medians on a shared 2-core virtual machine. Met: ours, at its worst row, is at most the upper end of what was known.

${table(
  ['what', 'known', 'here', ''],
  rows.map((row) => [row.what, row.known, row.ours, verdict[row.met] ?? '–']),
)}

${why.map((key) => REASONS[key].replace(/\{(\w+)\}/g, (_, name) => facts[name] ?? '–')).join('\n\n')}`
}

function reasonFacts(document) {
  const sweep = document.suites.find(({ suite }) => suite === 'sweep')?.rows ?? []
  const [run, speed] = sweep
  if (run === undefined) return {}
  const pathInstructions = gate.instructions['simulate-hexgen-flow']
  const pathCalls = native.chessSize({ workflows: GATE_WORKFLOWS, preset: 3, seed: 1 }).calls
  const instructions = pathInstructions / pathCalls
  const callNs = 1e9 / speed.value
  const sweepCalls = Math.round((run.value * 1e6) / callNs)
  return {
    pathInstructions: number(pathInstructions),
    pathCalls: number(pathCalls),
    instructions: number(instructions),
    callNs: number(callNs),
    perNs: number(instructions / callNs),
    sweepCalls: number(sweepCalls),
    bestMs: number((sweepCalls * instructions) / 16e6),
    limitMs: number(run.limit),
  }
}

/** `stem`: of the plots' file names. */
export function page(document, stem) {
  const { machine, suites, quick, startedAt, seconds } = document
  const part = (name) => suites.find(({ suite }) => suite === name)
  const parts = [
    `# Performance

Written by \`npm run performance -- --out docs/performance.md\` from one run of \`npm run bench\` (${startedAt.slice(0, 10)}, ${Math.ceil(seconds / 60)} min):
${machineLine(machine)}.${quick ? '\n\n**A quick run: few rounds and small sizes, on a machine that did other work. Not for comparison.**' : ''}

Each suite runs in a process of its own, from the built package; \`npm run bench -- dispatch\` runs one. Figures are medians of thread CPU
time with their quartiles, unless said.

**Limit**: what memory and the boundary alone would charge for the least that has to move; nothing is computed in it, no branch is taken.
It is derived per row from counts (loads that wait for one before them, bytes, calls into native code, events, promises:
\`bench/performance/traffic.js\`) and from what this machine charged for each in the same run (next table), memory by the size of what
the accesses range over. Nothing that does the work can reach it. **Distance**: how many times the limit the median is.`,
  ]
  const costs = part('machine')
  if (costs) parts.push(`## What the machine charges\n\n${CHARGES}\n\n${rowsTable(costs.rows)}`)
  parts.push(known(document))
  for (const [name, { title, text }] of Object.entries(SECTIONS)) {
    const suite = part(name)
    if (!suite) continue
    const body = name === 'simulator' ? gridTables(suite.rows) : rowsTable(suite.rows)
    parts.push(`## ${title}\n\n\`npm run bench -- ${name}\` (${number(suite.seconds)} s). ${text}\n\n${body}`)
  }
  const scaled = part('scaling')
  if (scaled) parts.push(scaling(scaled, stem))
  parts.push(TRIED)
  parts.push(`## Instructions of the hot paths

As recorded for \`npm run gate\` (${gate.compiler}, ${gate.vectors}; callgrind, no link-time optimisation), which fails where one takes more than 3 % more.

${table(
  ['path', 'instructions'],
  Object.entries(gate.instructions).map(([path, count]) => [path, count.toLocaleString('en-US')]),
)}`)
  return `${parts.join('\n\n')}\n`
}
