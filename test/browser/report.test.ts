import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parse } from 'csv-parse/sync'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { simulateDocument } from '../../lib/cli/simulate.ts'
import { tuneDocument } from '../../lib/cli/tune.ts'
import { htmlReport } from '../../lib/report/html/report.ts'
import { encodeColumn } from '../../lib/report/result/columns.ts'
import { checkResult } from '../../lib/report/result/read.ts'
import type { SimulateDocument } from '../../lib/report/result/schema.ts'
import { loadNative, simulate } from '../../lib/simulator/simulate.ts'
import { runInMemory } from '../../lib/study/run.ts'
import { runCount } from '../../lib/study/study.ts'
import { summarise } from '../../lib/study/summary.ts'
import { chessTrace } from '../../lib/traces/chess.ts'
import { sweep } from '../../lib/tuning/sweep.ts'
import { SMALL, studyOf } from '../support/study.ts'
import { findChromium, launch } from './chromium.ts'

const HOSTILE = `</script><script>window.hit = 1</script><img src=x onerror="window.hit = 2">`
const DESKTOP: BrowserContextOptions = { viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' }
const PHONE: BrowserContextOptions = {
  ...DESKTOP,
  viewport: { width: 390, height: 844 },
  deviceScaleFactor: 2,
}
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

async function runOf(options: object): Promise<SimulateDocument> {
  const trace = await chessTrace({ workflows: 40, preset: 3, seed: 1 })
  const result = await simulate({ trace, cluster: 'hexgen-hetero-2', rate: 1, perCall: true, ...options })
  return JSON.parse(JSON.stringify(simulateDocument(result, { perCall: true })))
}

/** Every axis of a grid, a policy under which some workflows never finish at some rates. */
async function studyPage(): Promise<object> {
  const study = await studyOf({
    ...SMALL,
    policies: ['hexgen-flow', 'laxity', { order: 'fcfs', placement: 'least-loaded', name: HOSTILE }],
    parameters: { alpha: [0, 0.5, 1] },
    seeds: [1, 2, 3],
    scales: [1, 2, 5],
  })
  const { chunks, layout } = await runInMemory(study, { workers: 1 })
  const cells = await summarise(await loadNative(), study, layout, {
    chunks: async function* () {
      yield* chunks
    },
  })
  cells[3]!.p95Ms = { mean: Number.POSITIVE_INFINITY, ci95: null }
  const { id, name, version, seeds, options } = study
  const runs = runCount(study)
  return JSON.parse(
    JSON.stringify({ command: 'study', id, name, version, runs, doneRuns: runs, seeds, options, cells }),
  )
}

/** A sweep with its best run, one run with two tenants, and a comparison. */
async function pages(): Promise<Record<string, string>> {
  const trace = await chessTrace({ workflows: 40, preset: 3, seed: 1 })
  const swept = await sweep({ trace, cluster: 'hexgen-hetero-2', rate: 1, replications: 4, bound: true })
  const best = await runOf({ alpha: swept.best.alpha })
  const tune = { ...JSON.parse(JSON.stringify(tuneDocument(swept))), run: best }
  const tenants = await runOf({ policy: 'laxity', tenants: 'relaxed=2,strict=1' })
  const row = { cluster: 'c', load: 0.9, knowledge: 'online', feedback: 'boundary' }
  const limits = {
    bound95: 1.5,
    bound99: 1.8,
    bound100: 2.2,
    reference95: 1.7,
    reference99: 2,
    reference100: 2.5,
  }
  const compare = {
    command: 'compare',
    rows: ['a', 'b'].flatMap((workload) =>
      ['hexagent', 'workflow-fcfs/least-loaded'].map((policy, i) => ({
        ...row,
        policy,
        workload,
        req95: 2 + i,
        req99: null,
        meanMs: 1500,
        planUs: { p50: 10, p99: 90 },
        attainment: [1, 2, 3, 4].map((scale) => [scale, Math.min(1, scale / (3 + i))]),
        ...(workload === 'a' && { bound: { ...limits, over95: 1.3 + i, over99: null, over100: 1.2 } }),
      })),
    ),
  }
  const hostile = structuredClone(tenants)
  const { perCall } = hostile
  perCall!.stages = perCall!.stages.map((_, i) => `${HOSTILE}${i}`)
  perCall!.tenants = perCall!.tenants.map((_, i) => `${HOSTILE}${i}`)
  perCall!.workflowIds = Array.from({ length: 40 }, (_, i) => `${HOSTILE}${i}`)
  for (const instance of perCall!.instances) instance.label = HOSTILE
  const nothing = structuredClone(best)
  const { calls, workflows } = nothing.perCall!
  calls.instance = encodeColumn(new Uint16Array(calls.stage.length).fill(65535))
  for (const name of ['waitNs', 'prefillNs', 'decodeNs'] as const)
    calls[name] = encodeColumn(new Float64Array(calls.stage.length).fill(Number.NaN))
  workflows.latencyNs = encodeColumn(new Float64Array(40).fill(Number.POSITIVE_INFINITY))
  const report = (...documents: unknown[]) =>
    htmlReport(documents.map((document) => checkResult(document, 'test: ')))
  return {
    tune: report(tune),
    several: report(compare, best, tenants),
    hostile: report(hostile),
    nothing: report(nothing),
    study: report(await studyPage()),
  }
}

describe('a report in a browser', function () {
  this.timeout(120_000)
  let browser: Browser | undefined
  let folder: string
  let screenshots: string
  let names: string[]

  before(async function () {
    const path = findChromium()
    if (path === undefined) {
      console.log('      skipped: no Chromium. Install it, or say where it is in CHROMIUM_PATH.')
      this.skip()
    }
    folder = mkdtempSync(join(tmpdir(), 'laxity-browser-'))
    screenshots = mkdtempSync(join(tmpdir(), 'laxity-screenshots-'))
    const made = await pages()
    names = Object.keys(made)
    for (const [name, page] of Object.entries(made)) writeFileSync(join(folder, `${name}.html`), page)
    browser = await launch(path)
  })

  after(async () => {
    await browser?.close()
    if (folder !== undefined) rmSync(folder, { recursive: true })
  })

  /** Opens a page, acts, and wants neither messages on the console nor requests beside the page itself. */
  async function visit(name: string, options: BrowserContextOptions, act: (page: Page) => Promise<void>) {
    const context = await browser!.newContext(options)
    try {
      const page = await context.newPage()
      const problems: string[] = []
      page.on('console', (message) => problems.push(`${message.type()}: ${message.text()}`))
      page.on('pageerror', (error) => problems.push(error.message))
      page.on('request', (request) => {
        if (!request.url().startsWith('file:') || request.resourceType() !== 'document')
          problems.push(request.url())
      })
      await page.goto(pathToFileURL(join(folder, `${name}.html`)).href)
      await page.waitForSelector('html[data-ready]', { state: 'attached' })
      await act(page)
      assert.deepEqual(problems, [])
    } finally {
      await context.close()
    }
  }

  it('opens without errors or requests, and fits its width', async () => {
    for (const name of names) {
      for (const options of [DESKTOP, PHONE]) {
        await visit(name, options, async (page) => {
          const [width, room] = await page.evaluate<[number, number]>(
            '[document.documentElement.scrollWidth, innerWidth]',
          )
          assert(width <= room, `${name}: ${width} px on a page of ${room} px`)
          assert.equal(await page.evaluate('window.hit'), undefined)
          const empty = await page.evaluate<string[]>(
            `[...document.querySelectorAll('.plot')].filter((plot) => plot.childElementCount === 0).map((plot) => plot.id)`,
          )
          assert.deepEqual(empty, [])
        })
      }
    }
  })

  it('is drawn again where theme, width or medium change', async () => {
    await visit('tune', { ...DESKTOP, colorScheme: 'light' }, async (page) => {
      const stroke = () =>
        page.evaluate<string>(`document.querySelector('.plot svg path[stroke]').getAttribute('stroke')`)
      const width = () => page.evaluate<number>(`document.querySelector('.plot svg').viewBox.baseVal.width`)
      const [light, wide] = [await stroke(), await width()]
      await page.emulateMedia({ colorScheme: 'dark' })
      await page.waitForTimeout(200)
      assert.notEqual(await stroke(), light)
      await page.setViewportSize({ width: 390, height: 800 })
      await page.waitForTimeout(200)
      assert((await width()) < wide / 2)
    })
  })

  it('has no serious accessibility violation, light or dark, wide or narrow', async () => {
    for (const name of ['tune', 'several', 'study']) {
      for (const options of [DESKTOP, PHONE]) {
        for (const colorScheme of ['light', 'dark'] as const) {
          // Every page in both themes, one of them at both widths.
          if (name !== 'tune' && (options === PHONE) !== (colorScheme === 'dark')) continue
          await visit(name, { ...options, colorScheme }, async (page) => {
            await page.evaluate(
              `document.querySelectorAll('details').forEach((details) => { details.open = true })`,
            )
            await page.evaluate(AXE)
            const found = await page.evaluate<{ id: string; impact: string; nodes: { html: string }[] }[]>(
              `axe.run().then(({ violations, passes }) => [...violations, ...passes.map(({ id }) => ({ id, impact: 'none', nodes: [] }))])`,
            )
            // It looked: rules that have something to judge on this page.
            for (const rule of [
              'color-contrast',
              'button-name',
              'scrollable-region-focusable',
              ...(name === 'study' ? [] : ['select-name']),
            ])
              assert(
                found.some(({ id }) => id === rule),
                rule,
              )
            const serious = found.filter(({ impact }) => impact === 'serious' || impact === 'critical')
            assert.deepEqual(
              serious.map(({ id, nodes }) => `${id}: ${nodes[0]!.html.slice(0, 200)}`),
              [],
            )
          })
        }
      }
    }
  })

  it('gives the keyboard every control, with a focus that is seen', async () => {
    for (const name of ['tune', 'study'])
      await visit(name, DESKTOP, async (page) => {
        const wanted = await page.evaluate<number>(`(() => {
        const all = [...document.querySelectorAll('a[href], button, select, summary, [tabindex="0"]')]
        all.forEach((element, i) => { element.dataset.control = String(i) })
        return all.length
      })()`)
        assert(wanted > 40)
        const reached = new Set<string>()
        for (let k = 0; k < 2 * wanted; k++) {
          await page.keyboard.press('Tab')
          const focus = await page.evaluate<{
            control?: string
            tag: string
            outline: string
            label: string
          }>(`(() => {
          const element = document.activeElement
          const { outlineStyle, outlineWidth } = getComputedStyle(element)
          return {
            control: element.dataset.control,
            tag: element.tagName,
            outline: outlineStyle + ' ' + outlineWidth,
            label: element.getAttribute('aria-label') ?? element.textContent,
          }
        })()`)
          if (focus.control === undefined || reached.has(focus.control)) continue
          reached.add(focus.control)
          assert.equal(focus.outline, 'solid 2px', focus.tag)
          assert.notEqual(focus.label.trim(), '')
          if (focus.tag === 'SUMMARY') await page.keyboard.press('Enter')
        }
        assert.equal(reached.size, wanted)
      })
  })

  it('has a timeline that keys zoom, move and ask', async () => {
    await visit('tune', DESKTOP, async (page) => {
      const canvas = page.locator('canvas')
      const status = () => page.locator('.status').textContent()
      const picture = () => page.evaluate<string>(`document.querySelector('canvas').toDataURL()`)
      await canvas.focus()
      const seen = [await picture()]
      const press = async (key: string) => {
        await page.keyboard.press(key)
        await page.waitForTimeout(60)
        seen.push(await picture())
      }
      const range = async () => {
        const [, from, to] = /^([\d.,]+) m?s to ([\d.,]+) s in view/.exec((await status())!)!
        return [Number(from), Number(to)] as const
      }
      await press('Home')
      const whole = await range()
      await press('+')
      const zoomed = await range()
      assert(zoomed[1] - zoomed[0] < 0.7 * (whole[1] - whole[0]))
      await press('ArrowRight')
      const moved = await range()
      assert(moved[0] > zoomed[0] && Math.abs(moved[1] - moved[0] - (zoomed[1] - zoomed[0])) < 2)
      await press('ArrowDown')
      assert.match((await status())!, /^Instance 0 A100/)
      assert.equal(await page.locator('.controls select').inputValue(), '0')
      await press('n')
      assert.match((await status())!, /, call \d+ of workflow w\d+, on 0 A100: leased at .* tokens\.$/)
      await press('Escape')
      assert.match((await status())!, /Nothing/)
      // Every key but Home, which had nothing to do, changed the picture.
      assert.equal(new Set(seen.slice(1)).size, seen.length - 1)
      await page.locator('.controls select').selectOption('')
      await page.getByRole('button', { name: 'Whole run' }).click()
      await page.waitForTimeout(60)
      const box = (await canvas.boundingBox())!
      // The middle of the lowest lane of the first instance is busy for most of a run.
      const height = await page.evaluate<number>(`document.querySelector('canvas').clientHeight`)
      await canvas.click({ position: { x: box.width * 0.3, y: height / 4 - 2 } })
      assert.match((await status())!, /, call \d+ of workflow/)
    })
  })

  /** Presses every such button. A page may save ten files without asking: SVG and CSV have a visit each. */
  async function saved(page: Page, format: 'svg' | 'csv'): Promise<string[]> {
    const texts: string[] = []
    for (const button of await page.locator(`button[data-save="${format}"]`).all()) {
      const [download] = await Promise.all([page.waitForEvent('download'), button.click()])
      assert.match(download.suggestedFilename(), new RegExp(`^figure-\\d+\\.${format}$`))
      texts.push(readFileSync((await download.path())!, 'utf8'))
    }
    return texts
  }

  it('saves figures as SVG that stand alone, light whatever the screen is', async () => {
    await visit('tune', { ...DESKTOP, acceptDownloads: true, colorScheme: 'dark' }, async (page) => {
      const texts = await saved(page, 'svg')
      assert.equal(texts.length, 8)
      for (const text of texts) {
        const problem = await page.evaluate(
          `(() => {
            const parsed = new DOMParser().parseFromString(${JSON.stringify(text)}, 'image/svg+xml')
            if (parsed.querySelector('parsererror')) return parsed.textContent
            if (parsed.documentElement.namespaceURI !== 'http://www.w3.org/2000/svg') return 'no namespace'
            return parsed.querySelector('svg > title') && parsed.querySelector('svg > desc') ? '' : 'no title'
          })()`,
        )
        assert.equal(problem, '')
        assert(text.includes('#1c1f23') && !text.includes('#16181b'))
      }
    })
  })

  it('saves the data of figures as CSV', async () => {
    await visit('tune', { ...DESKTOP, acceptDownloads: true }, async (page) => {
      const texts = await saved(page, 'csv')
      assert.equal(texts.length, 8)
      const tables = texts.map((text) => parse(text) as string[][])
      assert.deepEqual(tables[0]![0], ['series', 'Dispatch weight α', 'P95 latency', 'low', 'high'])
      assert.equal(tables[0]!.length, 12)
      const calls = tables[6]!
      const { trace } = await runOf({})
      assert.equal(calls.length, trace.calls + 1)
      assert.equal(calls[0]!.at(-1), 'finished_ms')
    })
  })

  it('keeps hostile names out of what it saves, too', async () => {
    await visit('hostile', { ...DESKTOP, acceptDownloads: true }, async (page) => {
      for (const text of await saved(page, 'svg')) assert.doesNotMatch(text, /<script|<img/)
      await page.locator('canvas').focus()
      await page.keyboard.press('n')
      assert.match((await page.locator('.status').textContent())!, /<img src=x/)
      assert.equal(await page.evaluate('window.hit'), undefined)
    })
  })

  it('looks right: screenshots for people', async () => {
    const looks = { desktop: DESKTOP, phone: PHONE, dark: { ...DESKTOP, colorScheme: 'dark' as const } }
    for (const [look, options] of Object.entries(looks)) {
      for (const name of look === 'desktop' ? ['tune', 'several', 'study'] : ['tune', 'study']) {
        await visit(name, options, async (page) => {
          const image = await page.screenshot({
            path: join(screenshots, `${name}-${look}.png`),
            fullPage: true,
          })
          assert(image.length > 50_000)
        })
      }
    }
    console.log(`      ${screenshots}`)
  })
})
