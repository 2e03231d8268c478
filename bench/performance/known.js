// Numbers that were known before: of the papers, of other simulators, of throw-away prototypes of this core; ours of the same run
// beside them. Met: a cost at most the upper end of what was known, by the worst row; a gain at least the larger end.
import { fromQuality } from './quality.js'
import { number } from './text.js'

const us = (value) => `${number(value)} µs`

/** Rows of a suite by a pattern, largest and smallest value. */
function rangeOf(document, suite, pattern) {
  const rows = document.suites.find((each) => each.suite === suite)?.rows ?? []
  const values = rows.filter(({ name }) => name !== undefined && pattern.test(name)).map(({ value }) => value)
  if (values.length === 0) return undefined
  return { low: Math.min(...values), high: Math.max(...values) }
}

const between = ({ low, high }, unit) =>
  low === high ? `${number(high)} ${unit}` : `${number(low)}–${number(high)} ${unit}`

/** A row whose figure is a cost, met up to `limit`. */
function cost(document, what, known, suite, pattern, unit, limit, why) {
  const range = rangeOf(document, suite, pattern)
  if (range === undefined) return { what, known, ours: 'not measured', met: undefined }
  return { what, known, ours: between(range, unit), met: range.high <= limit, why }
}

/** What is measured too, and is not what the number known before was of. */
function beside(rows, range, unit, where) {
  if (range !== undefined) rows.at(-1).ours += ` (${between(range, unit)} ${where})`
}

export function knownRows(document) {
  const rows = []
  const add = (...args) => rows.push(cost(document, ...args))
  const sweep = /^11 alphas x 1 replications/
  add(
    'α sweep of HexGen-Flow (11 values, about 20 calls × 90–110 workflows)',
    '115–158 s (paper); 315–432 s of CPU (its public simulator, Python, another machine)',
    'sweep',
    sweep,
    'ms',
    115_000,
  )
  add('the same sweep, leaping, one thread', '3–5 ms (prototype)', 'sweep', sweep, 'ms', 5, 'sweep')
  add(
    'a plan of HexAGenT (ours: exact greedy, 128 ready calls, 2x2 to 64x64, light and tight KV)',
    '7.1–14.7 ms, worst mean 23.7 ms (paper, Python)',
    'planner',
    /^greedy N=128 .*(light|tight)$/,
    'µs',
    7100,
  )
  for (const [regime, name, vector, scalar] of [
    ['light', 'free KV', [25, 75], [170, 370]],
    ['tight', 'saturated KV', [120, 250], [390, 500]],
  ]) {
    for (const [what, [low, high], suffix] of [
      [`exact greedy, 128 ready calls, up to 64x64, ${name}, vectors`, vector, ''],
      ['the same without vectors', scalar, ' scalar'],
    ]) {
      const row = (sizes) => new RegExp(`^greedy N=128 ${sizes} ${regime}${suffix}$`)
      // Of 2x2 instances 60 % of the KV is free, and the calls need more: nothing that "free" was said of.
      const sizes = regime === 'light' ? '(?!2x2 )\\S+' : '\\S+'
      add(what, `${low}–${us(high)} (prototype)`, 'planner', row(sizes), 'µs', high, 'greedy')
      if (regime === 'light')
        beside(rows, rangeOf(document, 'planner', row('2x2')), 'µs', 'at 2x2, where it runs out')
    }
  }
  add(
    'one pass, 512 ready calls, up to 64x64',
    '100–250 µs (prototype)',
    'planner',
    /^onepass N=512/,
    'µs',
    250,
    'onepass',
  )
  for (const [instances, ns] of [
    [4, 20],
    [64, 42],
    [1024, 75],
  ]) {
    add(
      `choice among ${instances} unified instances, a tournament tree per type`,
      `${ns} ns (prototype)`,
      'dispatch',
      new RegExp(`^choice .* ${instances} instances$`),
      'ns',
      ns,
      'choice',
    )
    const both = new RegExp(`leaves a queue, ${instances} instances$`)
    beside(rows, rangeOf(document, 'dispatch', both), 'ns', 'where another call leaves a queue')
  }
  const perCall = rangeOf(document, 'scaling', /^a run of/)
  rows.push({
    what: 'a simulated call',
    known: '1.1–4.9 ms of CPU per request (splitwise-sim, DistServe’s simulator, another machine)',
    ours: perCall ? between(perCall, 'ns') : 'not measured',
    met: perCall && perCall.high <= 1.1e6,
  })
  return [...rows, ...fromQuality()]
}
