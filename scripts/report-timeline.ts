// How fast a report with a million calls opens: `tsx scripts/report-timeline.ts [workflows]`, after `npm run build`.
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { simulateDocument } from '../lib/cli/simulate.ts'
import { htmlReport } from '../lib/report/html/report.ts'
import { checkResult } from '../lib/report/result/read.ts'
import { saveText } from '../lib/report/result/save.ts'
import { simulate } from '../lib/simulator/simulate.ts'
import { chessTrace } from '../lib/traces/chess.ts'
import { findChromium, launch } from '../test/browser/chromium.ts'

const OPENINGS = 5
const workflows = Number(process.argv[2] ?? 48_000)

const path = findChromium()
if (path === undefined) throw new Error('No Chromium: set CHROMIUM_PATH')
const folder = await mkdtemp(join(tmpdir(), 'laxity-timeline-'))
try {
  const trace = await chessTrace({ workflows, preset: 3, seed: 1 })
  const result = await simulate({ trace, cluster: 'hexgen-hetero-2', rate: 0.3, perCall: true })
  const document = JSON.parse(JSON.stringify(simulateDocument(result, { perCall: true })))
  const file = join(folder, 'report.html')
  await saveText(file, [htmlReport([checkResult(document, 'result: ')])])
  const { size } = await stat(file)
  console.log(`${trace.calls.toLocaleString('en-US')} calls, ${(size / 1e6).toFixed(1)} MB`)

  const browser = await launch(path)
  const opened: number[] = []
  let zoomed = ''
  for (let i = 0; i < OPENINGS; i++) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
    await page.goto(pathToFileURL(file).href, { waitUntil: 'commit' })
    await page.waitForSelector('html[data-ready]', { state: 'attached', timeout: 60_000 })
    opened.push(
      await page.evaluate<number>('performance.getEntriesByName("laxity-report-ready")[0].startTime'),
    )
    if (i + 1 === OPENINGS) {
      await page.emulateMedia({ reducedMotion: 'reduce' })
      zoomed = await page.evaluate<string>(measureZoom())
    }
    await page.close()
  }
  await browser.close()
  const sorted = opened.toSorted((a, b) => a - b)
  console.log(
    `opens in ${sorted.map((ms) => (ms / 1000).toFixed(2)).join(', ')} s (from navigation to the drawn timeline)`,
  )
  console.log(`zoom steps from the whole run: ${zoomed} ms a frame`)
} finally {
  await rm(folder, { recursive: true })
}

/** Frame times of twelve steps of zooming in. */
function measureZoom(): string {
  return `(async () => {
    const canvas = document.querySelector('canvas')
    const times = []
    for (let i = 0; i < 12; i++) {
      const before = performance.now()
      canvas.dispatchEvent(new KeyboardEvent('keydown', { key: '+' }))
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
      times.push(Math.round(performance.now() - before))
    }
    return times.join(', ')
  })()`
}
