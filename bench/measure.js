// What suites share: CPU time of this process, medians, rounding.

export function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]
}

export function round(value, digits = 3) {
  return Number(value.toPrecision(digits))
}

/** CPU time of the process while `work` runs, ns. */
export function cpuNs(work) {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) * 1000
}
