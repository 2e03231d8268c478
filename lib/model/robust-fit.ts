import { levenbergMarquardt } from 'ml-levenberg-marquardt'

const LOOK = 10

export interface RobustFit {
  /** Starting points, each within the bounds; the most promising is followed to its end. */
  starts: readonly (readonly number[])[]
  low: readonly number[]
  high: readonly number[]
  /** Where parameters span decades and none may be 0: fit their logarithms. */
  logarithmic: boolean
  measured: Float64Array
  /** The model's times under trial parameters, all above 0. */
  model: (parameters: readonly number[]) => Float64Array
  /** Relative errors beyond this count linearly, not squared. */
  softness: number
  iterations?: number
}

/**
 * Minimises the soft-L1 loss of ln(model / measured) within bounds. Squaring the root of the loss turns it into the
 * least squares that Levenberg-Marquardt solves: sum of 2 (sqrt(1 + z²) − 1) = sum of g(z)², z = ln(…) / softness.
 */
export function fitRobust(fit: RobustFit): { parameters: number[]; loss: number } {
  const { measured, softness, logarithmic } = fit
  const toInner = (values: readonly number[]) => (logarithmic ? values.map(Math.log) : [...values])
  const toOuter = (values: readonly number[]) => (logarithmic ? values.map(Math.exp) : [...values])
  const residuals = new Float64Array(measured.length)
  const indices = Array.from(measured, (_, row) => row)
  const data = { x: indices, y: new Array<number>(measured.length).fill(0) }
  const residualOf = (inner: number[]) => {
    const times = fit.model(toOuter(inner))
    // A copy per call: the library keeps several at once.
    const values = new Float64Array(residuals.length)
    for (let row = 0; row < values.length; row++) {
      const z = Math.log(times[row]! / measured[row]!) / softness
      values[row] = Math.sign(z) * Math.sqrt(2 * (Math.sqrt(1 + z * z) - 1))
    }
    return (row: number) => values[row]!
  }
  const solve = (start: readonly number[], maxIterations: number) => {
    const { parameterValues, parameterError } = levenbergMarquardt(data, residualOf, {
      initialValues: [...start],
      minValues: toInner(fit.low),
      maxValues: toInner(fit.high),
      gradientDifference: 1e-4,
      centralDifference: true,
      damping: 1e-2,
      maxIterations,
      errorTolerance: 1e-12,
    })
    return { inner: parameterValues, loss: parameterError }
  }
  // A short look from each start, then the best one to its end: the library has no test of convergence.
  const looks = fit.starts.map((start) => solve(toInner(start), LOOK))
  const best = looks.reduce((one, other) => (other.loss < one.loss ? other : one))
  const { inner, loss } = solve(best.inner, fit.iterations ?? 60)
  return { parameters: toOuter(inner), loss }
}
