import { describe, LaxityError } from '../errors.ts'

const MOST_POINTS = 10_001
const DECIMAL = /^([+-]?)(\d{1,15})(?:\.(\d{0,15}))?$/

/**
 * The points of `from:to:step` (step up to the last one not beyond `to`), of a list `0,0.2,0.5`, or of one number.
 * Decimals are counted exactly, so 0:1:0.1 holds 0.3 and never 0.30000000000000004. Ascending, each point once.
 *
 * @throws LaxityError ERR_LAXITY_OPTION
 */
export function parseGrid(text: string, name: string): number[] {
  const fail = (): never => {
    const message = `Expected \`from:to:step\`, a list or a number for \`${name}\`, got ${describe(text)}`
    throw new LaxityError('ERR_LAXITY_OPTION', message, name)
  }
  const parts = text.trim().split(':')
  if (parts.length === 1) {
    const points = parts[0]!.split(',').map((item) => parseDecimal(item.trim()) ?? fail())
    return ascending(points.map(toNumber))
  }
  const [from, to, step] = parts.map((part) => parseDecimal(part.trim()) ?? fail())
  if (parts.length !== 3 || from === undefined || to === undefined || step === undefined) return fail()

  const digits = Math.max(from.digits, to.digits, step.digits)
  const [low, high, width] = [scaled(from, digits), scaled(to, digits), scaled(step, digits)]
  if (width <= 0n || low > high) return fail()
  const count = (high - low) / width + 1n
  if (count > BigInt(MOST_POINTS)) {
    const message = `\`${name}\` has ${count} points: at most ${MOST_POINTS} are supported`
    throw new LaxityError('ERR_LAXITY_OPTION', message, name)
  }
  return Array.from({ length: Number(count) }, (_, i) => toNumber({ units: low + BigInt(i) * width, digits }))
}

export function ascending(points: readonly number[]): number[] {
  return [...new Set(points.map((point) => point + 0))].sort((a, b) => a - b)
}

/** units × 10^−digits */
interface Decimal {
  units: bigint
  digits: number
}

function parseDecimal(text: string): Decimal | undefined {
  const match = DECIMAL.exec(text)
  if (match === null) return undefined
  const [, sign, whole, fraction = ''] = match
  const units = BigInt(whole! + fraction)
  return { units: sign === '-' ? -units : units, digits: fraction.length }
}

function scaled({ units, digits }: Decimal, to: number): bigint {
  return units * 10n ** BigInt(to - digits)
}

/** The double nearest to the decimal: through text, since a division would round twice. */
function toNumber({ units, digits }: Decimal): number {
  return Number(`${units}e-${digits}`)
}
