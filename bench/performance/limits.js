// The limit of a row: what memory and the boundary alone would charge for the least that has to move. Nothing is computed in it,
// no branch is taken, and every access is in the right place at once, so nothing that does the work can reach it; it says how
// much of a row is not for moving things.
//
// Traffic is a list of parts, each with counts
//   jumps      loads that wait for one before them
//   bytes      read or written
//   reach      bytes among which the two lie: it decides which cache they come from
//   crossings  calls into native code
//   sixes      times six numbers written into shared memory (an event is one)
//   promises   made, resolved and awaited
//   signals    AbortControllers made

/** By kind: points (reach, ns) of memory, ns of the rest. */
export function costsOf(machineRows) {
  const costs = { jump: [], byte: [] }
  for (const { value, cost } of machineRows) {
    if (cost.reach === undefined) costs[cost.kind] = value
    else costs[cost.kind].push([cost.reach, value])
  }
  return costs
}

/** Between two measured reaches by the logarithm of the reach. */
export function atReach(points, reach) {
  if (reach <= points[0][0]) return points[0][1]
  for (let i = 1; i < points.length; i += 1) {
    const [[r0, ns0], [r1, ns1]] = [points[i - 1], points[i]]
    if (reach > r1) continue
    return ns0 + ((ns1 - ns0) * Math.log(reach / r0)) / Math.log(r1 / r0)
  }
  return points.at(-1)[1]
}

export function limitNs(traffic, costs) {
  let ns = 0
  for (const part of traffic) {
    const reach = part.reach ?? 0
    ns += (part.jumps ?? 0) * atReach(costs.jump, reach)
    ns += (part.bytes ?? 0) * atReach(costs.byte, reach)
    ns += (part.crossings ?? 0) * costs.crossing
    ns += (part.sixes ?? 0) * costs.six
    ns += (part.promises ?? 0) * costs.promise
    ns += (part.signals ?? 0) * costs.signal
  }
  return ns
}

const NANOS = { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 }

export const isRate = (unit) => unit.startsWith('calls/s')

/** With `limit` in the row's unit and `distance`, how many times further than that it is. */
export function withLimits(row, costs) {
  if (row.traffic === undefined) return row
  const { traffic, ...rest } = row
  const ns = limitNs(traffic, costs)
  if (isRate(row.unit)) return { ...rest, limit: 1e9 / ns, distance: 1e9 / ns / row.value }
  const limit = ns / NANOS[row.unit.split(' ')[0]]
  return { ...rest, limit, distance: row.value / limit }
}
