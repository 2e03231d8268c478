import { createHash } from 'node:crypto'
import { count } from '../units.ts'
import { readAssets } from './assets.ts'
import { Html, html, scriptJson, typeset } from './escape.ts'
import type { DataTable } from './figure.ts'
import type { PageFigure, PageSection, PageTable } from './report.ts'

/** The whole page as text. */
export function renderPage(title: string, sections: readonly PageSection[]): string {
  const { script, style } = readAssets()
  // Only this script runs, and nothing is fetched: whatever a name holds, it stays text.
  const policy = [
    "default-src 'none'",
    `script-src 'sha256-${createHash('sha256').update(script).digest('base64')}'`,
    "style-src 'unsafe-inline'",
    'img-src blob: data:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ')
  const figures = sections.flatMap((section) => section.figures)
  const numbers = new Map(figures.map(({ figure }, i) => [figure.id, i + 1]))
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="laxity">
<title>${title}</title>
<style>${new Html(style)}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the results</a>
<header>
<p class="kicker">laxity · report</p>
<h1>${title}</h1>
</header>
<main id="main">
${figures.length > 1 ? contents(figures) : undefined}
${sections.map((section, i) => renderSection(section, i + 1, numbers))}
</main>
<footer>
<p>Made by laxity. This file holds all its data and needs no network. Charts are drawn with Observable Plot and D3 (ISC licence).</p>
</footer>
<noscript><p class="noscript">Figures need JavaScript; the tables behind them do not.</p></noscript>
<script type="application/json" id="figures">${scriptJson(figures.map(({ figure }) => figure))}</script>
${figures.map(({ timeline }) => (timeline === undefined ? undefined : columns(timeline)))}
<script>${new Html(script)}</script>
</body>
</html>
`
  return page.text
}

function contents(figures: readonly PageFigure[]): Html {
  const items = figures.map(
    ({ figure }) => html`<li><a href="#${figure.id}">${figure.title}</a></li>
`,
  )
  return html`<nav aria-label="Figures"><h2>Figures</h2><ol>
${items}</ol></nav>`
}

function renderSection(section: PageSection, number: number, numbers: ReadonlyMap<string, number>): Html {
  const id = `section-${number}`
  return html`<section aria-labelledby="${id}">
<h2 id="${id}">${section.title}</h2>
${section.text.map((text) => html`<p class="finding">${typeset(text)}</p>`)}
${section.facts.length > 0 ? facts(section.facts) : undefined}
${section.tables.map(renderTable)}
${section.figures.map((figure) => renderFigure(figure, numbers.get(figure.figure.id)!))}
</section>
`
}

function facts(list: PageSection['facts']): Html {
  return html`<dl class="facts">
${list.map(
  ([name, text]) => html`<div><dt>${name}</dt><dd>${typeset(text)}</dd></div>
`,
)}</dl>`
}

function renderTable({ title, data }: PageTable): Html {
  return html`<div class="table" role="region" aria-label="${title}" tabindex="0">${dataTable(data, title)}</div>`
}

function dataTable({ head, rows, note }: DataTable, caption: string): Html {
  return html`<table><caption>${caption}</caption>
<thead><tr>${head.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>
${rows.map(
  ([
    first,
    ...rest
  ]) => html`<tr><th scope="row">${first}</th>${rest.map((cell) => html`<td>${cell}</td>`)}</tr>
`,
)}</tbody></table>${note === undefined ? undefined : html`<p>${note}</p>`}`
}

function renderFigure({ figure, data, timeline }: PageFigure, number: number): Html {
  const { id, title, caption, kind } = figure
  return html`<figure id="${id}" class="${kind}" aria-labelledby="${id}-title" aria-describedby="${id}-caption">
<h3 id="${id}-title"><span class="number">Figure ${number}.</span> ${title}</h3>
<div class="plot" id="${id}-plot"></div>
${timeline === undefined ? undefined : html`<p class="summary" id="${id}-summary">${typeset(timeline.summary)}</p>`}
<figcaption id="${id}-caption">${typeset(caption)}</figcaption>
<div class="actions">
<button type="button" data-save="svg" data-figure="${id}" aria-label="Save figure ${number} as SVG">SVG</button>
<button type="button" data-save="csv" data-figure="${id}" aria-label="Save the data of figure ${number} as CSV">CSV</button>
<details><summary>Data table<span class="hidden"> of figure ${number}</span></summary>
<div class="table" role="region" aria-label="Data of figure ${number}" tabindex="0">${dataTable(data, title)}</div>
</details>
</div>
</figure>
`
}

function columns(timeline: NonNullable<PageFigure['timeline']>): Html {
  const { figure } = timeline
  const parts = Object.entries(timeline.columns).map(
    ([name, { data }]) =>
      // Base64 needs no escaping.
      html`<script type="text/plain" id="${figure.id}-${name}">${new Html(data)}</script>
`,
  )
  return html`<!-- ${count(figure.calls)} calls: byte planes, deflated, base64 -->
${parts}`
}
