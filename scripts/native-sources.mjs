// Lists the C++ sources for binding.gyp: the core's folders, or the binding alone.
import { readdirSync } from 'node:fs'

const core = [
  'base',
  'model',
  'cluster',
  'workflow',
  'order',
  'placement',
  'planner',
  'scheduler',
  'workload',
  'simulator',
]
const folders = process.argv[2] === 'binding' ? ['binding'] : core
for (const folder of folders) {
  for (const name of readdirSync(`native/${folder}`).sort()) {
    if (name.endsWith('.cc')) console.log(`native/${folder}/${name}`)
  }
}
