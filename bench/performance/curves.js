// Cost against size: the points of a run by plot and series, and the exponent of each series.

/** A standard error above which a series has no single exponent. */
const VAGUE = 0.25

/** y = c x^k by least squares on the logarithms: k, its standard error (undefined below three points), c. */
export function fitPower(points) {
  const n = points.length
  const xs = points.map(({ x }) => Math.log(x))
  const ys = points.map(({ y }) => Math.log(y))
  const mean = (values) => values.reduce((a, b) => a + b, 0) / n
  const [mx, my] = [mean(xs), mean(ys)]
  const sxx = xs.reduce((sum, x) => sum + (x - mx) ** 2, 0)
  const k = xs.reduce((sum, x, i) => sum + (x - mx) * (ys[i] - my), 0) / sxx
  const residual = xs.reduce((sum, x, i) => sum + (ys[i] - my - k * (x - mx)) ** 2, 0)
  const error = n > 2 ? Math.sqrt(residual / (n - 2) / sxx) : undefined
  return { k, error, c: Math.exp(my - k * mx), vague: error > VAGUE }
}

/** Series of one run: {plot, series, axis, unit, points: [{x, y, low, high}], skipped: [{x, seconds}], fit, tail}. */
export function curvesOf(rows) {
  const curves = new Map()
  const curve = ({ plot, series, axis }) => {
    const key = `${plot} ${series} ${axis}`
    if (!curves.has(key)) curves.set(key, { plot, series, axis, points: [], skipped: [] })
    return curves.get(key)
  }
  for (const { point, skipped, value, low, high, unit } of rows) {
    if (skipped) curve(skipped).skipped.push(skipped)
    if (!point) continue
    const of = curve(point)
    of.unit = unit
    of.points.push({ x: point.x, y: value, low, high })
  }
  return [...curves.values()].map((of) => ({
    ...of,
    fit: of.points.length > 1 ? fitPower(of.points) : undefined,
    // Where the largest sizes are steeper than the whole, a part that does not grow is being left behind.
    tail: of.points.length > 3 ? fitPower(of.points.slice(-3)) : undefined,
  }))
}
