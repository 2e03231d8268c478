// Lists the C++ sources for binding.gyp and the native tests: the core's folders, or with `binding` that folder alone.
import { readdirSync } from 'node:fs'

const binding = process.argv[2] === 'binding'
const folders = readdirSync('native', { withFileTypes: true }).filter((entry) => entry.isDirectory())
for (const { name: folder } of folders.sort((a, b) => a.name.localeCompare(b.name))) {
  if ((folder === 'binding') !== binding) continue
  for (const file of readdirSync(`native/${folder}`).sort()) {
    if (file.endsWith('.cc')) console.log(`native/${folder}/${file}`)
  }
}
