// HexAGenT's evaluation beside ours: `npm run hexagent [-- --out FILE --quick --cells FILE]`.
//
// --cells keeps what was measured, run by run: started again, what is there is not measured again. Of one build only.
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { Measurements } from './measure.js'
import { page } from './page.js'
import { sizes } from './settings.js'

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    quick: { type: 'boolean', default: false },
    cells: { type: 'string' },
  },
})

const say = (message) => console.error(message)
const text = await page(new Measurements(values.cells, say), sizes(values.quick), say)
if (values.out === undefined) console.log(text)
else writeFileSync(values.out, text)
