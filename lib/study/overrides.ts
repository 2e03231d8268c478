import type { LatencyOverrides } from '../cluster/overrides.ts'
import { readOverrides } from '../simulator/prepare.ts'
import { OptionReader } from '../simulator/validate.ts'

const NAMES = ['latency', 'model', 'gpu', 'tp']

/** The options that change what clusters cost, checked as `simulate` does. @throws LaxityError */
export function overridesOf(options: object): LatencyOverrides {
  const own = Object.fromEntries(Object.entries(options).filter(([name]) => NAMES.includes(name)))
  const reader = new OptionReader(own, NAMES)
  const overrides = readOverrides(reader)
  reader.problems.throwIfAny()
  return overrides ?? {}
}
