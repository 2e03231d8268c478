// Quality is measured by other commands; the page of measurements repeats what their pages say.
import { readFileSync } from 'node:fs'

const page = (name) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8')

/** The first group of a pattern as a number; pages write a minus sign. */
function find(text, pattern) {
  const found = pattern.exec(text)
  if (found === null) throw new Error(`nothing like ${pattern} in the page`)
  return Number(found[1].replace('−', '-'))
}

const signed = (value) => `${value < 0 ? '−' : '+'}${Math.abs(value)} %`

/** Met: at least as good as the whole range; `within` it is said. */
function gain(what, known, [least, most], value, source, why) {
  const range = value <= most ? '' : value <= least ? ' (within the range)' : ''
  return { what, known, ours: `${signed(value)}${range}, [${source}](${source})`, met: value <= most, why }
}

export function fromQuality() {
  const quality = page('quality.md')
  const oracle = quality.slice(quality.indexOf('## Knowledge `oracle`'))
  const row = (policy) =>
    new RegExp(`^\\| ${policy.replaceAll('+', '\\+')} \\| ([\\d.]+) .*?\\| .*?\\| .*?\\| ([\\d.]+) `, 'm')
  const [, p95, scale] = row('eftxp + stretch').exec(oracle)
  const [, p95Moving, scaleMoving] = row('eftxp + ratio + migrate').exec(oracle)
  const hexagent = page('hexagent.md')
  return [
    {
      what: 'untuned `eftxp` + `stretch` against tuned `workload-balanced` + `urgency`, whole workflows known, 60 random scenarios',
      known: 'P95 × 0.81, SLO scale × 0.75 (prototype)',
      ours: `P95 × ${p95}, SLO scale × ${scale}; with \`ratio\` and migration × ${p95Moving}, × ${scaleMoving}; [quality.md](quality.md)`,
      met: Number(p95) <= 0.81 && Number(scale) <= 0.75,
      why: 'untuned',
    },
    gain(
      '`hexagent` against workflow-FCFS, Req95 (known at load 0.8–1.0, ours at 0.9)',
      '−27…−38 % (prototype)',
      [-27, -38],
      find(hexagent, /load 0\.9, four workloads[\s\S]*?: (−[\d.]+) % \(geometric/),
      'hexagent.md',
      'hexagent',
    ),
    gain(
      'the same, Req99',
      '−43…−58 % (prototype)',
      [-43, -58],
      find(hexagent, /^\* Req99: (−[\d.]+) %/m),
      'hexagent.md',
      'hexagent',
    ),
    gain(
      'an exact `remaining` hint on top, Req95',
      '−15…−21 % (prototype)',
      [-15, -21],
      find(hexagent, /exact `remaining` hint, against `hexagent` without: Req95 (−[\d.]+) %/),
      'hexagent.md',
      'hint',
    ),
  ]
}
