// After tsc: the CommonJS side of the package, and only the declarations that users can reach.
//
// `require` gives the same modules as `import` (Node loads ES modules with `require` from 20.19 and 22.12 on), so there
// is one copy of the code. TypeScript tells the two apart by folder: dist/commonjs repeats the declarations.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'

const ROOT = 'dist'
const COMMON = join(ROOT, 'commonjs')
const { exports } = JSON.parse(readFileSync('package.json', 'utf8'))
const entries = Object.values(exports).flatMap((target) => (target.import ? [target.import.default] : []))

const reached = new Set()
function reach(file) {
  if (reached.has(file)) return
  if (!existsSync(file)) throw new Error(`${file} is missing`)
  reached.add(file)
  for (const [, path] of readFileSync(file, 'utf8').matchAll(/(?:from |import\()['"](\.[^'"]+)['"]/g))
    reach(join(dirname(file), path).replace(/\.[jt]s$/, '.d.ts'))
}
for (const entry of entries) reach(join(entry).replace(/\.js$/, '.d.ts'))

for (const file of readdirSync(ROOT, { recursive: true })) {
  const path = join(ROOT, file)
  if (path.endsWith('.d.ts') && !path.startsWith(COMMON) && !reached.has(path)) rmSync(path)
}
for (const file of reached) {
  const copy = join(COMMON, relative(ROOT, file))
  mkdirSync(dirname(copy), { recursive: true })
  copyFileSync(file, copy)
}
for (const entry of entries) {
  const copy = join(COMMON, relative(ROOT, entry))
  const target = relative(dirname(copy), entry)
  writeFileSync(copy, `module.exports = require('${target}')\n`)
}
writeFileSync(join(COMMON, 'package.json'), '{ "type": "commonjs" }\n')
