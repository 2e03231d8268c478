// What V8 wrote about the sources below a folder: of every process and thread, by NODE_V8_COVERAGE.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { decode } from '@jridgewell/sourcemap-codec'

/**
 * A source is compiled in two ways, as a module and as CommonJS (a thread of piscina requires its module); both may be
 * loaded in one process under one URL, of which Node then writes the last source map only. So counters are kept by URL
 * and length, and a map is taken from whichever process wrote that of this length.
 *
 * @param {string} folder of the coverage-*.json
 * @param {(url: string) => boolean} wanted
 * @returns {Map<string, { ran: Uint8Array, segments: number[][][], starts: number[] }[]>} by URL, its versions: whether
 *   each character ran anywhere, the decoded mappings of each line, and where the lines start
 * @throws where a map is missing: what ran would be guessed
 */
export function readCounters(folder, wanted) {
  const urls = new Map()
  const version = (url, length) => {
    if (!urls.has(url)) urls.set(url, new Map())
    const byLength = urls.get(url)
    if (!byLength.has(length)) byLength.set(length, { ran: new Uint8Array(length) })
    return byLength.get(length)
  }
  for (const name of readdirSync(folder)) {
    const report = complete(readFileSync(join(folder, name), 'utf8'))
    if (report === undefined) continue
    for (const { url, functions } of report.result) {
      if (!wanted(url)) continue
      const length = Math.max(...functions.map(({ ranges }) => ranges[0].endOffset))
      const { ran } = version(url, length)
      const counted = painted(functions, length)
      for (let i = 0; i < length; i += 1) ran[i] |= counted[i]
    }
    for (const [url, { lineLengths, data }] of Object.entries(report['source-map-cache'] ?? {})) {
      if (!wanted(url) || !data) continue
      const starts = []
      let next = 0
      for (const length of lineLengths) {
        starts.push(next)
        next += length + 1
      }
      const mapped = version(url, next - 1)
      if (mapped.segments === undefined) Object.assign(mapped, { segments: decode(data.mappings), starts })
    }
  }
  const versions = new Map()
  for (const [url, byLength] of urls) {
    for (const [length, { segments }] of byLength)
      if (segments === undefined)
        throw new Error(`no source map of the ${length} characters that ran as ${url}`)
    versions.set(url, [...byLength.values()])
  }
  return versions
}

/** Undefined where the process was killed while it wrote. */
function complete(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Whether each character ran: the innermost range around it decides. */
function painted(functions, length) {
  const out = new Uint8Array(length)
  const ranges = functions.flatMap((f) => f.ranges)
  ranges.sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset)
  for (const { startOffset, endOffset, count } of ranges) out.fill(count > 0 ? 1 : 0, startOffset, endOffset)
  return out
}
