// Numbers and rows for people.

const SHORT = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 })
/** Three significant digits, thousands set apart. */
export const number = (value) => SHORT.format(value)

export const machineLine = ({ cpu, cores, memoryGiB, platform, node, load1 }) =>
  `${cores} cores of ${cpu}, ${memoryGiB} GiB, ${platform}, Node ${node.slice(1)}; load average before the run ${load1}`

export const rangeOf = ({ low, high }) => (low === undefined ? '' : `${number(low)}–${number(high)}`)

/** One line in a terminal. */
export function rowText(row) {
  if (row.skipped) {
    const { series, x, axis, seconds } = row.skipped
    return `${series}, ${x} ${axis}: left out, about ${seconds} s`
  }
  const parts = [row.name.padEnd(64), number(row.value).padStart(12), row.unit]
  if (row.low !== undefined) parts.push(`[${rangeOf(row)}]`)
  if (row.limit !== undefined) parts.push(`limit ${number(row.limit)} (${number(row.distance)}×)`)
  if (row.target !== undefined) parts.push(`target ${number(row.target)}`)
  if (row.note) parts.push(row.note)
  return parts.join(' ')
}
