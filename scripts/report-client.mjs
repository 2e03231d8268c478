// Bundles the report page's script and style into dist, minified: they are inlined in every report.
import { build } from 'esbuild'

const { outputFiles } = await build({
  entryPoints: { client: 'lib/report/html/client/main.ts' },
  outdir: 'dist/report/html',
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['chrome110', 'firefox115', 'safari16.4'],
  charset: 'utf8',
  legalComments: 'none',
  write: false,
})
const { mkdirSync, writeFileSync } = await import('node:fs')
mkdirSync('dist/report/html', { recursive: true })
for (const { path, text } of outputFiles) {
  // Inside a page either would end or open an element early.
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${path} cannot be inlined`)
  writeFileSync(path, text)
}
