import type { ScriptStep } from '../native.ts'
import type { OptionReader } from '../simulator/validate.ts'

const KINDS = ['up', 'drain', 'down', 'speed']
const KEYS = ['atMs', 'instance', 'kind', 'factor']
const LONGEST_MS = 1e12
const MOST_STEPS = 100_000

/** `script` of a run: shapes and ranges; which instances there are is the core's to know. */
export function readScript(reader: OptionReader): readonly ScriptStep[] | undefined {
  const given = reader.raw('script')
  if (given === undefined) return undefined
  if (!Array.isArray(given) || given.length > MOST_STEPS) {
    reader.wrong(`a list of at most ${MOST_STEPS} steps`, 'script', given)
    return undefined
  }
  let last = 0
  for (const [i, step] of given.entries()) {
    const place = `script[${i}]`
    if (typeof step !== 'object' || step === null) {
      reader.wrong('{ atMs, instance, kind }', place, step)
      return undefined
    }
    const { atMs, instance, kind, factor } = step as Record<string, unknown>
    const unknown = Object.keys(step).find((name) => !KEYS.includes(name))
    if (unknown !== undefined) reader.add(`Unknown option \`${place}.${unknown}\``, `${place}.${unknown}`)
    if (!isIn(atMs, last, LONGEST_MS))
      reader.wrong('milliseconds, not before the step in front of it', `${place}.atMs`, atMs)
    else last = atMs
    if (!isIn(instance, 0, 65_535) || !Number.isInteger(instance))
      reader.wrong('the position of an instance', `${place}.instance`, instance)
    if (!KINDS.includes(kind as string)) reader.wrong(`one of ${KINDS.join(', ')}`, `${place}.kind`, kind)
    if (kind === 'speed' ? !isIn(factor, 0.01, 100) : factor !== undefined)
      reader.wrong('with `speed` a number from 0.01 to 100, else nothing', `${place}.factor`, factor)
  }
  return given as readonly ScriptStep[]
}

function isIn(value: unknown, low: number, high: number): value is number {
  return typeof value === 'number' && value >= low && value <= high
}
