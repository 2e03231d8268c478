// Writes the published JSON Schemas from the zod schemas: `npm run schemas`.
import { writeFileSync } from 'node:fs'
import { pricesJsonSchema } from '../lib/capacity/prices.ts'
import { clusterJsonSchema } from '../lib/cluster/schema.ts'
import { hardwareJsonSchema } from '../lib/model/schema.ts'
import { studyJsonSchema } from '../lib/study/schema.ts'
import { traceJsonSchema } from '../lib/traces/schema.ts'

const schemas = {
  'trace.schema.json': traceJsonSchema(),
  'cluster.schema.json': clusterJsonSchema(),
  'hardware.schema.json': hardwareJsonSchema(),
  'study.schema.json': studyJsonSchema(),
  'prices.schema.json': pricesJsonSchema(),
}

for (const [name, schema] of Object.entries(schemas)) {
  writeFileSync(new URL(`../schemas/${name}`, import.meta.url), `${JSON.stringify(schema, null, 2)}\n`)
}
