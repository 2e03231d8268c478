#!/usr/bin/env node
import { flush, run } from './run.ts'

const status = await run(process.argv.slice(2))
await flush()
// Not exitCode: a thread that is still stopping, or an open pipe, must not keep a finished command alive.
process.exit(status)
